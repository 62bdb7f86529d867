"""Intervals of rates and the bounds that stand in for them when nothing was seen."""

from __future__ import annotations

import numpy as np
import pytest

from stats.rates import clustered_rate, nothing_seen, wilson


@pytest.mark.parametrize(
    ("events", "n", "low", "high"), [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (1, 29, 0.0061, 0.1718)]
)
def test_wilson_reproduces_newcombes_table(events: int, n: int, low: float, high: float) -> None:
    """Newcombe 1998, table I, method 3, to the printed digits."""
    found = wilson(n, events / n, 1.959964)
    assert (round(found[0], 4), round(found[1], 4)) == (low, high)


def test_independent_pivots_keep_their_number() -> None:
    """One pivot a problem: the design effect is n / (n - 1), the CR2 of independent data, and nothing else."""
    events = np.array([1, 0, 0, 1, 0, 0, 0, 1, 0, 0])
    found = clustered_rate(events, np.ones(10, dtype=np.int64))
    assert found.n_effective == pytest.approx(9)


def test_clustering_costs_pivots() -> None:
    """All-or-nothing problems are worth one observation each, not ten."""
    events = np.array([10, 0, 0, 10, 0, 10, 0, 0])
    found = clustered_rate(events, np.full(8, 10))
    assert found.n_effective == pytest.approx(7)


@pytest.mark.parametrize("everything", [0, 1])
def test_rates_of_zero_and_one_have_no_interval(everything: int) -> None:
    """The clustered error does not exist there; the reason is given."""
    n = np.array([3, 5, 9])
    found = clustered_rate(everything * n, n)
    assert (found.rate, found.ci95) == (float(everything), None)
    assert found.why == "undefined: all 3 problems have the same ratio"


def test_bounds_of_nothing_follow_the_rule_of_three() -> None:
    """1 - .05^(1/n) is about 3/n; without pivots there is no bound."""
    found = nothing_seen(1000, 100)
    assert found is not None
    assert found.independent == pytest.approx(0.003, rel=0.01)
    assert found.over_problems == pytest.approx(0.03, rel=0.02)
    assert nothing_seen(0, 0) is None


def test_clustered_interval_covers() -> None:
    """30 problems whose own rates vary (beta 2, 6): the interval of the mean rate covers it 93-98% of the time."""
    rng = np.random.default_rng(8)
    covered = 0
    for _ in range(1500):
        n = rng.integers(5, 41, 30)
        interval = clustered_rate(rng.binomial(n, rng.beta(2, 6, 30)), n).ci95
        assert interval is not None
        covered += interval[0] <= 0.25 <= interval[1]
    assert 0.93 <= covered / 1500 <= 0.98
