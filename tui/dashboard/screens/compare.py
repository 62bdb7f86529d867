"""Sessions side by side: figure 2."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.binding import Binding
from textual.message import Message

from sessions.errors import RefeedError
from sessions.numbers import NONE, interval, points
from sessions.report.audit import Session, audit
from sessions.text import one_line
from stats.words import count
from tui.dashboard.panels.rates import CONDITIONS, rate_line
from tui.dashboard.screens.base import SizedScreen
from tui.dashboard.widgets.bar import KeyBar
from tui.dashboard.widgets.lines import Lines, ScrollLines
from tui.dashboard.words import heading, model_name, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from sessions.store import SessionFolder
    from stats.clustered import Pooled
    from stats.counts import Condition, Disagreement
    from stats.rates import RateInterval
    from tui.dashboard.style import Glyphs, Ink, Line


@dataclass(frozen=True, slots=True)
class Compared:
    """One session's bars.

    Attributes:
        label: id and name.
        facts: model, engine, K, problems.
        counts: both comparisons.
        refeed, floor: rates with intervals.
        excess: pooled.
        informative: problems with an eligible pivot.
        error: why there is nothing to show; empty otherwise.
    """

    label: str
    facts: str = ""
    counts: Disagreement | None = None
    refeed: RateInterval | None = None
    floor: RateInterval | None = None
    excess: Pooled | None = None
    informative: int = 0
    error: str = ""


def lines(found: Sequence[Compared], condition: Condition, width: int, glyphs: Glyphs) -> tuple[Line, ...]:
    """Bars of every session."""
    out: list[Line] = [
        heading("Sign disagreement with exact-1", width, glyphs, CONDITIONS[condition]),
        (),
    ]
    tops = [
        (rate.ci95[1] if rate.ci95 is not None else rate.rate) or 0.0
        for one in found
        for rate in (one.refeed, one.floor)
        if rate is not None
    ]
    scale = min(1.0, max(0.1, math.ceil(10 * max(tops, default=1.0)) / 10))
    for one in found:
        label, facts = one_line(one.label, 200), one_line(one.facts, 200)
        if len(label) + len(facts) + 2 <= width:
            out.append(((label, "strong"), (f"  {facts}", "muted")))
        else:
            out += wrapped(label, width, "strong")
            out += ((("  ", "plain"), *line) for line in wrapped(facts, width - 2, "muted"))
        if one.error or one.counts is None or one.refeed is None or one.floor is None:
            out += [*wrapped(one.error or "no evidence yet", width, "warn"), ()]
            continue
        rows: tuple[tuple[str, Ink, RateInterval, int], ...] = (
            ("re-feed", "refeed", one.refeed, one.counts.refeed.disagree),
            ("floor", "floor", one.floor, one.counts.floor.disagree),
        )
        for name, ink, rate, changed in rows:
            events = (changed, one.counts.n)
            drawn = rate_line(name, ink, rate, events, one.informative, scale, width - 2, glyphs)
            out.append((("  ", "plain"), *drawn))
        if one.excess is not None:
            without = f"({one.excess.why})" if one.excess.why is not None else NONE
            spread = without if one.excess.ci95 is None else interval(one.excess.ci95, signed=True)
            text = f"  excess  {points(one.excess.value):>6} {spread}"
            out.append(((text, "strong"),))
        out.append(())
    out.append(((f"bars from 0% to {100 * scale:.0f}%; intervals: 95%, clustered by problem", "muted"),))
    return tuple(out)


KEYS = (("esc", "back"), ("c", "eligibility"), ("arrows", "scroll"), ("y", "copy"), ("?", "help"))


class Folded(Message):
    """Sessions were folded to their ends."""

    def __init__(self, found: dict[Condition, list[Compared]]) -> None:
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
            body.show(lines(self._found[self._condition], self._condition, width, self.services.glyphs))

    def action_condition(self) -> None:
        """The other set of eligible pivots."""
        self._condition = "exact1" if self._condition == "common" else "common"
        self._paint()

    def action_copy(self) -> None:
        """Copy the bars as text."""
        self.services.copy(self.query_one("#compare", ScrollLines).text)

    def action_back(self) -> None:
        """Back to the list."""
        self.dismiss()
