"""Cache checks of a campaign, counted: pivots with three ended passes, plus failures, which stay whatever follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions.state.columns import COUNTS, VERIFIED, PivotColumns
from stats.cache import CacheTally, FailedCheck

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sessions.events import CacheFailure, Pivot


class CacheChecks:
    """Running count of cache checks.

    A pivot that an interrupted attempt verified and a later attempt measures again is one check, so pivots are settled
    when their problem closes. A failure is never taken back: a retry after one is a retry.

    Attributes:
        failed: every failure, by (problem, attempt, rollout, position); rollout None, and the event's seq
            for the position, where no single pivot is to blame.
    """

    def __init__(self, pivots: PivotColumns) -> None:
        """Count over these pivots."""
        self.failed: dict[tuple[int, int, int | None, int], FailedCheck] = {}
        self._pivots = pivots
        self._ledger = 0
        self._counts = 0
        self._unknown = 0

    def pivot_failed(self, pivot: Pivot) -> None:
        """A pivot was recorded as failed; its CacheFailure, if there was one, is the same failure."""
        key = (pivot.problem, pivot.attempt, pivot.rollout, pivot.position)
        self.failed.setdefault(key, FailedCheck(*key, pivot.cache.reason))

    def failure(self, event: CacheFailure) -> None:
        """A request failed; several of one pivot are one failure."""
        one = event.rollout is not None and event.position is not None
        rollout, position = (event.rollout, event.position) if one else (None, None)
        key = (event.problem, event.attempt, rollout, event.seq if position is None else position)
        facts = (event.reason, event.stage, event.request, event.expected, event.found)
        self.failed.setdefault(key, FailedCheck(event.problem, event.attempt, rollout, position, *facts))

    def settle(self, rows: Iterable[int]) -> None:
        """The problem of these pivots closed."""
        ledger, counts, unknown = self._count(rows)
        self._ledger += ledger
        self._counts += counts
        self._unknown += unknown

    def tally(self, waiting: Iterable[int]) -> CacheTally:
        """All checks so far.

        Args:
            waiting: rows of pivots whose problem has not closed.
        """
        ledger, counts, unknown = self._count(waiting)
        ledger, counts = ledger + self._ledger, counts + self._counts
        return CacheTally(
            checked=ledger + counts + len(self.failed),
            verified=ledger + counts,
            not_instrumented=unknown + self._unknown,
            ledger=ledger,
            counts=counts,
            failures=tuple(self.failed.values()),
        )

    def _count(self, rows: Iterable[int]) -> tuple[int, int, int]:
        """Of pivots that did not fail: verified by ledger, verified by counts, not instrumented."""
        ledger = counts = unknown = 0
        for row in rows:
            if self._pivots.cell(row, "cache") != VERIFIED:
                unknown += 1
            elif self._pivots.cell(row, "proof") == COUNTS:
                counts += 1
            else:
                ledger += 1
        return ledger, counts, unknown
