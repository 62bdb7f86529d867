"""What of a journal is evidence, in integers; every reader of sessions asks here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sessions.events import Pivot


class Tally(NamedTuple):
    """Sums over pivots.

    Attributes:
        pivots: that count.
        eligible: those whose estimate is nonzero in at least one pass.
        refeed: pivots whose sign differs between exact-1 and the re-feed pass.
        floor: pivots whose sign differs between exact-1 and exact-2.
        reversals: of `refeed`, those with two nonzero signs.
        floor_reversals: the same of `floor`.
    """

    pivots: int = 0
    eligible: int = 0
    refeed: int = 0
    floor: int = 0
    reversals: int = 0
    floor_reversals: int = 0

    def plus(self, other: Tally) -> Tally:
        """Sum of two tallies."""
        return Tally(*(a + b for a, b in zip(self, other, strict=True)))


def sign(net: int) -> int:
    """-1, 0 or 1."""
    return (net > 0) - (net < 0)


def counts(pivot: Pivot) -> bool:
    """Whether a pivot may be evidence: its cache checks passed, or an import knows nothing of them."""
    return pivot.cache.state != "failed"


def tally(exact1: int, exact2: int, refeed: int) -> Tally:
    """Tally of one pivot from its net counts by pass."""
    first, replica, again = sign(exact1), sign(exact2), sign(refeed)
    return Tally(
        pivots=1,
        eligible=int(first != 0 or replica != 0 or again != 0),
        refeed=int(first != again),
        floor=int(first != replica),
        reversals=int(first * again < 0),
        floor_reversals=int(first * replica < 0),
    )
