"""Panel 2: every pivot of the journal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
from textual.binding import Binding
from textual.message import Message
from textual.widgets import Input

from sessions.numbers import nats
from sessions.state.columns import FAILED, UNKNOWN
from sessions.text import one_line
from tui.dashboard.panels import query
from tui.dashboard.panels.base import Pane
from tui.dashboard.panels.query import disagrees
from tui.dashboard.panels.rates import CACHE_WORDS
from tui.dashboard.widgets.entry import PlainInput
from tui.dashboard.widgets.lines import Lines
from tui.dashboard.widgets.table import Column, LineTable
from tui.dashboard.words import change, signed

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from textual.app import ComposeResult

    from sessions.state.campaign import CampaignState
    from sessions.state.columns import PivotColumns, Real
    from tui.dashboard.style import Span
    from tui.viewer.session import LiveSession

    Mask = Callable[[PivotColumns], NDArray[np.bool_]]

COUNTED_AFTER = 5000
LONGEST_FILTER = 24  # the order stands behind it


class PivotsPane(Pane):
    """The table of pivots, its filter and its order.

    Attributes:
        query_now: which pivots are shown, in which order.
    """

    title = "Pivots"
    keys: ClassVar = (("/", "filter"), ("s", "sort"), ("d", "disagreement"), ("enter", "inspect"))
    BINDINGS: ClassVar = [
        Binding("slash", "filter", "filter", show=False),
        Binding("s", "sort", "sort", show=False),
        Binding("S", "reverse", "reverse", show=False),
        Binding("d", "disagreement(1)", "next disagreement", show=False),
        Binding("D", "disagreement(-1)", "previous disagreement", show=False),
        Binding("escape", "clear", "clear the filter", show=False),
    ]

    class Inspected(Message):
        """A pivot of the table was chosen: row `key` of `state.pivots`."""

        def __init__(self, table: LineTable, key: int) -> None:
            super().__init__()
            self.table = table
            self.key = key

    def __init__(self, *, id: str) -> None:  # noqa: A002  (Textual's name)
        super().__init__(id=id)
        self.query_now = query.Query()
        self._shown: object = None
        self._session: LiveSession | None = None

    def compose(self) -> ComposeResult:
        """What is shown, the filter, the table."""
        yield Lines(id="pivots-note", classes="note")
        yield PlainInput(placeholder=query.HELP, id="pivots-filter", classes="filter hidden")
        yield LineTable(NARROW, id="pivots-table", follow=True)

    def on_unmount(self) -> None:
        """Let go of the session."""
        self._session = self._shown = None

    @property
    def table(self) -> LineTable:
        """The table."""
        return self.query_one("#pivots-table", LineTable)

    def paint(self, session: LiveSession, *, plots: bool) -> None:
        """Show new pivots; a filter or an order over a long table is brought up at the plots' rate."""
        self._session = session
        state, width = session.state, self.table.room
        shown = (
            session.token,
            len(state.pivots),
            state.events if width >= WIDTHS[0][0] else 0,
            self.query_now,
            width,
        )
        if shown == self._shown or (
            len(state.pivots) > COUNTED_AFTER and not plots and self.query_now != query.Query()
        ):
            return
        self._shown = shown
        try:
            rows = query.chosen(state, self.query_now)
        except query.FilterError as error:
            self._note(str(error), bad=True)
            return
        self.table.show(PivotRows(state, rows, width), columns(width))
        self._note(self._said(len(self.table.rows), len(state.pivots)), bad=False)

    def _said(self, shown: int, there: int) -> str:
        now = self.query_now
        order = f"{query.SORTS[now.sort]}{', backwards' if now.descending else ''}"
        kept = f" that match {one_line(now.filter, LONGEST_FILTER)!r}" if now.filter else ""
        return f"{shown:,} of {there:,} pivots{kept}, by {order}"

    def _note(self, text: str, *, bad: bool) -> None:
        self.query_one("#pivots-note", Lines).show((((text, "warn" if bad else "muted"),),))

    def _ask(self, wanted: query.Query) -> None:
        self.query_now = wanted
        self.table.follow = wanted == query.Query() and self.table.follow
        if self._session is not None:
            self.paint(self._session, plots=True)

    def action_filter(self) -> None:
        """Open the filter."""
        field = self.query_one("#pivots-filter", Input)
        field.remove_class("hidden")
        field.value = self.query_now.filter
        field.focus()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Apply the filter."""
        message.stop()
        message.input.add_class("hidden")
        self.table.focus()
        self._ask(query.Query(message.value.strip(), self.query_now.sort, self.query_now.descending))

    def action_clear(self) -> None:
        """Close the filter, or clear it when it is closed."""
        field = self.query_one("#pivots-filter", Input)
        if not field.has_class("hidden"):
            field.add_class("hidden")
            self.table.focus()
        else:
            self._ask(query.Query("", self.query_now.sort, self.query_now.descending))

    def action_sort(self) -> None:
        """Order by the next column."""
        self._ask(self.query_now.sorted_by_next())

    def action_reverse(self) -> None:
        """Turn the order round."""
        self._ask(self.query_now.reversed())

    def action_disagreement(self, step: int) -> None:
        """Jump to a pivot whose sign changes when re-fed."""
        rows = self.table.rows
        if isinstance(rows, PivotRows):
            found = rows.next_disagreement(self.table.cursor, step)
            if found is None:
                self.notify("no further disagreement in this direction", markup=False)
            else:
                self.table.jump(found)

    def on_line_table_chosen(self, message: LineTable.Chosen) -> None:
        """Have the pivot shown in full."""
        message.stop()
        self.post_message(self.Inspected(self.table, message.key))

    def copied(self, session: LiveSession) -> str:
        """The rows on screen, tab-separated."""
        del session
        region = self.table.visible_region
        head = "\t".join(column.title for column in self.table.columns)
        last = min(len(self.table.rows), region.y + region.height)
        body = ("\t".join(text for text, _ in self.table.rows.cells(row)) for row in range(region.y, last))
        return "\n".join((head, *body))


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
        self._state = state
        self._rows = rows
        self._count = len(state.pivots) if rows is None else len(rows)
        self._columns = columns(wide)
        self._places: dict[int, int] | None = None

    def __len__(self) -> int:
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
