"""Home: every session, newest first, and what can be done with one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.console import Console
from textual import work
from textual.binding import Binding
from textual.message import Message

from sessions.errors import RefeedError
from sessions.exchange.export import FORMATS, export
from sessions.listing import EXPLAINED, describe
from sessions.report.audit import Session, audit
from sessions.store import Store
from sessions.text import one_line
from stats.words import count
from tui.dashboard.screens import dialogs as help_view
from tui.dashboard.screens import home_rows as home
from tui.dashboard.screens.base import SizedScreen
from tui.dashboard.screens.compare import CompareScreen
from tui.dashboard.screens.dialogs import Ask, Text
from tui.dashboard.screens.new import NewScreen
from tui.dashboard.widgets.bar import KeyBar
from tui.dashboard.widgets.lines import Lines
from tui.dashboard.widgets.table import LineTable
from tui.viewer.report_text import render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from sessions.listing import Entry

LOOK_EVERY = 2.0
ASKED = "csv,md,latex"
REPORT_WIDTH = 100
KEYS = (
    ("enter", "open"),
    ("?", "help"),
    ("q", "quit"),
    ("r", "replay"),
    ("R", "report"),
    ("e", "export"),
    ("n", "new"),
    ("space", "mark"),
    ("c", "compare"),
)


class Listed(Message):
    """The sessions were read."""

    def __init__(self, entries: Sequence[Entry], error: str = "") -> None:
        super().__init__()
        self.entries = tuple(entries)
        self.error = error


class Reported(Message):
    """A session's report was made."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__()
        self.lines = tuple(lines)


