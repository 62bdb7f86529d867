"""What the cache checks of a campaign came to; counted by the caller, for a PivotTable holds verified pivots only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CacheTally:
    """Pivots by cache state.

    Attributes:
        checked: pivots with three ended passes, plus failures.
        verified: of those, proved.
        not_instrumented: pivots of imports that carry no cache counts.
        ledger: verified against the block ledger.
        counts: verified against cached-token counts alone.
        failures: each failure in plain words.
    """

    checked: int = 0
    verified: int = 0
    not_instrumented: int = 0
    ledger: int = 0
    counts: int = 0
    failures: tuple[str, ...] = ()

    @property
    def rate(self) -> float | None:
        """Verified share of the checked pivots; None where none was checked."""
        return self.verified / self.checked if self.checked > 0 else None
