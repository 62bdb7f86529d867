"""Panels 3 to 5: the paper's figures on this campaign's evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tui.screens.base import Pane
from tui.views import joint, probe, selection
from tui.views.words import heading
from tui.widgets.lines import Lines, ScrollLines
from tui.widgets.plot import Plot

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from stats.disagreement import Condition
    from tui.watched import Watched


class JointPane(Pane):
    """Figure 1: joint distribution of the estimates.

    Attributes:
        condition: which pivots are eligible; a key switches it.
    """

    title = "Joint"
    keys: ClassVar = (("c", "eligibility"),)
    condition: Condition = "common"

    def compose(self) -> ComposeResult:
        """The maps, scrolling where K is large."""
        yield ScrollLines(id="joint")

    def paint(self, watched: Watched, *, plots: bool) -> None:
        """Show the maps of the present evidence."""
        state, body = watched.state, self.query_one("#joint", ScrollLines)
        size = body.size
        if plots and self.stale(watched.token, len(state.measured), self.condition, size):
            body.show(joint.heat_map(state, self.condition, max(20, size.width), size.height, self.glyphs))

    def switch_condition(self) -> None:
        """Count the other set of eligible pivots."""
        self.condition = "exact1" if self.condition == "common" else "common"

    def copied(self, watched: Watched) -> str:
        """The maps as text."""
        del watched
        return self.query_one("#joint", ScrollLines).text


class ProbePane(Pane):
    """Figure 3: the probes' distribution."""

    title = "Probe"

    def compose(self) -> ComposeResult:
        """Numbers above the plot."""
        yield Lines(id="probe-numbers", classes="note")
        yield Lines(id="probe-title", classes="note")
        yield Plot(id="probe", ascii_only=self.glyphs.ascii_only)

    def paint(self, watched: Watched, *, plots: bool) -> None:
        """Show the present evidence."""
        state, plot = watched.state, self.query_one("#probe", Plot)
        if not plots or not self.stale(watched.token, len(state.measured), plot.size):
            return
        width = max(20, plot.size.width)
        self.query_one("#probe-numbers", Lines).show(probe.numbers(state))
        title = "Share of pivots at or below |first logprob - exact-1's|, nats"
        self.query_one("#probe-title", Lines).show(((), heading(title, width, self.glyphs, "log axis")))
        plot.show(probe.figure(state, width))

    def copied(self, watched: Watched) -> str:
        """Numbers and plot as text."""
        return f"{super().copied(watched)}\n{self.query_one('#probe', Plot).text}"


class SelectionPane(Pane):
    """Critical tokens: Jaccard against its ceiling."""

    title = "Select"
    wants_report = True

    def compose(self) -> ComposeResult:
        """Lines."""
        yield ScrollLines(id="selection")

    def paint(self, watched: Watched, *, plots: bool) -> None:
        """Show the present evidence; intervals come when they are computed."""
        state, body = watched.state, self.query_one("#selection", ScrollLines)
        if plots and self.stale(watched.token, len(state.measured), watched.report_of, body.size):
            made = watched.report if watched.report_of == len(state.measured) else None
            body.show(selection.lines(state, made, max(20, body.size.width - 1), self.glyphs))

    def copied(self, watched: Watched) -> str:
        """Lines as text."""
        del watched
        return self.query_one("#selection", ScrollLines).text
