"""What disagreed in one problem, counted in plain integers, and the sum over problems.

Free of numpy, so that `refeed-tui list` can count at once. `stats.disagreement` counts whole tables by the same rules
and defines the words; tests hold the two against each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Condition = Literal["common", "exact1"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One pass against exact pass 1 on `n` eligible pivots; `rate` is None where nothing is eligible."""

    n: int
    disagree: int
    zero_crossings: int
    reversals: int

    @property
    def rate(self) -> float | None:
        """Share of the eligible pivots that disagree."""
        return self.disagree / self.n if self.n > 0 else None

    @property
    def reversal_rate(self) -> float | None:
        """Share of the eligible pivots whose credit changes from positive to negative or back (Table 1, "pol.")."""
        return self.reversals / self.n if self.n > 0 else None

    def plus(self, other: Comparison) -> Comparison:
        """Sum of two counts over different pivots."""
        return Comparison(
            self.n + other.n,
            self.disagree + other.disagree,
            self.zero_crossings + other.zero_crossings,
            self.reversals + other.reversals,
        )


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Both comparisons under one conditioning."""

    condition: Condition
    n: int
    refeed: Comparison
    floor: Comparison

    @property
    def excess(self) -> float | None:
        """Pooled excess (sum of re-feed minus floor disagreements) / n, computed before any rounding."""
        return (self.refeed.disagree - self.floor.disagree) / self.n if self.n > 0 else None

    def plus(self, other: Disagreement) -> Disagreement:
        """Sum of two counts over different pivots under the same conditioning."""
        return Disagreement(
            self.condition, self.n + other.n, self.refeed.plus(other.refeed), self.floor.plus(other.floor)
        )


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Why pivots are eligible: exact-1 nonzero, nonzero only under re-feed, nonzero only under the replica."""

    exact1: int
    only_refeed: int
    only_floor: int

    def plus(self, other: Eligibility) -> Eligibility:
        """Sum of two counts over different pivots."""
        return Eligibility(
            self.exact1 + other.exact1, self.only_refeed + other.only_refeed, self.only_floor + other.only_floor
        )


@dataclass(frozen=True, slots=True)
class ProblemTally:
    """One closed problem: its task index, its pivots, and what disagreed under both conditionings."""

    problem: int
    pivots: int
    common: Disagreement
    exact1: Disagreement
    eligibility: Eligibility


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the problems that closed measured.

    Attributes:
        problems: how many.
        informative: of these, problems with at least one eligible pivot.
        pivots: evidence.
        common: what disagreed, over the pivots that are eligible in any pass.
    """

    problems: int
    informative: int
    pivots: int
    common: Disagreement

    def plus(self, closed: ProblemTally) -> Totals:
        """The sums with one more problem in them."""
        return Totals(
            self.problems + 1,
            self.informative + (closed.common.n > 0),
            self.pivots + closed.pivots,
            self.common.plus(closed.common),
        )


def empty(condition: Condition) -> Disagreement:
    """No pivots."""
    nothing = Comparison(0, 0, 0, 0)
    return Disagreement(condition, 0, nothing, nothing)


def no_totals() -> Totals:
    """Sums before the first problem closed."""
    return Totals(0, 0, 0, empty("common"))


def tally(problem: int, nets: Iterable[Sequence[int]]) -> ProblemTally:
    """Count one problem.

    Args:
        problem: task index.
        nets: of its verified pivots, (exact-1, exact-2, re-feed) each; empty for a problem without any.
    """
    signs = [(_sign(first), _sign(replica), _sign(again)) for first, replica, again in nets]
    return ProblemTally(
        problem,
        len(signs),
        _disagreement("common", [one for one in signs if any(one)]),
        _disagreement("exact1", [one for one in signs if one[0] != 0]),
        Eligibility(
            exact1=sum(first != 0 for first, _, _ in signs),
            only_refeed=sum(first == 0 and replica == 0 and again != 0 for first, replica, again in signs),
            only_floor=sum(first == 0 and again == 0 and replica != 0 for first, replica, again in signs),
        ),
    )


def _sign(net: int) -> int:
    return (net > 0) - (net < 0)


def _disagreement(condition: Condition, signs: list[tuple[int, int, int]]) -> Disagreement:
    refeed = _comparison([(first, again) for first, _, again in signs])
    return Disagreement(condition, len(signs), refeed, _comparison([(first, replica) for first, replica, _ in signs]))


def _comparison(pairs: list[tuple[int, int]]) -> Comparison:
    disagree = sum(one != other for one, other in pairs)
    reversals = sum(one * other < 0 for one, other in pairs)
    return Comparison(len(pairs), disagree, disagree - reversals, reversals)
