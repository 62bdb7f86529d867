"""How many problems a decision takes: a bootstrap over the problems measured so far.

A decision at level alpha is "the excess is above zero": by the symmetry process, by betting, or by a one-sided t test
at a number of problems fixed in advance. Problems are drawn with replacement from the measured ones, so the answer is
for the observed effect and spread, and for as many problems without eligible pivots as were seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from stats.clustered import ONE_PROBLEM
from stats.confidence import betting_path, plain_t_path, symmetry_path
from stats.disagreement import problem_counts
from stats.distributions import t_quantiles
from stats.sequential import Crossing, monitor

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from stats.table import PivotTable

Procedure = Literal["symmetry", "betting", "fixed_t"]

SHARES: Final = (0.5, 0.8, 0.9)
HORIZON: Final = 500
DRAWS: Final = 1000

_BATCH: Final = 100


@dataclass(frozen=True, slots=True)
class Needed:
    """Measured problems that a share of the drawn campaigns needs; None where the horizon does not reach it.

    Attributes:
        half, four_fifths, nine_tenths: problems by which that share has decided.
        undecided: share of the draws without a decision at the horizon.
    """

    half: int | None
    four_fifths: int | None
    nine_tenths: int | None
    undecided: float


@dataclass(frozen=True, slots=True)
class ProcedurePlan:
    """One procedure.

    Attributes:
        took: measured problems after which it decided on these data, in their order; None if it has not. For fixed_t,
            all of them, if its test at the end is significant.
        anew: problems of a new campaign with the observed effect.
        more: problems beyond the measured ones if this campaign goes on; 0 if it has decided. None for fixed_t, whose
            number is fixed in advance: going on until it is significant is what inflates it.
        why: why it can have decided nothing; None where it could.
    """

    procedure: Procedure
    took: int | None
    anew: Needed
    more: Needed | None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """All procedures, or why there is none.

    Attributes:
        measured, informative: problems so far.
        horizon: informative problems that a draw looks ahead.
    """

    alpha: float
    measured: int
    informative: int
    horizon: int
    draws: int
    seed: int
    rows: tuple[ProcedurePlan, ...]
    why: str | None = None


def plan(table: PivotTable, *, alpha: float = 0.05, seed: int = 0, draws: int = DRAWS, horizon: int = HORIZON) -> Plan:
    """Problems that a decision at `alpha` would have taken, and will take at the observed effect.

    Args:
        table: the evidence so far.
        alpha: one-sided level.
        seed: of the draws.
        draws: simulated campaigns.
        horizon: informative problems after which a draw counts as undecided.

    Raises:
        ValueError: alpha is not in (0, 1), or draws or horizon is not positive.
    """
    if draws < 1 or horizon < 1:
        message = f"draws and horizon must be positive, not {draws} and {horizon}"
        raise ValueError(message)
    counts = problem_counts(table)
    watch = monitor(table.problems, counts.excess, counts.n, alpha=alpha)
    seen = np.array(watch.xs, dtype=np.float64)
    if len(seen) < 2:  # noqa: PLR2004  (one problem has no spread to draw from)
        return Plan(alpha, watch.measured, len(seen), horizon, draws, seed, (), why=ONE_PROBLEM)
    rng = np.random.default_rng(seed)
    drawn = seen[rng.integers(0, len(seen), (draws, horizon))]
    costs = _Costs(rng, len(seen) / watch.measured)

    def sequential(
        procedure: Procedure, path: Callable[[NDArray[np.float64]], NDArray[np.float64]], crossing: Crossing | None
    ) -> ProcedurePlan:
        anew = costs.needed(_crossings(drawn, path, alpha))
        if crossing is not None:
            took = int(np.flatnonzero(table.problems == crossing.problem)[0]) + 1
            return ProcedurePlan(procedure, took, anew, Needed(0, 0, 0, 0.0))
        return ProcedurePlan(procedure, None, anew, costs.needed(_crossings(drawn, path, alpha, seen)))

    rows = (
        sequential("symmetry", symmetry_path, watch.symmetry.crossing),
        sequential("betting", lambda x: betting_path(x, alpha), watch.betting.crossing),
        _fixed(drawn, alpha, costs, watch.measured if _significant(seen[None, :], alpha)[0, -1] else None),
    )
    return Plan(alpha, watch.measured, len(seen), horizon, draws, seed, rows)


@dataclass(frozen=True, slots=True)
class _Costs:
    """Turns informative problems into measured ones: each informative problem brings a few that say nothing."""

    rng: np.random.Generator
    informative_share: float

    def needed(self, stops: NDArray[np.int64]) -> Needed:
        """Quantiles over draws; a stop of 0 means undecided at the horizon."""
        decided = stops > 0
        spare = np.zeros(len(stops), dtype=np.int64)
        if self.informative_share < 1:
            spare[decided] = self.rng.negative_binomial(stops[decided], self.informative_share)
        ordered = np.sort(np.where(decided, stops + spare, np.iinfo(np.int64).max))
        quantiles = [int(ordered[math.ceil(share * len(ordered)) - 1]) for share in SHARES]
        half, four_fifths, nine_tenths = (None if at == np.iinfo(np.int64).max else at for at in quantiles)
        return Needed(half, four_fifths, nine_tenths, float(np.mean(~decided)))


def _crossings(
    drawn: NDArray[np.float64],
    path: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    alpha: float,
    seen: NDArray[np.float64] | None = None,
) -> NDArray[np.int64]:
    """Informative problems, beyond those `seen`, at which each draw first reaches 1/alpha; 0 if it does not."""
    before = 0 if seen is None else len(seen)
    stops = np.zeros(len(drawn), dtype=np.int64)
    for start in range(0, len(drawn), _BATCH):
        rows = drawn[start : start + _BATCH]
        if seen is not None:
            rows = np.concatenate([np.broadcast_to(seen, (len(rows), before)), rows], axis=1)
        reached = path(rows)[:, before:] >= -math.log(alpha)
        stops[start : start + _BATCH] = np.where(reached.any(axis=1), reached.argmax(axis=1) + 1, 0)
    return stops


def _fixed(drawn: NDArray[np.float64], alpha: float, costs: _Costs, took: int | None) -> ProcedurePlan:
    """The fixed number of problems at which a share of the draws is significant, for each share."""
    power = _significant(drawn, alpha).mean(axis=0)
    # power over a bootstrap wobbles: a size counts once no larger one falls short
    sizes = [_first_lasting(power >= share) for share in SHARES]
    half, four_fifths, nine_tenths = (
        None if size is None else math.ceil(size / costs.informative_share) for size in sizes
    )
    return ProcedurePlan("fixed_t", took, Needed(half, four_fifths, nine_tenths, float(1 - power[-1])), None)


def _significant(x: NDArray[np.float64], alpha: float) -> NDArray[np.bool_]:
    """Whether a one-sided t test on the first n of each row rejects, bool of x's shape; never where it is undefined."""
    critical = t_quantiles(np.maximum(np.arange(x.shape[1]), 1), 1 - alpha)
    rejects: NDArray[np.bool_] = plain_t_path(x) > critical
    return rejects


def _first_lasting(reached: NDArray[np.bool_]) -> int | None:
    """One-based index from which all are True; None if the last is not."""
    if not reached[-1]:
        return None
    short = np.flatnonzero(~reached)
    return int(short[-1]) + 2 if len(short) > 0 else 1


def without_peek(made: Plan, why: str | None = None) -> Plan:
    """Take back what the fixed-n t "took": before the planned end of a campaign it has decided nothing.

    Source: statistics.md, "Live inference"; a plain t is valid once, at the planned end.

    Args:
        made: of the evidence so far.
        why: why the t can never decide on these data; None where it can once the campaign is at its planned end.
    """
    rows = tuple(replace(row, took=None, why=why) if row.procedure == "fixed_t" else row for row in made.rows)
    return replace(made, rows=rows)
