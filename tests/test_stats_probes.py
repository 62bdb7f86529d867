"""Order statistics of the probe channel."""

from __future__ import annotations

import numpy as np
import pytest

from stats.probes import ecdf, probes
from stats.table import REFEED_PROBE, REPLICA_PROBE
from tests.helpers.published import load, pooled_main
from tests.helpers.tables import table


def test_published_order_statistics_by_hand() -> None:
    """p90 is sorted[int(.9 n)]; the median of the nonzero takes the upper middle."""
    delta = [(0.0, float(value)) for value in (5, 0, 3, 1, 2, 4, 0, 0, 0, 9)]
    found = probes(table([[(1, 1, 1)] * 10], delta=delta), REFEED_PROBE)
    assert (found.p90, found.median_nonzero, found.bit_exact, found.exact) == (9.0, 4.0, 0.4, 4)


def test_arms_and_divergences_by_hand() -> None:
    """Three of four arms are bit-exact; a pivot whose probes did not record whether they diverged is not counted."""
    evidence = table(
        [[(1, 1, 1)] * 3], delta=[(0.0, 0.5), (0.0, 0.0), (0.0, np.nan)], diverged=[(0, 1), (0, 0), (0, -1)]
    )
    evidence.probe_arm_delta[0, REFEED_PROBE] = (0.0, 0.5)
    found = probes(evidence, REFEED_PROBE)
    assert (found.pivots, found.exact, found.bit_exact, found.bit_exact_arms) == (2, 1, 0.5, 0.75)
    assert (found.diverged_pivots, found.diverged) == (1, 0.5)


def test_arms_are_counted_singly() -> None:
    """A pivot is bit-exact when both arms are, so the share of arms is never below the share of pivots."""
    found = probes(pooled_main(), REFEED_PROBE)
    assert found.bit_exact is not None
    assert found.bit_exact_arms is not None
    assert found.bit_exact_arms > found.bit_exact


def test_ecdf_steps_up_to_one() -> None:
    """Distinct deltas ascending; the first step of the replica is its bit-exact share, as in figure 3."""
    steps = ecdf(load("k8"), REPLICA_PROBE)
    assert np.all(np.diff(steps.delta) > 0)
    assert steps.share[-1] == pytest.approx(1.0)
    assert (steps.delta[0], steps.share[0]) == (0.0, probes(load("k8"), REPLICA_PROBE).bit_exact)


def test_ecdf_without_probes_is_empty() -> None:
    """Nothing to draw, no error."""
    assert len(ecdf(table([[(1, 1, 1)]]), REFEED_PROBE).delta) == 0
