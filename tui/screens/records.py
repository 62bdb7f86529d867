"""Panels 6 to 8: problems, log, registration."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.binding import Binding
from textual.message import Message

from tui.follow import last_lines
from tui.screens.base import Pane
from tui.views import log, problems, registration
from tui.widgets.ink import text_of
from tui.widgets.lines import Lines, ScrollLines
from tui.widgets.table import LineTable

if TYPE_CHECKING:
    from pathlib import Path

    from textual.app import ComposeResult

    from tui.watched import Watched

WORKER_LINES = 500


class ProblemsPane(Pane):
    """Every problem that was looked at."""

    title = "Problems"

    def compose(self) -> ComposeResult:
        """A table."""
        yield LineTable(problems.COLUMNS, id="problems-table", follow=True)

    def paint(self, watched: Watched, *, plots: bool) -> None:
        """Show them as they are."""
        if plots:
            self.query_one("#problems-table", LineTable).show(problems.ProblemRows(watched.state))

    def copied(self, watched: Watched) -> str:
        """All rows, tab-separated."""
        rows = problems.ProblemRows(watched.state)
        head = "\t".join(column.title for column in problems.COLUMNS)
        return "\n".join((head, *("\t".join(text for text, _ in rows.cells(row)) for row in range(len(rows)))))


class WorkerLog(Message):
    """The end of worker.log was read."""

    def __init__(self, lines: list[str]) -> None:
        """Hold it."""
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
    _lines: log.LogLines | None = None
    _of: object = None

    def compose(self) -> ComposeResult:
        """What is shown, and the lines."""
        yield Lines(id="log-note", classes="note")
        yield LineTable(log.COLUMNS, id="log-table", follow=True)

    def on_unmount(self) -> None:
        """Let go of the session."""
        self._lines = self._of = None

    def paint(self, watched: Watched, *, plots: bool) -> None:
        """Show new entries."""
        note = self.query_one("#log-note", Lines)
        if not self.worker:
            note.show((((f"{len(watched.log):,} entries; w shows worker.log", "muted"),),))
            table = self.query_one("#log-table", LineTable)
            if self._lines is None or self._lines.width != table.room or self._of is not watched:
                self._lines, self._of = log.LogLines(table.room), watched
            table.show(log.LogRows(self._lines.take(watched.log, watched.log_first)))
        elif plots:
            note.show((((f"end of {watched.folder.log_path}; w shows the events", "muted"),),))
            self._read(watched.folder.log_path)

    @work(thread=True, exclusive=True, group="worker-log")
    def _read(self, path: Path) -> None:
        self.post_message(WorkerLog(last_lines(path, WORKER_LINES)))

    def on_worker_log(self, message: WorkerLog) -> None:
        """Show the end of worker.log."""
        message.stop()
        lines = message.lines or ["worker.log is empty"]
        if self.worker:
            self.query_one("#log-table", LineTable).show(log.LogRows([(line, log.ink_of(line)) for line in lines]))

    def action_worker_log(self) -> None:
        """Switch between events and worker.log."""
        self.worker = not self.worker
        self.query_one("#log-table", LineTable).follow = True
        self.post_message(self.Switched())

    class Switched(Message):
        """The other log is wanted."""

    def copied(self, watched: Watched) -> str:
        """All entries."""
        del watched
        rows = self.query_one("#log-table", LineTable).rows
        return "\n".join(text for row in range(len(rows)) for text, _ in rows.cells(row))


class RegistrationPane(Pane):
    """What was registered, and what departed from it."""

    title = "Setup"

    def compose(self) -> ComposeResult:
        """Lines."""
        yield ScrollLines(id="registration")

    def paint(self, watched: Watched, *, plots: bool) -> None:
        """Show it."""
        if plots:
            body = self.query_one("#registration", ScrollLines)
            body.show(registration.lines(watched, max(40, body.size.width - 1), self.glyphs))

    def copied(self, watched: Watched) -> str:
        """Everything, also what is scrolled away; each value on one line, however the screen breaks it."""
        width = max(40, self.query_one("#registration", ScrollLines).size.width - 1)
        found = registration.lines(watched, width, self.glyphs, whole=True)
        return "\n".join(text_of(spans).rstrip() for spans in found)
