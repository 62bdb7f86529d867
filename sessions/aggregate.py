"""What a published file counts by itself, against its own pivots, and how that differs from what is reported here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from sessions.events import Count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions.published import PivotRecord, PublishedRun


class _Pairs(msgspec.Struct, frozen=True):
    """A rate of the published harness: over pivots where exact-1 or the pass that it is compared with is nonzero."""

    eligible: Count
    flips: Count


class Pairs(NamedTuple):
    """One comparison.

    Attributes:
        name: of the pass that exact-1 is compared with.
        said: (changed signs, eligible pivots) by the file's aggregate.
        counted: the same by the file's pivots.
    """

    name: str
    said: tuple[int, int]
    counted: tuple[int, int]


_KEYS: Final = {"re-feed": "primary_exact_vs_refeed", "replica": "floor_exact_vs_exact"}


def pairs(run: PublishedRun) -> Iterator[Pairs]:
    """The comparisons that a file's aggregate has in a form that is known."""
    for name, key in _KEYS.items():
        try:
            said = msgspec.convert((run.aggregate or {}).get(key), _Pairs)
        except msgspec.ValidationError:
            continue
        signs = [(_sign(pivot.estimate_exact1), _sign(_other(pivot, name))) for pivot in run.pivots]
        eligible = [pair for pair in signs if pair != (0, 0)]
        yield Pairs(name, (said.flips, said.eligible), (sum(one != two for one, two in eligible), len(eligible)))


def _other(pivot: PivotRecord, name: str) -> float:
    return pivot.estimate_refeed if name == "re-feed" else pivot.estimate_exact2


def _sign(estimate: float) -> int:
    return (estimate > 0) - (estimate < 0)
