"""Panel 7: what happened, in words, or what the engine printed."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, ClassVar, Final

from textual import work
from textual.binding import Binding
from textual.message import Message

from tui.dashboard.panels.base import Pane
from tui.dashboard.widgets.lines import Lines
from tui.dashboard.widgets.table import Column, LineTable
from tui.viewer.plain import last_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from textual.app import ComposeResult

    from tui.dashboard.style import Ink, Span
    from tui.viewer.session import LiveSession

WORKER_LINES: Final = 500


class WorkerLog(Message):
    """The end of worker.log was read."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self.lines = lines


class LogPane(Pane):
    """What happened, in words; or what the engine printed.

    Attributes:
        worker: whether worker.log is shown.
    """

    title = "Log"
    keys: ClassVar = (("w", "events or worker.log"),)
    BINDINGS: ClassVar = [Binding("w", "worker_log", "events or worker.log", show=False)]
    worker = False
    _lines: LogLines | None = None
    _of: object = None

    def compose(self) -> ComposeResult:
        """What is shown, and the lines."""
        yield Lines(id="log-note", classes="note")
        yield LineTable(COLUMNS, id="log-table", follow=True)

    def on_unmount(self) -> None:
        """Let go of the session."""
        self._lines = self._of = None

    def paint(self, session: LiveSession, *, plots: bool) -> None:
        """Show new entries."""
        note = self.query_one("#log-note", Lines)
        if not self.worker:
            note.show((((f"{len(session.log):,} entries; w shows worker.log", "muted"),),))
            table = self.query_one("#log-table", LineTable)
            if self._lines is None or self._lines.width != table.room or self._of is not session:
                self._lines, self._of = LogLines(table.room), session
            table.show(LogRows(self._lines.take(session.log, session.log_first)))
        elif plots:
            note.show((((f"end of {session.folder.log_path}; w shows the events", "muted"),),))
            self._read(session.folder.log_path)

    @work(thread=True, exclusive=True, group="worker-log")
    def _read(self, path: Path) -> None:
        self.post_message(WorkerLog(last_lines(path, WORKER_LINES)))

    def on_worker_log(self, message: WorkerLog) -> None:
        """Show the end of worker.log."""
        message.stop()
        lines = message.lines or ["worker.log is empty"]
        if self.worker:
            self.query_one("#log-table", LineTable).show(LogRows([(line, ink_of(line)) for line in lines]))

    def action_worker_log(self) -> None:
        """Switch between events and worker.log."""
        self.worker = not self.worker
        self.query_one("#log-table", LineTable).follow = True
        self.post_message(self.Switched())

    class Switched(Message):
        """The other log is wanted."""

    def copied(self, session: LiveSession) -> str:
        """All entries."""
        del session
        rows = self.query_one("#log-table", LineTable).rows
        return "\n".join(text for row in range(len(rows)) for text, _ in rows.cells(row))


COLUMNS: Final = (Column("", 0),)
BAD: Final = ("FAILED", "aborted:", "failed:", "interrupted:", "DROPPED", "dropped")
INDENT: Final = " " * 8
LOUD: Final = ("WARNING", "DEVIATION", "NOTE:", "paused")


def ink_of(entry: str) -> Ink:
    """Failures and warnings stand out; their words say so, too."""
    if any(word in entry for word in BAD):
        return "bad"
    return "warn" if any(word in entry for word in LOUD) else "plain"


class LogLines:
    """Entries broken into lines that fit; only new entries are broken, so that a long log costs nothing."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._taken = 0
        self._lines: list[Span] = []

    def take(self, entries: Sequence[str], first: int) -> list[Span]:
        """All lines, after breaking the entries that came since the last time.

        Args:
            entries: those that are still kept, oldest first.
            first: number of the first of these since the start.
        """
        for entry in entries[max(0, self._taken - first) :]:
            ink = ink_of(entry)
            parts = textwrap.wrap(entry, max(20, self.width), subsequent_indent=INDENT, break_on_hyphens=False)
            self._lines += [(part, ink) for part in parts or [""]]
        self._taken = first + len(entries)
        return self._lines


class LogRows:
    """Lines of a log, oldest first; a line's name is its number."""

    def __init__(self, lines: Sequence[Span]) -> None:
        self._lines = lines
        self._count = len(lines)

    def __len__(self) -> int:
        return self._count

    def cells(self, row: int) -> tuple[Span, ...]:
        """One line."""
        return (self._lines[row],)

    def key(self, row: int) -> int:
        """Its number."""
        return row

    def find(self, key: int) -> int | None:
        """The same number."""
        return key if key < self._count else None
