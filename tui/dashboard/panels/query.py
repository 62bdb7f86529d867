"""Which pivots a table shows, in which order: filters by words, sorting by columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from sessions.state.columns import FAILED, VERIFIED

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sessions.state.campaign import CampaignState
    from sessions.state.columns import PivotColumns, Whole

    Mask = Callable[[PivotColumns], NDArray[np.bool_]]


SORTS: Final = ("order of work", "task", "position", "margin", "change when re-fed", "change in replica", "probe shift")


@dataclass(frozen=True, slots=True)
class Query:
    """Which pivots, in which order.

    Attributes:
        filter: words, all of which must hold; see `HELP`.
        sort: index into SORTS.
        descending: the other way round.
    """

    filter: str = ""
    sort: int = 0
    descending: bool = False

    def sorted_by_next(self) -> Query:
        """The same pivots, by the next column."""
        return replace(self, sort=(self.sort + 1) % len(SORTS))

    def reversed(self) -> Query:
        """The same pivots, the other way round."""
        return replace(self, descending=not self.descending)


HELP: Final = "same zero reversed  floor  miss ok  task:7  r:3  k:4  or text of a token; ! before a word negates"


class FilterError(ValueError):
    """A word of a filter that means nothing."""


def _signs(pivots: PivotColumns, other: Whole) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.sign(pivots.whole("net_exact1")), np.sign(pivots.whole(other))


def disagrees(pivots: PivotColumns, other: Whole = "net_refeed") -> NDArray[np.bool_]:
    """Rows whose sign differs from exact-1's, bool [rows]."""
    first, second = _signs(pivots, other)
    differ: NDArray[np.bool_] = first != second
    return differ


def _reversed(pivots: PivotColumns) -> NDArray[np.bool_]:
    first, second = _signs(pivots, "net_refeed")
    opposite: NDArray[np.bool_] = first * second < 0
    return opposite


_WORDS: Final[dict[str, Mask]] = {
    "reversed": _reversed,
    "flip": _reversed,  # its name before
    "zero": lambda pivots: disagrees(pivots) & ~_reversed(pivots),
    "same": lambda pivots: ~disagrees(pivots),
    "floor": lambda pivots: disagrees(pivots, "net_exact2"),
    "miss": lambda pivots: pivots.whole("cache") == FAILED,
    "ok": lambda pivots: pivots.whole("cache") == VERIFIED,
    "right": lambda pivots: pivots.whole("correct") == 1,
    "wrong": lambda pivots: pivots.whole("correct") == 0,
}
_FIELDS: Final[dict[str, Whole]] = {
    "task": "problem",
    "r": "rollout",
    "rollout": "rollout",
    "k": "k",
    "pos": "position",
    "attempt": "attempt",
}


def _mask(word: str, pivots: PivotColumns) -> NDArray[np.bool_]:
    if word.startswith("!") and len(word) > 1:
        return ~_mask(word[1:], pivots)
    name, colon, value = word.partition(":")
    if colon and name in _FIELDS:
        if not value.isdecimal() or len(value) > 18:  # noqa: PLR2004  (digits of an int64)
            raise FilterError(f"{name}: wants a number, not {value!r}")
        equal: NDArray[np.bool_] = pivots.whole(_FIELDS[name]) == int(value)
        return equal
    if word in _WORDS:
        return _WORDS[word](pivots)
    needle = word.casefold()
    found = [needle in actual.casefold() or needle in other.casefold() for actual, other in pivots.texts]
    return np.array(found, dtype=np.bool_)


def _key(sort: int, pivots: PivotColumns) -> NDArray[np.float64]:
    """What rows are sorted by, ascending, float64 [rows]."""
    first = pivots.whole("net_exact1")
    key: NDArray[np.float64] | NDArray[np.int64]
    match SORTS[sort]:
        case "task":
            key = pivots.whole("problem")
        case "position":
            key = pivots.whole("position")
        case "margin":
            key = pivots.real("margin")
        case "change when re-fed":
            key = -np.abs(pivots.whole("net_refeed") - first)
        case "change in replica":
            key = -np.abs(pivots.whole("net_exact2") - first)
        case _:
            shift = pivots.deltas()[:, 1]
            key = -np.where(np.isnan(shift), -1.0, shift)
    return key.astype(np.float64)


def chosen(state: CampaignState, query: Query) -> NDArray[np.int64] | None:
    """Rows of `state.pivots` to show, in order, int64; None for all of them as they came.

    Raises:
        FilterError: a word of the filter means nothing.
    """
    pivots = state.pivots
    if query == Query():
        return None
    rows = np.arange(len(pivots), dtype=np.int64)
    for word in query.filter.split():
        rows = rows[_mask(word, pivots)[rows]]
    if query.sort > 0:
        rows = rows[np.argsort(_key(query.sort, pivots)[rows], kind="stable")]
    return rows[::-1] if query.descending else rows
