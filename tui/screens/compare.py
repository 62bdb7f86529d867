"""Sessions side by side: figure 2."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual import work
from textual.binding import Binding
from textual.message import Message

from sessions.audited import Session, audit
from sessions.errors import RefeedError
from stats.words import count
from tui.screens.base import SizedScreen
from tui.views.compare import Compared, lines
from tui.views.words import model_name
from tui.widgets.bar import KeyBar
from tui.widgets.lines import Lines, ScrollLines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from sessions.store import SessionFolder
    from stats.disagreement import Condition
    from tui.app import RefeedApp

KEYS = (("esc", "back"), ("c", "eligibility"), ("arrows", "scroll"), ("y", "copy"), ("?", "help"))


class Folded(Message):
    """Sessions were folded to their ends."""

    def __init__(self, found: dict[Condition, list[Compared]]) -> None:
        """Hold their bars, by conditioning."""
        super().__init__()
        self.found = found


def bars(session: Session, condition: Condition) -> Compared:
    """Figure 2 of one session."""
    state = session.state
    trend = state.live.trend(condition)
    engine = "" if state.engine is None else f"{state.engine.engine}, "
    mode = "batch-invariant, " if session.spec.batch_invariant else ""
    known = f"{model_name(state, session.spec.model)}, {engine}{mode}K = {session.spec.k}"
    facts = f"{known}, {count(len(state.measured), 'problem')}"
    if not trend:
        return Compared(session.label, facts)
    counts = state.live.common if condition == "common" else state.live.exact1
    excess = state.live.pooled_excess(condition)
    return Compared(session.label, facts, counts, trend[-1].refeed, trend[-1].floor, excess, state.live.informative)


def pooled(sessions: Sequence[Session], condition: Condition) -> Compared:
    """Figure 2 of all of them as one, or why they may not be pooled."""
    label = f"pooled: {len(sessions)} sessions"
    try:
        report = audit(sessions).report
    except RefeedError as error:
        return Compared(label, error=str(error))
    rates = report.common if condition == "common" else report.exact1
    facts = f"{report.problems} problems, {report.informative_problems} informative"
    excess = report.pooled_excess if condition == "common" else None
    return Compared(label, facts, rates.counts, rates.refeed, rates.floor, excess, report.informative_problems)


class CompareScreen(SizedScreen):
    """Re-feed and floor bars of several sessions, their excess, and the pool of those that may be pooled."""

    BINDINGS: ClassVar = [
        Binding("escape,backspace", "back", "back"),
        Binding("c", "condition", "eligibility"),
        Binding("y", "copy", "copy"),
    ]

    def __init__(self, folders: Sequence[SessionFolder]) -> None:
        """Compare these, in this order."""
        super().__init__()
        self._folders = tuple(folders)
        self._found: dict[Condition, list[Compared]] = {}
        self._condition: Condition = "common"

    def compose(self) -> ComposeResult:
        """Bars and keys."""
        yield Lines(id="too-small")
        yield ScrollLines(id="compare")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """Fold the sessions."""
        self.query_one(KeyBar).show(KEYS)
        body = self.query_one("#compare", ScrollLines)
        body.focus()
        body.show((((f"reading {len(self._folders)} sessions", "muted"),),))
        self._fold()

    @work(thread=True, exclusive=True)
    def _fold(self) -> None:
        loaded: list[Session] = []
        found: dict[Condition, list[Compared]] = {"common": [], "exact1": []}
        conditions: tuple[Condition, ...] = ("common", "exact1")
        for folder in self._folders:
            try:
                session = Session.load(folder)
            except RefeedError as error:
                for condition in conditions:
                    found[condition].append(Compared(folder.id, error=str(error)))
                continue
            loaded.append(session)
            for condition in conditions:
                found[condition].append(bars(session, condition))
        if len(loaded) > 1:
            for condition in conditions:
                found[condition].append(pooled(loaded, condition))
        self.post_message(Folded(found))

    def on_folded(self, message: Folded) -> None:
        """Show the bars."""
        self._found = message.found
        self._paint()

    def on_resize(self) -> None:
        """Draw them as wide as there is room."""
        super().on_resize()
        self._paint()

    def _paint(self) -> None:
        if self._found:
            body = self.query_one("#compare", ScrollLines)
            width = max(40, self.app.size.width - 5)
            body.show(lines(self._found[self._condition], self._condition, width, cast("RefeedApp", self.app).glyphs))

    def action_condition(self) -> None:
        """The other set of eligible pivots."""
        self._condition = "exact1" if self._condition == "common" else "common"
        self._paint()

    def action_copy(self) -> None:
        """Copy the bars as text."""
        cast("RefeedApp", self.app).copy(self.query_one("#compare", ScrollLines).text)

    def action_back(self) -> None:
        """Back to the list."""
        self.dismiss()
