"""The dashboard's numbers, one closed problem at a time, in O(1) each; equal to the batch functions on every prefix."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from stats.clustered import Pooled, ProblemMean, pooled, problem_mean
from stats.counts import Condition, Disagreement, Eligibility, ProblemTally, empty, tally
from stats.rates import RateInterval, clustered_rate
from stats.sequential import Monitor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stats.table import PivotTable


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """Pooled rates over all problems up to and including `problem`, with clustered intervals."""

    problem: int
    refeed: RateInterval
    floor: RateInterval


def tallies(table: PivotTable) -> Iterator[ProblemTally]:
    """Every problem of a table, in registered order."""
    edges = np.searchsorted(table.group, np.arange(len(table.problems) + 1))
    for row, problem in enumerate(table.problems):
        yield tally(int(problem), table.net[edges[row] : edges[row + 1]].tolist())


@dataclass(slots=True)
class Live:
    """Running state of one campaign. Only closed problems enter, in registered order.

    Attributes:
        pivots: verified pivots so far.
        common, exact1: both conditionings so far.
        eligibility: where eligibility came from so far.
        monitor: the e-processes and the plain t.
    """

    alpha: float = 0.05
    pivots: int = 0
    common: Disagreement = field(default_factory=lambda: empty("common"))
    exact1: Disagreement = field(default_factory=lambda: empty("exact1"))
    eligibility: Eligibility = field(default_factory=lambda: Eligibility(0, 0, 0))
    monitor: Monitor = field(init=False)
    _closed: list[ProblemTally] = field(default_factory=list)
    _trends: dict[Condition, list[TrendPoint]] = field(default_factory=lambda: {"common": [], "exact1": []})

    def __post_init__(self) -> None:
        """Start the monitor."""
        self.monitor = Monitor(self.alpha)

    def close(self, closed: ProblemTally) -> None:
        """Take one closed problem."""
        self.pivots += closed.pivots
        self.common = self.common.plus(closed.common)
        self.exact1 = self.exact1.plus(closed.exact1)
        self.eligibility = self.eligibility.plus(closed.eligibility)
        self.monitor.update(
            closed.problem, closed.common.refeed.disagree - closed.common.floor.disagree, closed.common.n
        )
        self._closed.append(closed)

    @property
    def problems(self) -> int:
        """Closed problems."""
        return self.monitor.measured

    @property
    def informative(self) -> int:
        """Closed problems with at least one eligible pivot."""
        return self.monitor.informative

    def pooled_excess(self, condition: Condition = "common") -> Pooled:
        """Pooled excess with its CR2 error, O(problems)."""
        n, refeed, floor = self._columns(condition)
        return pooled(refeed - floor, n)

    def problem_mean(self, condition: Condition = "common") -> ProblemMean:
        """Per-problem mean excess, O(problems)."""
        n, refeed, floor = self._columns(condition)
        return problem_mean(refeed - floor, n)

    def trend(self, condition: Condition = "common") -> list[TrendPoint]:
        """Rates after each problem; points are computed once, when first asked for."""
        points = self._trends[condition]
        n, refeed, floor = self._columns(condition)
        for end in range(len(points) + 1, len(self._closed) + 1):
            points.append(
                TrendPoint(
                    self._closed[end - 1].problem,
                    clustered_rate(refeed[:end], n[:end]),
                    clustered_rate(floor[:end], n[:end]),
                )
            )
        return points

    def _columns(self, condition: Condition) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Eligible pivots, re-feed and floor disagreements by problem, int64 [problems] each."""
        counts = [closed.common if condition == "common" else closed.exact1 for closed in self._closed]
        rows = [(count.n, count.refeed.disagree, count.floor.disagree) for count in counts]
        n, refeed, floor = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        return n, refeed, floor


def live(table: PivotTable, *, alpha: float = 0.05) -> Live:
    """The running state after all problems of a table."""
    state = Live(alpha)
    for closed in tallies(table):
        state.close(closed)
    return state
