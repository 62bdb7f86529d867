"""The table of pivots: its columns, its order, its filter."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from sessions.columns import FAILED, UNKNOWN, VERIFIED
from tui.numbers import nats
from tui.plaintext import one_line
from tui.views.cache import CACHE_WORDS
from tui.views.words import change, signed
from tui.widgets.table import Column

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sessions.campaign import CampaignState
    from sessions.columns import PivotColumns, Real, Whole
    from tui.widgets.ink import Span

    Mask = Callable[[PivotColumns], NDArray[np.bool_]]

NARROW: Final = (
    Column("task", 6, "right"),
    Column("r", 3, "right"),
    Column("@pos", 5, "right"),
    Column("margin", 6, "right"),
    Column("ex-1", 4, "right"),
    Column("ex-2", 4, "right"),
    Column("re-f", 4, "right"),
    Column("K", 3, "right"),
    Column("re-feed", 7),
    Column("floor", 5),
    Column("cache", 5),
    Column("actual / alternative", 0),
)
MEDIUM: Final = (*NARROW[:-1], Column("hit", 5, "right"), Column("decode", 6, "right"), NARROW[-1])
WIDE: Final = (
    *MEDIUM[:-1],
    Column("twins", 5, "right"),
    Column("probe replica", 13, "right"),
    Column("probe re-feed", 13, "right"),
    Column("right in ex-1", 13, "right"),
    Column("re-fed", 9, "right"),
    Column("rank", 4, "right"),
    Column("counts", 6),
    NARROW[-1],
)
WIDTHS: Final = ((170, WIDE), (100, MEDIUM), (0, NARROW))

SORTS: Final = ("order of work", "task", "position", "margin", "change when re-fed", "change in replica", "probe shift")


def columns(width: int) -> tuple[Column, ...]:
    """Columns that fit."""
    return next(found for least, found in WIDTHS if width >= least)


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


HELP: Final = "flip zero same  floor  miss ok  task:7  r:3  k:4  or text of a token; ! before a word negates"


class FilterError(ValueError):
    """A word of a filter that means nothing."""


def _signs(pivots: PivotColumns, other: Whole) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.sign(pivots.whole("net_exact1")), np.sign(pivots.whole(other))


def disagrees(pivots: PivotColumns, other: Whole = "net_refeed") -> NDArray[np.bool_]:
    """Rows whose sign differs from exact-1's, bool [rows]."""
    first, second = _signs(pivots, other)
    differ: NDArray[np.bool_] = first != second
    return differ


def _flips(pivots: PivotColumns) -> NDArray[np.bool_]:
    first, second = _signs(pivots, "net_refeed")
    reversed_: NDArray[np.bool_] = first * second < 0
    return reversed_


_WORDS: Final[dict[str, Mask]] = {
    "flip": _flips,
    "zero": lambda pivots: disagrees(pivots) & ~_flips(pivots),
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


class PivotRows:
    """Pivots as rows of a table; a row's name is its place in the journal's order."""

    def __init__(self, state: CampaignState, rows: NDArray[np.int64] | None, wide: int) -> None:
        """Show these rows of `state.pivots` (None: all) in as many columns as `columns(wide)` has."""
        self._state = state
        self._rows = rows
        self._count = len(state.pivots) if rows is None else len(rows)
        self._columns = columns(wide)
        self._places: dict[int, int] | None = None

    def __len__(self) -> int:
        """How many."""
        return self._count

    def key(self, row: int) -> int:
        """Place in the journal's order."""
        return row if self._rows is None else int(self._rows[row])

    def find(self, key: int) -> int | None:
        """Row of a pivot."""
        if self._rows is None:
            return key if key < self._count else None
        found = np.flatnonzero(self._rows == key)
        return int(found[0]) if len(found) > 0 else None

    def cells(self, row: int) -> tuple[Span, ...]:
        """One pivot."""
        place = self.key(row)
        return _cells(self._state, place, extra=len(self._columns) - len(NARROW))

    def next_disagreement(self, row: int, step: int) -> int | None:
        """The nearest row after (step 1) or before (-1) this one whose sign changes when re-fed."""
        mask = disagrees(self._state.pivots)
        mask = mask[: self._count] if self._rows is None else mask[self._rows]
        found = np.flatnonzero(mask)
        found = found[found > row] if step > 0 else found[found < row]
        if len(found) == 0:
            return None
        return int(found[0] if step > 0 else found[-1])


def _cells(state: CampaignState, row: int, extra: int) -> tuple[Span, ...]:
    pivots = state.pivots
    cell = pivots.cell
    first, second, third = cell(row, "net_exact1"), cell(row, "net_exact2"), cell(row, "net_refeed")
    again, replica = change(first, third), change(first, second)
    word, ink = CACHE_WORDS[cell(row, "cache")]
    actual, alternative = pivots.texts[row]
    lead: tuple[Span, ...] = (
        (str(cell(row, "problem")), "plain"),
        (str(cell(row, "rollout")), "plain"),
        (str(cell(row, "position")), "plain"),
        (f"{pivots.real('margin')[row]:.3f}", "muted"),
        (signed(first), "plain"),
        (signed(second), "plain"),
        (signed(third), "plain"),
        (str(cell(row, "k")), "muted"),
        (again, "refeed" if again != "same" else "muted"),
        (replica, "floor" if replica != "same" else "muted"),
        (word.strip(), ink),
    )
    text = f'"{one_line(actual, 60)}" / "{one_line(alternative, 60)}"' if actual or alternative else ""
    tail: tuple[Span, ...] = ((text, "plain"),)
    if extra == 0:
        return lead + tail
    hits: tuple[Span, ...] = (
        (_known(cell(row, "hit_tokens")), "muted"),
        (_known(cell(row, "decode_tokens")), "muted"),
    )
    if extra == len(MEDIUM) - len(NARROW):
        return lead + hits + tail
    return lead + hits + _wide(state, row) + tail


def _wide(state: CampaignState, row: int) -> tuple[Span, ...]:
    pivots = state.pivots
    cell = pivots.cell
    evidence = cell(row, "cache") != FAILED
    problem = state.problems.get(cell(row, "problem"))
    stands = problem is not None and problem.attempt == cell(row, "attempt")
    counted = "yes" if evidence and stands and problem is not None and problem.outcome == "measured" else "no"
    replica = _shift(pivots, row, "probe_exact2_actual", "probe_exact2_alternative")
    refeed = _shift(pivots, row, "probe_refeed_actual", "probe_refeed_alternative")
    return (
        (str(cell(row, "twins")), "muted"),
        (nats(replica), "floor"),
        (nats(refeed), "refeed"),
        (f"{_known(cell(row, 'actual_exact1'))} : {_known(cell(row, 'alternative_exact1'))}", "plain"),
        (f"{_known(cell(row, 'actual_refeed'))} : {_known(cell(row, 'alternative_refeed'))}", "plain"),
        (_known(cell(row, "rank")), "muted"),
        (counted, "plain" if counted == "yes" else "muted"),
    )


def _shift(pivots: PivotColumns, row: int, actual: Real, alternative: Real) -> float | None:
    """Larger |first logprob - exact-1's| of both arms, nats; None where a probe is absent."""
    arms: tuple[tuple[Real, Real], ...] = ((actual, "probe_exact1_actual"), (alternative, "probe_exact1_alternative"))
    found = [abs(float(pivots.real(one)[row] - pivots.real(base)[row])) for one, base in arms]
    return None if any(math.isnan(shift) for shift in found) else max(found)


def _known(value: int) -> str:
    return "-" if value == UNKNOWN else str(value)
