"""Panel 2: every pivot of the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.widgets import Input

from tui.plaintext import one_line
from tui.screens.base import Pane
from tui.screens.inspector import InspectorScreen
from tui.views import pivots, query
from tui.widgets.entry import PlainInput
from tui.widgets.lines import Lines
from tui.widgets.table import LineTable

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from tui.watched import Watched

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

    def __init__(self, *, id: str) -> None:  # noqa: A002  (Textual's name)
        """Show everything, in the order of work."""
        super().__init__(id=id)
        self.query_now = query.Query()
        self._shown: object = None
        self._watched: Watched | None = None

    def compose(self) -> ComposeResult:
        """What is shown, the filter, the table."""
        yield Lines(id="pivots-note", classes="note")
        yield PlainInput(placeholder=query.HELP, id="pivots-filter", classes="filter hidden")
        yield LineTable(pivots.NARROW, id="pivots-table", follow=True)

    def on_unmount(self) -> None:
        """Let go of the session."""
        self._watched = self._shown = None

    @property
    def table(self) -> LineTable:
        """The table."""
        return self.query_one("#pivots-table", LineTable)

    def paint(self, watched: Watched, *, plots: bool) -> None:
        """Show new pivots; a filter or an order over a long table is brought up at the plots' rate."""
        self._watched = watched
        state, width = watched.state, self.table.room
        shown = (
            watched.token,
            len(state.pivots),
            state.events if width >= pivots.WIDTHS[0][0] else 0,
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
        self.table.show(pivots.PivotRows(state, rows, width), pivots.columns(width))
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
        if self._watched is not None:
            self.paint(self._watched, plots=True)

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
        if isinstance(rows, pivots.PivotRows):
            found = rows.next_disagreement(self.table.cursor, step)
            if found is None:
                self.notify("no further disagreement in this direction", markup=False)
            else:
                self.table.jump(found)

    def on_line_table_chosen(self, message: LineTable.Chosen) -> None:
        """Inspect the pivot."""
        message.stop()
        if self._watched is not None:
            self.app.push_screen(InspectorScreen(self._watched, self.table, message.key))

    def copied(self, watched: Watched) -> str:
        """The rows on screen, tab-separated."""
        del watched
        region = self.table.visible_region
        head = "\t".join(column.title for column in self.table.columns)
        last = min(len(self.table.rows), region.y + region.height)
        body = ("\t".join(text for text, _ in self.table.rows.cells(row)) for row in range(region.y, last))
        return "\n".join((head, *body))
