"""The dashboard's running state equals the report of everything that has closed."""

from __future__ import annotations

import copy
from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from stats.counts import tally
from stats.disagreement import disagreement, eligibility, problem_counts
from stats.live import Live, live, tallies
from stats.rates import clustered_rate
from stats.report import report
from stats.sequential import monitor
from tests.helpers.published import pooled_main
from tests.helpers.tables import table

NET = st.tuples(*[st.integers(-4, 4)] * 3)
PROBLEMS = st.lists(st.lists(NET, max_size=8), max_size=10)


@given(PROBLEMS)
@settings(deadline=None)
def test_live_equals_batch_on_every_prefix(problems: list[list[tuple[int, int, int]]]) -> None:
    """Both conditionings, eligibility, e-processes and pooled estimates after each closed problem."""
    state = Live()
    for end, closed in enumerate(tallies(table(problems)), start=1):
        state.close(closed)
        batch = table(problems[:end])
        counts = problem_counts(batch)
        assert (state.common, state.exact1) == (disagreement(batch.net), disagreement(batch.net, "exact1"))
        assert (state.eligibility, state.pivots) == (eligibility(batch.net), len(batch.net))
        assert state.monitor == monitor(batch.problems, counts.excess, counts.n)
        expected = report(batch, draws=10)
        assert state.pooled_excess() == expected.pooled_excess
        assert state.problem_mean() == expected.clustered


@given(PROBLEMS, st.integers(0, 10))
@settings(deadline=None)
def test_any_split_gives_the_same_state(problems: list[list[tuple[int, int, int]]], cut: int) -> None:
    """A viewer that attached late, or seeks in a replay, sees what one that watched from the start sees."""
    evidence = table(problems)
    part = Live()
    for closed in islice(tallies(evidence), cut):
        part.close(closed)
    resumed = copy.deepcopy(part)
    for closed in islice(tallies(evidence), cut, None):
        resumed.close(closed)
    assert resumed == live(evidence)


def test_trend_is_the_clustered_rate_of_each_prefix() -> None:
    """Forty points of the published run; the last is the headline, asked for in two goes or in one."""
    evidence = pooled_main()
    counts = problem_counts(evidence)
    state = Live()
    for at, closed in enumerate(tallies(evidence)):
        state.close(closed)
        if at % 7 == 0:
            state.trend()
    points = state.trend()
    assert [point.problem for point in points] == evidence.problems.tolist()
    assert points[-1].refeed == clustered_rate(counts.refeed, counts.n)
    assert points[4].floor == clustered_rate(counts.floor[:5], counts.n[:5])


def test_a_problem_enters_whole_when_it_closes() -> None:
    """There is no way to feed a pivot of an open problem: x_i of a part would bias the sequence."""
    state = Live()
    state.close(tally(5, [(1, 1, 0), (1, 1, 1)]))
    assert (state.problems, state.informative, state.monitor.xs) == (1, 1, [0.5])


def test_a_closed_problem_without_pivots_is_measured() -> None:
    """It is counted, it is not informative, and no process moves."""
    state = Live()
    state.close(tally(5, []))
    assert (state.problems, state.informative, state.monitor.symmetry.e) == (1, 0, 1.0)
