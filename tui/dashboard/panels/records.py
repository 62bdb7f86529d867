"""Panels 6 to 8: problems, log, registration."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, ClassVar, Final

from textual import work
from textual.binding import Binding
from textual.message import Message

from sessions.numbers import clock, points
from tui.dashboard.panels import setup as registration
from tui.dashboard.panels.base import Pane
from tui.dashboard.style import text_of
from tui.dashboard.widgets.lines import Lines, ScrollLines
from tui.dashboard.widgets.table import Column, LineTable
from tui.plaintext import one_line
from tui.viewer.plain import last_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from textual.app import ComposeResult

    from sessions.state.campaign import CampaignState
    from sessions.state.rows import ProblemRow
    from tui.dashboard.style import Ink, Line, Span
    from tui.viewer.session import LiveSession

WORKER_LINES = 500


class ProblemsPane(Pane):
    """Every problem that was looked at."""

    title = "Problems"

    def compose(self) -> ComposeResult:
        """A table."""
        yield LineTable(COLUMNS, id="problems-table", follow=True)

    def paint(self, session: LiveSession, *, plots: bool) -> None:
        """Show them as they are."""
        if plots:
            self.query_one("#problems-table", LineTable).show(ProblemRows(session.state))

    def copied(self, session: LiveSession) -> str:
        """All rows, tab-separated."""
        rows = ProblemRows(session.state)
        head = "\t".join(column.title for column in COLUMNS)
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
    _lines: LogLines | None = None
    _of: object = None

    def compose(self) -> ComposeResult:
        """What is shown, and the lines."""
        yield Lines(id="log-note", classes="note")
        yield LineTable(LOG_COLUMNS, id="log-table", follow=True)

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


class RegistrationPane(Pane):
    """What was registered, and what departed from it."""

    title = "Setup"

    def compose(self) -> ComposeResult:
        """Lines."""
        yield ScrollLines(id="registration")

    def paint(self, session: LiveSession, *, plots: bool) -> None:
        """Show it."""
        if plots:
            body = self.query_one("#registration", ScrollLines)
            body.show(registration.lines(session, max(40, body.size.width - 1), self.glyphs))

    def copied(self, session: LiveSession) -> str:
        """Everything, also what is scrolled away; each value on one line, however the screen breaks it."""
        width = max(40, self.query_one("#registration", ScrollLines).size.width - 1)
        found = registration.lines(session, width, self.glyphs, whole=True)
        return "\n".join(text_of(spans).rstrip() for spans in found)


OUTCOMES: Final[dict[str, tuple[str, Ink]]] = {
    "measured": ("measured", "good"),
    "screened-out": ("screened out", "muted"),
    "dropped": ("DROPPED", "bad"),
}
COLUMNS: Final = (
    Column("task", 6, "right"),
    Column("state", 12),
    Column("right", 5, "right"),
    Column("pivots", 6, "right"),
    Column("miss", 4, "right"),
    Column("elig.", 5, "right"),
    Column("re-feed", 7, "right"),
    Column("floor", 5, "right"),
    Column("excess", 8, "right"),
    Column("time", 5, "right"),
    Column("note", 0),
)


def state_of(row: ProblemRow) -> Span:
    """Outcome of a problem, or the stage it is in."""
    if row.outcome is not None:
        return OUTCOMES[row.outcome]
    return row.stage, "strong" if row.stage != "waiting" else "muted"


def cells(row: ProblemRow) -> tuple[Span, ...]:
    """One row of the table of problems."""
    right = f"{row.right}/{len(row.trunks)}" if row.trunks else "-"
    tally = row.tally
    eligible = refeed = floor = excess = "-"
    if tally is not None:
        common = tally.common
        eligible, refeed, floor = f"{common.n}", f"{common.refeed.disagree}", f"{common.floor.disagree}"
        if common.n > 0:
            excess = points((common.refeed.disagree - common.floor.disagree) / common.n)
    note = one_line(row.reason, 200) if row.reason else (f"attempt {row.attempt}" if row.attempt > 0 else "")
    return (
        (str(row.problem), "plain"),
        state_of(row),
        (right, "plain"),
        (str(row.pivots), "plain"),
        (str(row.failed), "bad" if row.failed > 0 else "muted"),
        (eligible, "plain"),
        (refeed, "refeed"),
        (floor, "floor"),
        (excess, "strong"),
        (clock(row.seconds) if row.seconds > 0 else "-", "muted"),
        (note, "muted"),
    )


class ProblemRows:
    """Problems in order of appearance; a row's name is its task index."""

    def __init__(self, state: CampaignState) -> None:
        """Take the rows as they are now."""
        self._rows = list(state.problems.values())
        self._places = {row.problem: place for place, row in enumerate(self._rows)}

    def __len__(self) -> int:
        """How many problems."""
        return len(self._rows)

    def cells(self, row: int) -> tuple[Span, ...]:
        """One problem."""
        return cells(self._rows[row])

    def key(self, row: int) -> int:
        """Its task index."""
        return self._rows[row].problem

    def find(self, key: int) -> int | None:
        """Row of a task index."""
        return self._places.get(key)


def brief(state: CampaignState, most: int, width: int) -> tuple[Line, ...]:
    """The newest problems in a few words each, newest first."""
    newest = list(state.problems.values())[-most:][::-1]
    lines: list[Line] = []
    for row in newest:
        word, ink = state_of(row)
        text = ""
        if row.tally is not None:
            common = row.tally.common
            text = f"{common.refeed.disagree:>3} re-feed {common.floor.disagree:>3} floor of {common.n:<3}"
        tail = one_line(row.reason, 80) if row.reason else text
        lead = f"task {row.problem:<6} "
        lines.append(((lead, "plain"), (f"{word:<13}", ink), (tail[: max(0, width - len(lead) - 13)], "muted")))
    return tuple(lines)


LOG_COLUMNS: Final = (Column("", 0),)
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
        """Break at this many cells."""
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
        """Take them as they are."""
        self._lines = lines
        self._count = len(lines)

    def __len__(self) -> int:
        """How many."""
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
