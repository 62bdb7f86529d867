"""Intervals of the Jaccards: the published ratios, the difference as a paired jackknife sees it, and limit cases."""

from __future__ import annotations

import numpy as np
import pytest

from stats.overlap import jaccard_intervals
from stats.selection import OverlapCounts, overlap_counts
from stats.table import EXACT2, REFEED
from tests.helpers.published import pooled_main


def test_published_jaccards_and_the_jackknife_error_of_their_difference() -> None:
    table = pooled_main()
    refeed, replica = (overlap_counts(table, "0.5", compared) for compared in (REFEED, EXACT2))
    found = jaccard_intervals(refeed, replica)
    assert found.refeed.rate == pytest.approx(184 / 269)
    assert found.replica.rate == pytest.approx(205 / 245)
    assert found.difference == pytest.approx(184 / 269 - 205 / 245)
    left = np.array(
        [
            np.delete(refeed.both, at).sum() / np.delete(refeed.either, at).sum()
            - np.delete(replica.both, at).sum() / np.delete(replica.either, at).sum()
            for at in range(len(refeed.both))
        ]
    )
    jackknife = np.sqrt((len(left) - 1) / len(left) * np.sum((left - left.mean()) ** 2))
    assert found.se == pytest.approx(jackknife, rel=0.1)


def test_empty_union_and_one_problem_have_reasons() -> None:
    none = OverlapCounts(np.array([0, 0]), np.array([0, 0]))
    one = OverlapCounts(np.array([1, 0]), np.array([2, 0]))
    assert jaccard_intervals(none, one).difference is None
    assert jaccard_intervals(one, one).ci95 is None
    assert jaccard_intervals(one, one).why is not None
