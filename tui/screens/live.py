"""Panel 1: the campaign in one glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import Horizontal, Vertical

from tui.screens.base import Pane
from tui.stopping import process_name
from tui.views import curves, problems, recent
from tui.views.cache import cache
from tui.views.disagreement import disagreement
from tui.views.progress import progress
from tui.views.sequential import sequential
from tui.views.words import heading, wrapped
from tui.widgets.lines import Lines
from tui.widgets.plot import Plot

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from stats.disagreement import Condition
    from tui.watched import Watched


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

    def paint(self, watched: Watched, *, plots: bool) -> None:
        """Show the session as it is now."""
        glyphs = self.glyphs
        main = self.query_one("#live-main")
        width = max(1, main.size.width)
        self._show("#progress", progress(watched, width, glyphs))
        self._show("#cache", cache(watched, width, glyphs))
        self._show("#disagreement", disagreement(watched, self.condition, width, glyphs, titled=True))
        self._show("#sequential", sequential(watched, width, glyphs))
        self._show("#recent-title", (recent.recent_title(width),))
        newest = self.query_one("#recent", Lines)
        newest.show(recent.recent(watched.state, newest.size.height, width))
        if plots:
            self._plot(watched)
        side = self.query_one("#live-side")
        if side.display:
            self._side(watched, max(1, side.size.width - 2))

    def _show(self, selector: str, lines: tuple[object, ...]) -> None:
        self.query_one(selector, Lines).show(lines)  # type: ignore[arg-type]

    def _plot(self, watched: Watched) -> None:
        glyphs = self.glyphs
        trend, path = self.query_one("#trend", Plot), self.query_one("#path", Plot)
        note = "thin: 95% interval" if trend.size.height >= curves.BAND_FROM else ""
        title = heading("Trend by closed problem", trend.size.width, glyphs, note)
        self._show("#trend-title", (title,))
        axis = f"{process_name(watched.spec).capitalize()} e, log axis, 1/{glyphs.alpha} line"
        title = heading(axis, path.size.width, glyphs, "running max counts")
        self._show("#path-title", (title,))
        trend.show(curves.trend(watched, self.condition, *trend.size))
        path.show(curves.e_path(watched, *path.size, glyphs))

    def _side(self, watched: Watched, width: int) -> None:
        glyphs = self.glyphs
        rows, log = self.query_one("#side-problems", Lines), self.query_one("#side-log", Lines)
        newest = problems.brief(watched.state, max(1, rows.size.height - 2), width)
        self._show("#side-problems", (heading("Problems, newest first", width, glyphs), *newest))
        room = max(1, log.size.height - 1)
        tail = [line for entry in watched.log[-room:] for line in wrapped(entry, width, "muted")]
        self._show("#side-log", (heading("Log", width, glyphs), *tail[-room:]))

    def switch_condition(self) -> None:
        """Count the other set of eligible pivots."""
        self.condition = "exact1" if self.condition == "common" else "common"
