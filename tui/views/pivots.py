"""The table of pivots: its columns and rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from sessions.columns import FAILED, UNKNOWN
from sessions.words import nats
from tui.plaintext import one_line
from tui.views.cache import CACHE_WORDS
from tui.views.query import disagrees
from tui.views.words import change, signed
from tui.widgets.table import Column

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sessions.campaign import CampaignState
    from sessions.columns import PivotColumns, Real
    from tui.widgets.ink import Span

    Mask = Callable[[PivotColumns], NDArray[np.bool_]]

NARROW: Final = (
    Column("task", 5, "right"),
    Column("r", 3, "right"),
    Column("@pos", 5, "right"),
    Column("margin", 6, "right"),
    Column("ex-1", 4, "right"),
    Column("ex-2", 4, "right"),
    Column("re-f", 4, "right"),
    Column("K", 2, "right"),
    Column("re-feed", 8),
    Column("floor", 8),
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


def columns(width: int) -> tuple[Column, ...]:
    """Columns that fit."""
    return next(found for least, found in WIDTHS if width >= least)


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
