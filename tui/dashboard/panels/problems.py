"""Panel 6: every problem that was looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessions.numbers import clock, points
from sessions.text import one_line
from tui.dashboard.panels.base import Pane
from tui.dashboard.widgets.table import Column, LineTable

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from sessions.state.campaign import CampaignState
    from sessions.state.rows import ProblemRow
    from tui.dashboard.style import Ink, Line, Span
    from tui.viewer.session import LiveSession


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
        (clock(row.seconds / row.batch) if row.seconds > 0 else "-", "muted"),
        (note, "muted"),
    )


class ProblemRows:
    """Problems in order of appearance; a row's name is its task index."""

    def __init__(self, state: CampaignState) -> None:
        self._rows = list(state.problems.values())
        self._places = {row.problem: place for place, row in enumerate(self._rows)}

    def __len__(self) -> int:
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
