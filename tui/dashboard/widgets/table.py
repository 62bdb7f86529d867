"""A table of any length: only the rows on screen are ever built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from rich.cells import cell_len, set_cell_size
from textual.binding import Binding
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView

from tui.dashboard.style import Inked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.events import Click
    from textual.strip import Strip

    from tui.dashboard.style import Ink, Span


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, its width in cells (0 takes what is left), and on which side its text stands."""

    title: str
    width: int
    align: Literal["left", "right"] = "left"


class Rows(Protocol):
    """What a table shows. A key names a row over sorting, filtering and growth."""

    def __len__(self) -> int:
        """How many rows."""

    def cells(self, row: int) -> Sequence[Span]:
        """One span a column."""

    def key(self, row: int) -> int:
        """Name of a row."""

    def find(self, key: int) -> int | None:
        """Row of a name; None when it is not shown."""


class NoRows:
    """An empty table."""

    def __len__(self) -> int:
        return 0

    def cells(self, row: int) -> Sequence[Span]:
        """There are none."""
        raise IndexError(row)

    def key(self, row: int) -> int:
        """There are none."""
        raise IndexError(row)

    def find(self, key: int) -> int | None:
        """There are none."""
        del key
        return None


class LineTable(ScrollView, Inked, can_focus=True):
    """Rows with a header and a cursor. While the cursor is on the last row, it follows what is added."""

    COMPONENT_CLASSES = Inked.COMPONENT_CLASSES  # Textual inherits them along the first base alone
    BINDINGS: ClassVar = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup,ctrl+b", "page(-1)", "page up", show=False),
        Binding("pagedown,ctrl+f", "page(1)", "page down", show=False),
        Binding("home,g", "edge(-1)", "first", show=False),
        Binding("end,G", "edge(1)", "last", show=False),
        Binding("enter", "choose", "open", show=False),
    ]

    cursor: reactive[int] = reactive(0)

    class Chosen(Message):
        """Enter or a click on the cursor's row."""

        def __init__(self, table: LineTable, key: int) -> None:
            super().__init__()
            self.table = table
            self.key = key

        @property
        def control(self) -> LineTable:
            """The table."""
            return self.table

    class Moved(Message):
        """The cursor is on another row."""

        def __init__(self, table: LineTable, key: int) -> None:
            super().__init__()
            self.table = table
            self.key = key

        @property
        def control(self) -> LineTable:
            """The table."""
            return self.table

    def __init__(self, columns: Sequence[Column], *, id: str | None = None, follow: bool = False) -> None:  # noqa: A002  (Textual's name)
        """Start without rows.

        Args:
            columns: from the left.
            id: of the widget.
            follow: start at the end and stay there.
        """
        super().__init__(id=id)
        self.columns = tuple(columns)
        self.rows: Rows = NoRows()
        self.follow = follow

    def show(self, rows: Rows, columns: Sequence[Column] | None = None) -> None:
        """Replace rows, and columns if given. The cursor stays on its row, or at the end when it was there."""
        key = self.key
        self.rows = rows
        if columns is not None:
            self.columns = tuple(columns)
        count = len(rows)
        self.virtual_size = Size(self.size.width, count + 1)
        if self.follow:
            place = max(0, count - 1)
        else:
            found = None if key is None else rows.find(key)
            place = min(self.cursor, max(0, count - 1)) if found is None else found
        if place == self.cursor and self.follow:
            self._reveal()
        self.cursor = place
        self.refresh()

    def on_unmount(self) -> None:
        """Let go of the rows, and of what they read: others may hold on to a widget that went."""
        self.rows = NoRows()

    @property
    def key(self) -> int | None:
        """Name of the cursor's row; None without rows."""
        return self.rows.key(self.cursor) if self.cursor < len(self.rows) else None

    def jump(self, row: int) -> None:
        """Put the cursor on a row."""
        self.follow = False
        self.cursor = max(0, min(row, len(self.rows) - 1))

    def watch_cursor(self) -> None:
        """Keep the cursor on screen and tell whoever shows details."""
        self._reveal()
        self.refresh()
        key = self.key
        if key is not None:
            self.post_message(self.Moved(self, key))

    def on_resize(self) -> None:
        """Keep the cursor on screen."""
        self.virtual_size = Size(self.size.width, len(self.rows) + 1)
        self._reveal()

    def _reveal(self) -> None:
        if self.size.height < 2:  # noqa: PLR2004  (a header and one row)
            return
        body = self.size.height - 1
        top = round(self.scroll_y)
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False)
        elif self.cursor >= top + body:
            self.scroll_to(y=self.cursor - body + 1, animate=False)

    def action_move(self, by: int) -> None:
        """Move the cursor by rows."""
        self._go(self.cursor + by)

    def action_page(self, by: int) -> None:
        """Move the cursor by screens."""
        self._go(self.cursor + by * max(1, self.size.height - 2))

    def action_edge(self, end: int) -> None:
        """Move the cursor to the first or the last row."""
        self._go(0 if end < 0 else len(self.rows) - 1)

    def _go(self, row: int) -> None:
        last = len(self.rows) - 1
        self.cursor = max(0, min(row, last))
        self.follow = self.cursor == last

    def action_choose(self) -> None:
        """Open the cursor's row."""
        key = self.key
        if key is not None:
            self.post_message(self.Chosen(self, key))

    def on_click(self, event: Click) -> None:
        """Select a row; a second click opens it."""
        row = event.y - 1 + round(self.scroll_y)
        if event.y >= 1 and row < len(self.rows):
            again = row == self.cursor
            self._go(row)
            if again:
                self.action_choose()

    @property
    def room(self) -> int:
        """Cells beside the scrollbar."""
        return self.scrollable_content_region.width

    def widths(self) -> list[int]:
        """Cells of each column; flexible columns share what is left."""
        fixed = sum(column.width for column in self.columns) + len(self.columns) - 1
        flexible = sum(column.width == 0 for column in self.columns)
        share = max(4, (self.room - fixed) // flexible) if flexible > 0 else 0
        return [column.width or share for column in self.columns]

    def render_line(self, y: int) -> Strip:
        """The header, or one row."""
        width = self.room
        if y == 0:
            return self.strip(self._aligned([(column.title, "title") for column in self.columns]), width)
        row = y - 1 + round(self.scroll_y)
        if row >= len(self.rows):
            return self.strip((), width)
        ground: Ink | None = "cursor" if row == self.cursor else None
        return self.strip(self._aligned(self.rows.cells(row)), width, ground)

    def _aligned(self, cells: Sequence[Span]) -> list[Span]:
        spans: list[Span] = []
        for (text, ink), column, width in zip(cells, self.columns, self.widths(), strict=True):
            cells_wide = cell_len(text)
            if cells_wide > width:
                text = set_cell_size(text, max(0, width - 1)) + "~"  # noqa: PLW2901  (the cell as it fits)
            pad = " " * max(0, width - cells_wide)
            spans.append((pad + text if column.align == "right" else text + pad, ink))
            spans.append((" ", "plain"))
        return spans[:-1]

    @property
    def visible_region(self) -> Region:
        """Rows on screen, for tests."""
        return Region(0, round(self.scroll_y), self.size.width, max(0, self.size.height - 1))
