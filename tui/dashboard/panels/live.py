"""Panel 1: the campaign in one glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual.containers import Horizontal, Vertical

from sessions.text import one_line
from tui.dashboard.panels import path as curves
from tui.dashboard.panels import problems
from tui.dashboard.panels.base import Pane
from tui.dashboard.panels.path import sequential
from tui.dashboard.panels.rates import CACHE_WORDS, cache, disagreement
from tui.dashboard.panels.stage import progress
from tui.dashboard.widgets.lines import Lines
from tui.dashboard.widgets.plot import Plot
from tui.dashboard.words import (
    change,
    heading,
    signed,
    width_of,
    wrapped,
)
from tui.viewer.session import process_name

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from sessions.state.campaign import CampaignState
    from stats.counts import Condition
    from tui.dashboard.style import Line, Span
    from tui.viewer.session import LiveSession


class LivePane(Pane):
    """Progress, cache, disagreement, trend, sequential evidence and the newest pivots.

    Attributes:
        condition: which pivots are eligible; a key switches it.
    """

    title = "Live"
    keys: ClassVar = (("c", "eligibility"),)
    condition: Condition = "common"

    def compose(self) -> ComposeResult:
        """Lay it out; sizes are in app.tcss."""
        ascii_only = self.glyphs.ascii_only
        with Horizontal():
            with Vertical(id="live-main"):
                yield Lines(id="progress")
                yield Lines(id="cache")
                yield Lines(id="disagreement")
                with Horizontal(id="plots"):
                    with Vertical(id="trend-box"):
                        yield Lines(id="trend-title")
                        yield Plot(id="trend", ascii_only=ascii_only)
                    with Vertical(id="path-box"):
                        yield Lines(id="path-title")
                        yield Plot(id="path", ascii_only=ascii_only)
                yield Lines(id="sequential")
                yield Lines(id="recent-title")
                yield Lines(id="recent")
            with Vertical(id="live-side"):
                yield Lines(id="side-problems")
                yield Lines(id="side-log")

    def paint(self, session: LiveSession, *, plots: bool) -> None:
        """Show the session as it is now."""
        glyphs = self.glyphs
        main = self.query_one("#live-main")
        width = max(1, main.size.width)
        self._show("#progress", progress(session, width, glyphs))
        self._show("#cache", cache(session, width, glyphs))
        self._show("#disagreement", disagreement(session, self.condition, width, glyphs, titled=True))
        self._show("#sequential", sequential(session, width, glyphs))
        self._show("#recent-title", (recent_title(width),))
        newest = self.query_one("#recent", Lines)
        newest.show(recent(session.state, newest.size.height, width))
        if plots:
            self._plot(session)
        side = self.query_one("#live-side")
        if side.display:
            self._side(session, max(1, side.size.width - 2))

    def _show(self, selector: str, lines: tuple[object, ...]) -> None:
        self.query_one(selector, Lines).show(lines)  # type: ignore[arg-type]

    def _plot(self, session: LiveSession) -> None:
        glyphs = self.glyphs
        trend, path = self.query_one("#trend", Plot), self.query_one("#path", Plot)
        note = "thin: 95% interval" if trend.size.height >= curves.BAND_FROM else ""
        title = heading("Trend by closed problem", trend.size.width, glyphs, note)
        self._show("#trend-title", (title,))
        axis = f"{process_name(session.spec).capitalize()} e, log axis, 1/{glyphs.alpha} line"
        title = heading(axis, path.size.width, glyphs, "running max counts")
        self._show("#path-title", (title,))
        trend.show(curves.trend(session, self.condition, *trend.size))
        path.show(curves.e_path(session, *path.size, glyphs))

    def _side(self, session: LiveSession, width: int) -> None:
        glyphs = self.glyphs
        rows, log = self.query_one("#side-problems", Lines), self.query_one("#side-log", Lines)
        newest = problems.brief(session.state, max(1, rows.size.height - 2), width)
        self._show("#side-problems", (heading("Problems, newest first", width, glyphs), *newest))
        room = max(1, log.size.height - 1)
        tail = [line for entry in session.log[-room:] for line in wrapped(entry, width, "muted")]
        self._show("#side-log", (heading("Log", width, glyphs), *tail[-room:]))

    def switch_condition(self) -> None:
        """Count the other set of eligible pivots."""
        self.condition = "exact1" if self.condition == "common" else "common"


PLACE: Final = 18
FRAME: Final = 8  # cells around both texts
SHORTEST: Final = 5
LONGEST: Final = 40


def recent_title(width: int) -> Line:
    """Heads of the columns of `recent`."""
    text = f"{'Recent pivots':<19}ex-1 ex-2 re-f /K  re-feed  floor    cache"
    arms = "actual / alternative"
    room = width - len(text) - 1
    return ((f"{text} {arms if len(arms) <= room else 'arms'}", "title"),)


def recent(state: CampaignState, lines: int, width: int) -> tuple[Line, ...]:
    """The newest pivots, newest first."""
    pivots = state.pivots
    rows = range(len(pivots) - 1, max(-1, len(pivots) - 1 - lines), -1)
    return tuple(_pivot_line(state, row, width) for row in rows)


def _pivot_line(state: CampaignState, row: int, width: int) -> Line:
    pivots = state.pivots
    cell = pivots.cell
    first, second, third = cell(row, "net_exact1"), cell(row, "net_exact2"), cell(row, "net_refeed")
    again, replica = change(first, third), change(first, second)
    place = f"task {cell(row, 'problem')} r{cell(row, 'rollout')} @{cell(row, 'position')}"
    if len(place) > PLACE:  # a number that is cut is another number
        place = place.removeprefix("task ")
    lead: list[Span] = [
        (f"{place:<{PLACE}} ", "muted"),
        (f"{signed(first):>4}{signed(second):>5}{signed(third):>5} /{cell(row, 'k'):<2} ", "plain"),
        (f"{again:<8} ", "refeed" if again != "same" else "muted"),
        (f"{replica:<8} ", "floor" if replica != "same" else "muted"),
        CACHE_WORDS[cell(row, "cache")],
    ]
    actual, alternative = pivots.texts[row]
    each = min(LONGEST, (width - width_of(lead) - FRAME) // 2)
    if each >= SHORTEST and (actual or alternative):
        lead.append((f' "{one_line(actual, each)}" / "{one_line(alternative, each)}"', "plain"))
    return tuple(lead)
