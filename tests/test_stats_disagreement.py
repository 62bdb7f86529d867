"""Sign changes of integer estimates under both conditionings."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stats.disagreement import disagreement, eligibility, problem_counts
from stats.joint import joint
from stats.table import EXACT2, REFEED
from tests.helpers.tables import table

NETS = st.lists(st.tuples(*[st.integers(-8, 8)] * 3), max_size=60)


def test_each_kind_of_change_by_hand() -> None:
    """Crossing to zero, from zero, a reversal, a change of size only, and a pivot nobody counts."""
    net = np.array([(2, 2, 0), (0, 0, 1), (3, 3, -1), (4, 1, 2), (0, 0, 0)])
    common, exact1 = disagreement(net), disagreement(net, "exact1")
    assert (common.n, common.refeed.disagree, common.refeed.zero_crossings, common.refeed.reversals) == (4, 3, 2, 1)
    assert (common.floor.disagree, common.excess) == (0, 0.75)
    assert (exact1.n, exact1.refeed.disagree, exact1.refeed.zero_crossings) == (3, 2, 1)


def test_eligibility_sources_by_hand() -> None:
    """Only re-feed, only the replica, both of them, and exact-1."""
    found = eligibility(np.array([(0, 0, 1), (0, -1, 0), (0, 1, 1), (1, 0, 0), (0, 0, 0)]))
    assert (found.exact1, found.only_refeed, found.only_floor) == (1, 1, 1)


@given(NETS)
def test_kinds_partition_the_disagreements_and_size_does_not_matter(nets: list[tuple[int, int, int]]) -> None:
    """Every disagreement is a crossing or a reversal; only signs count; reversals need a nonzero exact-1."""
    net = np.array(nets, dtype=np.int64).reshape(-1, 3)
    common, exact1 = disagreement(net), disagreement(net, "exact1")
    for found in (common.refeed, common.floor):
        assert found.disagree == found.zero_crossings + found.reversals
    assert disagreement(np.sign(net)) == common
    assert (exact1.refeed.reversals, exact1.floor.reversals) == (common.refeed.reversals, common.floor.reversals)


@given(st.lists(NETS, max_size=6))
def test_problem_counts_add_up(problems: list[list[tuple[int, int, int]]]) -> None:
    """By-problem counts sum to the pooled ones, problems without pivots included as zeros."""
    evidence = table(problems, k=8)
    counts, found = problem_counts(evidence), disagreement(evidence.net)
    sums = (counts.n.sum(), counts.refeed.sum(), counts.floor.sum())
    assert sums == (found.n, found.refeed.disagree, found.floor.disagree)
    assert len(counts.n) == len(problems)


def test_joint_counts_every_eligible_pivot_of_one_k() -> None:
    """Rows are exact-1, columns the compared pass, zero in the middle; another K is on another grid."""
    evidence = table([[(2, 2, 0), (2, 1, 0), (0, 0, -4)], [(8, 8, 8), (0, 0, 0)]], k=[4, 4, 4, 8, 4])
    refeed = joint(evidence, REFEED, 4).counts
    assert refeed.shape == (9, 9)
    assert refeed.sum() == 3
    assert (refeed[2 + 4, 0 + 4], refeed[0 + 4, -4 + 4]) == (2, 1)
    assert joint(evidence, EXACT2, 8).counts[16, 16] == 1


def test_rates_of_one_pivot_are_whole_and_of_none_are_none() -> None:
    """One eligible pivot that reverses is all of them; without any, no rate exists, and none is 0."""
    one = disagreement(np.array([(1, 1, -1)]))
    assert (one.refeed.rate, one.refeed.reversal_rate, one.floor.rate, one.floor.reversal_rate) == (1.0, 1.0, 0.0, 0.0)
    assert one.excess == 1.0
    none = disagreement(np.array([(0, 0, 0)]))
    assert (none.refeed.rate, none.refeed.reversal_rate, none.floor.rate, none.excess) == (None,) * 4
