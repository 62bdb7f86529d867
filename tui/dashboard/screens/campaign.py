"""A campaign: header, numbered panels, keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, cast

from textual import work
from textual.binding import Binding
from textual.message import Message
from textual.widgets import ContentSwitcher, Input

from tui.dashboard.panels.figures import JointPane, ProbePane, SelectionPane
from tui.dashboard.panels.header import header
from tui.dashboard.panels.live import LivePane
from tui.dashboard.panels.log import LogPane
from tui.dashboard.panels.pivots import PivotsPane
from tui.dashboard.panels.problems import ProblemsPane
from tui.dashboard.panels.setup import RegistrationPane
from tui.dashboard.screens.base import SizedScreen
from tui.dashboard.screens.dialogs import Confirm, abort_question
from tui.dashboard.screens.inspector import InspectorScreen
from tui.dashboard.terminal import alert, crossed
from tui.dashboard.widgets.bar import KeyBar, TabBar
from tui.dashboard.widgets.lines import Lines
from tui.dashboard.words import block, status
from tui.viewer.journal_thread import Batch, JournalThread
from tui.viewer.session import LiveSession

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.app import ComposeResult
    from textual.widget import Widget

    from stats.report import Report
    from stats.table import PivotTable
    from tui.dashboard.panels.base import Pane
    from tui.dashboard.style import Line

TEXT_EVERY: Final = 0.25
PLOT_TICKS: Final = 2


class Reported(Message):
    """Every number of the first problems was computed."""

    def __init__(self, session: LiveSession, report: Report, problems: int) -> None:
        super().__init__()
        self.session = session
        self.report = report
        self.problems = problems


class CampaignScreen(SizedScreen):
    """One session. Events change state, timers paint it; panels that are not shown cost nothing.

    Attributes:
        session: the session.
        holding: whether the view is paused.
        paints: how often it was painted.
    """

    BINDINGS: ClassVar = [
        *(Binding(str(number), f"panel({number})", f"panel {number}", show=False) for number in range(1, 9)),
        Binding("space", "hold", "pause the view"),
        Binding("c", "condition", "eligibility"),
        Binding("y", "copy", "copy"),
        Binding("P", "pause_worker", "pause or resume the worker"),
        Binding("A", "abort", "abort the campaign"),
    ]

    def __init__(self, session: LiveSession) -> None:
        super().__init__()
        self.session = session
        self.holding = False
        self._reader: JournalThread | None = None
        self.paints = 0
        self._panes: tuple[Pane, ...] = (
            LivePane(id="live"),
            PivotsPane(id="pivots"),
            JointPane(id="joint-pane"),
            ProbePane(id="probe-pane"),
            SelectionPane(id="selection-pane"),
            ProblemsPane(id="problems"),
            LogPane(id="log"),
            RegistrationPane(id="registration-pane"),
        )
        self._reporting = False
        self._painted: dict[str, object] = {}

    @property
    def settled(self) -> bool:
        """Whether what was read is shown, for whoever waits for it."""
        return self.session.caught_up

    def compose(self) -> ComposeResult:
        """Header, panels, keys."""
        yield Lines(id="too-small")
        yield Lines(id="header")
        yield TabBar([pane.title for pane in self._panes], id="tabs")
        with ContentSwitcher(initial=self._panes[0].id, id="panes"):
            yield self._panes[0]  # the others are mounted when they are first shown
        yield from self.below()
        yield KeyBar(id="keys")

    def below(self) -> Iterable[Widget]:
        """What stands between the panels and the keys."""
        return ()

    def on_mount(self) -> None:
        """Paint a first frame, then start reading."""
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self.repaint()
        pace = 2 if self.services.slow else 1
        self.set_interval(TEXT_EVERY * pace, self.repaint)
        self.begin_reading(pace)

    def begin_reading(self, pace: int) -> None:
        """Follow the journal.

        Args:
            pace: 1, or 2 for half of all rates.
        """
        del pace
        digest = self.session.registration.digest
        self._reader = JournalThread(self.session.folder, digest, self.post_message, slow=self.services.slow)
        self.run_worker(self._reader.run, thread=True, name="journal", exit_on_error=True)

    def on_unmount(self) -> None:
        """Stop reading, and let go of what was read.

        Textual's message pumps hold on to their last message and its sender, and its style caches to what the last
        1,024 widgets drew; hours of a campaign, and of every one that was looked at before, would stay with them.
        """
        if self._reader is not None:
            self._reader.stop()
        self._reader, self._panes = None, ()
        self.session = LiveSession.of(self.session.folder, self.session.mode)
        forget = getattr(self._styles_cache.get_inner_outer, "cache_clear", None)  # an lru_cache in textual 8.2
        if forget is not None:
            forget()

    def on_batch(self, batch: Batch) -> None:
        """Fold what the reader posted."""
        batch.stop()
        was_live, had_crossed = self.session.opened and self.session.was_live, crossed(self.session.state)
        self.session.take(batch.events)
        if was_live:
            self.services.wake(alert(batch.events, self.session.state, had_crossed=had_crossed))
        self.session.heard(batch.worker, caught_up=batch.caught_up, broken=batch.broken)
        if self._reader is not None:
            self._reader.done_with_one()

    # Painting

    @property
    def pane(self) -> Pane:
        """The panel that is shown."""
        current = self.query_one("#panes", ContentSwitcher).visible_content
        return cast("Pane", current)

    def repaint(self, *, force: bool = False) -> None:
        """Paint what changed since the last time; plots at half the rate."""
        if not self.is_current or (self.holding and not force):
            return
        self.paints += 1
        stamp = (self.session.revision, int(self.session.waited), self.app.size, id(self.session), self.app.theme)
        if force:
            self._painted.clear()
        frame = (stamp, self.frame_stamp())
        if self._painted.get("frame") != frame:
            self._painted["frame"] = frame
            self.paint_frame()
        if not self.session.opened and not force and self.paints > 1:
            return  # numbers of half a journal would only slow its reading down
        pane = self.pane
        name = pane.id or ""
        if pane.wants_report:
            self._report()
        if self._painted.get(name) != stamp:
            plots = force or self.paints % PLOT_TICKS == 0
            pane.paint(self.session, plots=plots)
            if plots:
                self._painted[name] = stamp

    def frame_stamp(self) -> object:
        """What header, titles and keys show besides the session, to compare."""
        return self.holding

    def paint_frame(self) -> None:
        """Paint what is around the panels."""
        glyphs = self.services.glyphs
        width = max(1, self.app.size.width - 2)
        self.query_one("#header", Lines).show(header(self.session, width, glyphs))
        tabs = self.query_one(TabBar)
        number = self._panes.index(self.pane)
        tabs.show(number, "VIEW PAUSED" if self.holding else "")
        self.query_one(KeyBar).show(self._keys())
        if self.has_class("-small"):
            self.query_one("#too-small", Lines).show(self.too_small())

    def _keys(self) -> tuple[tuple[str, str], ...]:
        running = self.session.live and self.session.state.ended is None
        paused = self.session.state.paused
        leave = f"leave ({'stays paused' if paused else 'campaign goes on'})" if running else "leave"
        commands = (("P", "resume" if paused else "pause"), ("A", "abort"))
        control = commands if running else ()
        return (("q", leave), ("?", "help"), *control, *self.pane.keys, ("y", "copy"), ("^p", "palette"))

    def too_small(self) -> Sequence[Line]:
        """What must not be missed, in a few words."""
        state = self.session.state
        tally = state.cache_tally()
        cache = f"cache FAILED: {len(tally.failures)}" if tally.failures else f"cache: {tally.verified} verified"
        return (
            (block(status(self.session.status), self.services.glyphs),),
            ((cache, "bad" if tally.failures else "plain"),),
            ((f"{len(state.measured)}/{self.session.spec.problems} problems", "plain"),),
            *super().too_small(),
        )

    def on_resize(self) -> None:
        """Lay out anew, then paint at the new width."""
        super().on_resize()
        self.call_after_refresh(self.repaint, force=True)

    def _report(self) -> None:
        """Have the numbers of the present evidence computed, one computation at a time."""
        state = self.session.state
        if self._reporting or self.session.report_of == len(state.measured):
            return
        self._reporting = True
        self._compute(self.session, state.table(), len(state.measured))

    @work(thread=True, group="report")
    def _compute(self, session: LiveSession, table: PivotTable, problems: int) -> None:
        from stats.report import report  # noqa: PLC0415  (attaching need not wait for it)

        spec = session.spec
        made = report(table, alpha=spec.alpha, decision=spec.decision, seed=spec.seed)
        self.post_message(Reported(session, made, problems))

    def on_reported(self, message: Reported) -> None:
        """Show the computed numbers."""
        self._reporting = False
        message.session.report, message.session.report_of = message.report, message.problems
        message.session.revision += 1

    def on_pivots_pane_inspected(self, message: PivotsPane.Inspected) -> None:
        """Show one pivot in full, over the panels."""
        self.app.push_screen(InspectorScreen(self.session, message.table, message.key))

    def on_log_pane_switched(self) -> None:
        """The other log is wanted at once."""
        self.repaint(force=True)

    # Panels and view

    async def action_panel(self, number: int) -> None:
        """Show a panel."""
        if not 1 <= number <= len(self._panes):
            return
        pane = self._panes[number - 1]
        switcher = self.query_one("#panes", ContentSwitcher)
        if not pane.is_attached:
            await switcher.mount(pane)
        switcher.current = pane.id
        self._painted.clear()
        self.call_after_refresh(self.repaint, force=True)
        self.call_after_refresh(self._focus_pane)

    def _focus_pane(self) -> None:
        for widget in self.pane.query("*"):
            if widget.focusable and widget.display and not isinstance(widget, Input):
                widget.focus()
                return
        self.set_focus(None)

    async def on_tab_bar_picked(self, message: TabBar.Picked) -> None:
        """A click on a panel's title."""
        await self.action_panel(message.number)

    def action_hold(self) -> None:
        """Pause the view."""
        self.holding = not self.holding
        self.repaint(force=True)

    def action_condition(self) -> None:
        """Switch between the two sets of eligible pivots."""
        for pane in self._panes:
            switch = getattr(pane, "switch_condition", None)
            if switch is not None:
                switch()
        self.repaint(force=True)

    def action_copy(self) -> None:
        """Copy the panel as text."""
        self.services.copy(self.pane.copied(self.session))

    def action_pause_worker(self) -> None:
        """Ask the worker to pause at the next problem, or to go on."""
        if not self.controllable():
            return
        self.services.command(self.session.folder, "resume" if self.session.state.paused else "pause")

    def action_abort(self) -> None:
        """Ask once, naming what is lost, then stop the worker."""
        folder = self.session.folder

        def answered(yes: bool | None) -> None:
            if yes:
                self.services.command(folder, "abort")

        if self.controllable():
            self.app.push_screen(Confirm(abort_question(self.session)), answered)

    def controllable(self) -> bool:
        """Whether there is a worker to command, on whatever host; says so where there is none."""
        if not self.session.live or self.session.state.ended is not None:
            self.notify("no worker is running on this session", markup=False)
            return False
        return True
