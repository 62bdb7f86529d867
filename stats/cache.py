"""What the cache checks of a campaign came to; counted by the caller, for a PivotTable holds verified pivots only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FailedCheck:
    """One pivot, or one problem, whose cache checks failed.

    Attributes:
        problem: task index.
        attempt: of the run of the worker that measured it, from 0.
        rollout: of the pivot; None where no single pivot is to blame.
        position: of the pivot; None where no single pivot is to blame.
        reason: what the engine's check said; empty where it said nothing.
        stage: "trunks" or a pass's name; empty where only the pivot says that it failed.
        request: the first request that failed; empty where it is not known.
        expected: cached tokens that the request had to report; None where the count is not the failure.
        found: cached tokens that it reported; None where it reported none.
        session: that it is of, where several were pooled.
    """

    problem: int
    attempt: int
    rollout: int | None
    position: int | None
    reason: str
    stage: str = ""
    request: str = ""
    expected: int | None = None
    found: int | None = None
    session: str = ""


@dataclass(frozen=True, slots=True)
class CacheTally:
    """Pivots by cache state.

    Attributes:
        checked: pivots with three ended passes, plus failures.
        verified: of those, proved.
        not_instrumented: pivots of imports that carry no cache counts.
        ledger: verified against the block ledger.
        counts: verified against cached-token counts alone.
        failures: every failure, in the order in which they came.
    """

    checked: int = 0
    verified: int = 0
    not_instrumented: int = 0
    ledger: int = 0
    counts: int = 0
    failures: tuple[FailedCheck, ...] = ()

    @property
    def rate(self) -> float | None:
        """Verified share of the checked pivots; None where none was checked."""
        return self.verified / self.checked if self.checked > 0 else None