class HomeScreen(SizedScreen):
    """All sessions of this machine.

    Attributes:
        marked: ids of sessions to compare.
    """

    BINDINGS: ClassVar = [
        Binding("r", "replay", "replay"),
        Binding("R", "report", "report"),
        Binding("e", "export", "export"),
        Binding("n", "new", "new campaign"),
        Binding("space", "mark", "mark"),
        Binding("c", "compare", "compare"),
        Binding("y", "copy", "copy the id"),
        Binding("question_mark", "keys", "help"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.marked: frozenset[str] = frozenset()
        self._entries: tuple[Entry, ...] = ()
        self._looking = False

    def compose(self) -> ComposeResult:
        """A title, the table, keys."""
        yield Lines(id="too-small")
        yield Lines(((),), id="home-note")
        yield LineTable(home.NARROW, id="home-table")
        yield Lines(((),), id="home-detail")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """Read, and look again every other second."""
        self.query_one(KeyBar).show(KEYS)
        self.query_one(LineTable).focus()
        self._look()
        self.set_interval(LOOK_EVERY * (2 if self.services.slow else 1), self._look_if_shown)

    def _look_if_shown(self) -> None:
        if self.is_current and not self._looking:  # a first look at long journals outlasts that time
            self._look()

    def _look(self) -> None:
        self._looking = True
        self._list()

    @work(thread=True, group="list")
    def _list(self) -> None:
        try:
            entries = [describe(folder) for folder in Store().folders()]
        except RefeedError as error:
            self.post_message(Listed((), str(error)))
        else:
            self.post_message(Listed(entries))

    def on_listed(self, message: Listed) -> None:
        """Show the sessions."""
        self._looking = False
        self._entries = message.entries
        live = sum(entry.row.state in {"running", "paused"} for entry in self._entries)
        text = f"{count(len(self._entries), 'session')}, {live} live; newest first"
        if any(entry.batch_invariant for entry in self._entries):
            text += f"; {EXPLAINED}"
        if not self._entries:
            text = "no sessions yet: n starts a campaign"
        note = message.error or text
        self.query_one("#home-note", Lines).show(
            ((("refeed-tui", "title"), ("  ", "plain"), (one_line(note, 300), "warn" if message.error else "muted")),)
        )
        self._show()

    def _show(self) -> None:
        table = self.query_one(LineTable)
        width = table.room
        table.show(home.SessionRows(self._entries, self.marked, width, self.services.glyphs), home.columns(width))
        self._tell()

    def _tell(self) -> None:
        """Say in full which session the cursor is on."""
        lines = home.detail(self.entry, max(40, self.app.size.width - 2), self.services.glyphs)
        self.query_one("#home-detail", Lines).show(lines)

    def on_line_table_moved(self, message: LineTable.Moved) -> None:
        """Another session is under the cursor."""
        message.stop()
        self._tell()

    def on_resize(self) -> None:
        """Choose columns anew."""
        super().on_resize()
        self.call_after_refresh(self._show)

    @property
    def entry(self) -> Entry | None:
        """The session under the cursor."""
        rows = self.query_one(LineTable).rows
        cursor = self.query_one(LineTable).cursor
        return rows.entries[cursor] if isinstance(rows, home.SessionRows) and cursor < len(rows) else None

    def on_line_table_chosen(self) -> None:
        """Open the session."""
        self._open("attach")

    def action_replay(self) -> None:
        """Replay the session on the recorded clock."""
        self._open("replay")

    def _open(self, mode: str) -> None:
        entry = self.entry
        if entry is None:
            return
        try:
            self.services.open(entry.folder, "replay" if mode == "replay" else "attach")
        except RefeedError as error:
            self.notify(one_line(str(error)), severity="error", markup=False)

    def action_report(self) -> None:
        """Every number of the session."""
        if self.entry is not None:
            self.notify("computing the report", timeout=2, markup=False)
            self._report(self.entry, max(40, min(REPORT_WIDTH, self.app.size.width - Text.FRAME[0])))

    @work(thread=True, exclusive=True, group="report")
    def _report(self, entry: Entry, width: int) -> None:
        try:
            made = audit([Session.load(entry.folder)])
        except RefeedError as error:
            self.app.call_from_thread(self.notify, one_line(str(error)), severity="error", markup=False)
            return
        console = Console(width=width, color_system=None, force_terminal=False, legacy_windows=False)
        with console.capture() as captured:
            console.print(*render(made), sep="\n")
        self.post_message(Reported([one_line(line.rstrip()) for line in captured.get().split("\n")]))

    def on_reported(self, message: Reported) -> None:
        """Show it over the list."""
        self.app.push_screen(Text([((line, "plain"),) for line in message.lines]))

    def action_export(self) -> None:
        """Write tables of the session; asks for formats and takes the present folder."""
        entry = self.entry
        if entry is None:
            return
        out = Path.cwd() / entry.row.id

        def chosen(answer: str | None) -> None:
            if answer:
                self._export(entry, tuple(part.strip() for part in answer.split(",") if part.strip()), out)

        question = f"Export {entry.row.id} to {out}: which formats? ({', '.join(FORMATS)})"
        self.app.push_screen(Ask(one_line(question), ASKED), chosen)

    @work(thread=True, group="export")
    def _export(self, entry: Entry, formats: tuple[str, ...], out: Path) -> None:
        try:
            written = export(entry.folder, formats, out)
        except RefeedError as error:
            self.app.call_from_thread(self.notify, one_line(str(error)), severity="error", markup=False)
        else:
            notes = f"; {count(len(written.notes), 'note')} on its numbers: R shows them" if written.notes else ""
            text = f"wrote {count(len(written.files), 'file')} to {out}{notes}"
            self.app.call_from_thread(self.notify, one_line(text), markup=False)

    def action_new(self) -> None:
        """Put a campaign together."""
        self.app.push_screen(NewScreen())

    def action_mark(self) -> None:
        """Mark the session for comparison, or unmark it."""
        entry = self.entry
        if entry is not None:
            self.marked ^= {entry.row.id}
            self._show()

    def action_compare(self) -> None:
        """Compare the marked sessions; without any, all that have evidence."""
        chosen = [entry.folder for entry in self._entries if entry.row.id in self.marked]
        if not chosen:
            chosen = [entry.folder for entry in self._entries if entry.row.pivots > 0]
        if not chosen:
            self.notify("no session has evidence to compare", markup=False)
            return
        self.app.push_screen(CompareScreen(chosen))

    def action_keys(self) -> None:
        """Show the keys of this screen."""
        self.app.push_screen(Text(help_view.home_keys()))

    def action_copy(self) -> None:
        """Copy the session's id."""
        if self.entry is not None:
            self.services.copy(self.entry.row.id)
