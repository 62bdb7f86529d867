"""Mean change of credit and the leave-one-problem-out range, against plain loops on the published pivots."""

from __future__ import annotations

import numpy as np
import pytest

from stats.disagreement import problem_counts
from stats.size import credit_change, leave_one_out
from tests.helpers.published import load, pooled_main


def test_change_of_credit_is_the_mean_over_the_eligible_pivots() -> None:
    table = load("k8")
    rows = [(net, k) for net, k in zip(table.net.tolist(), table.k.tolist(), strict=True) if any(net)]
    refeed = sum(abs(net[2] - net[0]) / k for net, k in rows) / len(rows)
    floor = sum(abs(net[1] - net[0]) / k for net, k in rows) / len(rows)
    found = credit_change(table)
    assert (found.refeed, found.floor, found.ratio) == pytest.approx((refeed, floor, refeed / floor))


def test_change_without_floor_has_no_ratio() -> None:
    found = credit_change(load("batchinv"))
    assert (found.refeed, found.floor, found.ratio) == (0.0, 0.0, None)


def test_range_encloses_the_excess_and_needs_two_problems() -> None:
    counts = problem_counts(pooled_main())
    found = leave_one_out(counts.excess, counts.n)
    assert found is not None
    assert found[0] < counts.excess.sum() / counts.n.sum() < found[1]
    assert leave_one_out(np.array([1, 0]), np.array([3, 0])) is None
    assert leave_one_out(np.array([1, 0]), np.array([2, 4])) == (0.0, 0.5)
