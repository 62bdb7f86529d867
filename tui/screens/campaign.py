"""A campaign: header, numbered panels, keys. The same screen watches a live session and replays a recorded one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from textual import work
from textual.binding import Binding
from textual.message import Message
from textual.widgets import ContentSwitcher, Input

from tui.feed import Batch, Feed, Tape, read_all
from tui.screens.base import Pane, SizedScreen
from tui.screens.figures import JointPane, ProbePane, SelectionPane
from tui.screens.live import LivePane
from tui.screens.pivots import PivotsPane
from tui.screens.records import LogPane, ProblemsPane, RegistrationPane
from tui.views import tape as tape_view
from tui.views.header import header
from tui.views.words import block, status
from tui.watched import Watched
from tui.widgets.bar import KeyBar, TabBar
from tui.widgets.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from sessions.events import AnyEvent
    from stats.report import Report
    from stats.table import PivotTable
    from tui.app import RefeedApp
    from tui.widgets.ink import Line

TEXT_EVERY: Final = 0.25
PLOT_TICKS: Final = 2
TAPE_EVERY: Final = 0.1
FOLD_INLINE: Final = 2000


class Loaded(Message):
    """A recorded session was read to its end."""

    def __init__(self, tape: Tape, broken: str) -> None:
        """Hold it."""
        super().__init__()
        self.tape = tape
        self.broken = broken


class Refolded(Message):
    """A replay was folded up to another place."""

    def __init__(self, watched: Watched, position: int) -> None:
        """Hold the state at that place."""
        super().__init__()
        self.watched = watched
        self.position = position


class Reported(Message):
    """Every number of the first problems was computed."""

    def __init__(self, watched: Watched, report: Report, problems: int) -> None:
        """Hold them."""
        super().__init__()
        self.watched = watched
        self.report = report
        self.problems = problems


class CampaignScreen(SizedScreen):
    """One session. Events change state, timers paint it; panels that are not shown cost nothing.

    Attributes:
        watched: the session.
        tape: the recorded session in a replay; None otherwise, and until it was read.
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
        Binding("full_stop", "step(1)", "step", show=False),
        Binding("comma", "step(-1)", "step back", show=False),
        Binding("n", "problem(1)", "next problem", show=False),
        Binding("p", "problem(-1)", "previous problem", show=False),
        Binding("plus,equals_sign", "speed(2)", "faster", show=False),
        Binding("minus", "speed(-2)", "slower", show=False),
        Binding("t", "seek", "seek to a problem", show=False),
        Binding("x", "crossing", "jump to the crossing", show=False),
        Binding("f", "failure", "jump to the first failure", show=False),
    ]

    def __init__(self, watched: Watched, *, speed: float = 1.0) -> None:
        """Prepare to watch; reading starts when it is shown."""
        super().__init__()
        self.watched = watched
        self.tape: Tape | None = None
        self.holding = False
        self.seeking = False
        self._speed = speed
        self._feed: Feed | None = None
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
        self._advanced_at = 0.0

    @property
    def refeed(self) -> RefeedApp:
        """The application, by its own type."""
        return cast("RefeedApp", self.app)

    def compose(self) -> ComposeResult:
        """Header, panels, keys."""
        yield Lines(id="too-small")
        yield Lines(id="header")
        yield TabBar([pane.title for pane in self._panes], id="tabs")
        with ContentSwitcher(initial=self._panes[0].id, id="panes"):
            yield self._panes[0]  # the others are mounted when they are first shown
        if self.watched.mode == "replay":
            yield Lines(id="tape")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """Paint a first frame, then start reading."""
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self.repaint()
        pace = 2 if self.refeed.slow else 1
        self.set_interval(TEXT_EVERY * pace, self.repaint)
        if self.watched.mode == "replay":
            self.set_interval(TAPE_EVERY * pace, self._advance)
            self._load()
        else:
            digest = self.watched.registration.digest
            self._feed = Feed(self.watched.folder, digest, self.post_message, slow=self.refeed.slow)
            self.run_worker(self._feed.run, thread=True, name="feed", exit_on_error=True)

    def on_unmount(self) -> None:
        """Stop reading."""
        if self._feed is not None:
            self._feed.stop()

    def on_batch(self, batch: Batch) -> None:
        """Fold what the reader posted."""
        batch.stop()
        self.watched.take(batch.events)
        self.watched.heard(live=batch.live, caught_up=batch.caught_up, broken=batch.broken)
        if self._feed is not None:
            self._feed.done_with_one()

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
        stamp = (self.watched.revision, int(self.watched.waited), self.app.size, id(self.watched), self.app.theme)
        if force:
            self._painted.clear()
        if self._painted.get("frame") != (stamp, self.tape_stamp):
            self._painted["frame"] = (stamp, self.tape_stamp)
            self._paint_frame()
        if not self.watched.opened and not force and self.paints > 1:
            return  # numbers of half a journal would only slow its reading down
        pane = self.pane
        name = pane.id or ""
        if pane.wants_report:
            self._report()
        if self._painted.get(name) != stamp:
            plots = force or self.paints % PLOT_TICKS == 0
            pane.paint(self.watched, plots=plots)
            if plots:
                self._painted[name] = stamp

    @property
    def tape_stamp(self) -> object:
        """What the line of the tape shows, to compare."""
        tape = self.tape
        return (
            self.holding,
            self.seeking,
            None if tape is None else (tape.position, int(tape.now), tape.speed, tape.playing),
        )

    def _paint_frame(self) -> None:
        glyphs = self.refeed.glyphs
        width = max(1, self.app.size.width - 2)
        self.query_one("#header", Lines).show(header(self.watched, width, glyphs))
        tabs = self.query_one(TabBar)
        number = self._panes.index(self.pane)
        tabs.show(number, "VIEW PAUSED" if self.holding else "")
        self.query_one(KeyBar).show(self._keys())
        if self.watched.mode == "replay":
            line = tape_view.tape(self.tape, width, glyphs, seeking=self.seeking)
            self.query_one("#tape", Lines).show((line,))
        if self.has_class("-small"):
            self.query_one("#too-small", Lines).show(self.too_small())

    def _keys(self) -> tuple[tuple[str, str], ...]:
        replay = self.watched.mode == "replay"
        running = self.watched.live and self.watched.state.ended is None and not replay
        leave = "leave (campaign goes on)" if running else "leave"
        control = (("P", "resume" if self.watched.state.paused else "pause"), ("A", "abort")) if running else ()
        return (("q", leave), ("?", "help"), *control, *self.pane.keys, ("y", "copy"), ("^p", "palette"))

    def too_small(self) -> Sequence[Line]:
        """What must not be missed, in a few words."""
        state = self.watched.state
        tally = state.cache_tally()
        cache = f"cache FAILED: {len(tally.failures)}" if tally.failures else f"cache: {tally.verified} verified"
        return (
            (block(status(self.watched.status), self.refeed.glyphs),),
            ((cache, "bad" if tally.failures else "plain"),),
            ((f"{len(state.measured)}/{self.watched.spec.problems} problems", "plain"),),
            *super().too_small(),
        )

    def on_resize(self) -> None:
        """Lay out anew, then paint at the new width."""
        super().on_resize()
        self.call_after_refresh(self.repaint, force=True)

    def _report(self) -> None:
        """Have the numbers of the present evidence computed, one computation at a time."""
        state = self.watched.state
        if self._reporting or self.watched.report_of == len(state.measured):
            return
        self._reporting = True
        self._compute(self.watched, state.table(), len(state.measured))

    @work(thread=True, group="report")
    def _compute(self, watched: Watched, table: PivotTable, problems: int) -> None:
        from stats.report import report  # noqa: PLC0415  (attaching need not wait for it)

        spec = watched.spec
        made = report(table, alpha=spec.alpha, decision=spec.decision, seed=spec.seed)
        self.post_message(Reported(watched, made, problems))

    def on_reported(self, message: Reported) -> None:
        """Show the computed numbers."""
        self._reporting = False
        message.watched.report, message.watched.report_of = message.report, message.problems
        message.watched.revision += 1

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
        """Pause the view, or the tape of a replay."""
        if self.watched.mode == "replay":
            if self.tape is not None:
                self.tape.playing = not self.tape.playing
        else:
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
        self.refeed.copy(self.pane.copied(self.watched))

    def action_pause_worker(self) -> None:
        """Ask the worker to pause at the next problem, or to go on."""
        if not self._controllable():
            return
        self.refeed.command(self.watched, "resume" if self.watched.state.paused else "pause")

    def action_abort(self) -> None:
        """Ask once, then stop the worker."""
        if self._controllable():
            self.refeed.confirm_abort(self.watched)

    def _controllable(self) -> bool:
        if self.watched.mode == "replay":
            self.notify("this is a replay: there is no worker to command", markup=False)
            return False
        if not self.watched.live or self.watched.state.ended is not None:
            self.notify("no worker is running on this session", markup=False)
            return False
        return True

    # Replay

    @work(thread=True, exclusive=True, group="tape")
    def _load(self) -> None:
        events, broken = read_all(self.watched.folder, self.watched.registration.digest)
        self.post_message(Loaded(Tape(events, speed=self._speed), broken))

    def on_loaded(self, message: Loaded) -> None:
        """Start the tape."""
        self.tape = message.tape
        self._advanced_at = time.monotonic()
        self.watched.heard(live=False, caught_up=True, broken=message.broken)
        self.repaint(force=True)

    def _advance(self) -> None:
        now = time.monotonic()
        passed, self._advanced_at = now - self._advanced_at, now
        if self.tape is None or self.seeking:
            return
        self.watched.take(self.tape.advance(passed))

    def seek(self, position: int) -> None:
        """Show the recording as it was after its first `position` events."""
        tape = self.tape
        if tape is None:
            return
        position = max(0, min(position, len(tape.events)))
        if position >= tape.position and position - tape.position <= FOLD_INLINE:
            self.watched.take(tape.events[tape.position : position])
            tape.place(position)
            self.repaint(force=True)
            return
        self.seeking = True
        self.repaint(force=True)
        self._refold(tape.events, position)

    @work(thread=True, exclusive=True, group="tape")
    def _refold(self, events: list[AnyEvent], position: int) -> None:
        fresh = Watched.of(self.watched.folder, "replay")
        fresh.take(events[:position])
        self.post_message(Refolded(fresh, position))

    def on_refolded(self, message: Refolded) -> None:
        """Continue from the other place."""
        fresh = message.watched
        fresh.revision = self.watched.revision + 1
        fresh.heard(live=False, caught_up=True, broken=self.watched.broken)
        self.watched = fresh
        self.seeking = False
        if self.tape is not None:
            self.tape.place(message.position)
        self.repaint(force=True)

    def action_step(self, by: int) -> None:
        """One event on or back; the tape stops."""
        if self.tape is not None:
            self.tape.playing = False
            self.seek(self.tape.position + by)

    def action_problem(self, by: int) -> None:
        """To the end of the next or the previous problem."""
        if self.tape is not None:
            self.seek(self.tape.next_close(by))

    def action_speed(self, factor: int) -> None:
        """Twice as fast, or half."""
        if self.tape is not None:
            faster = self.tape.speed * factor if factor > 0 else self.tape.speed / -factor
            self.tape.speed = max(0.125, min(4096.0, faster))
            self.repaint(force=True)

    def action_seek(self) -> None:
        """Ask for a task index and go there."""
        if self.tape is None:
            return
        tape = self.tape

        def chosen(answer: str | None) -> None:
            if answer is None:
                return
            place = tape.after_problem(int(answer)) if answer.strip().isdecimal() else None
            if place is None:
                self.notify(f"no event of task {answer[:20]!r} on this tape", severity="warning", markup=False)
            else:
                self.seek(place)

        self.refeed.ask("Go to which task index?", chosen)

    def action_crossing(self) -> None:
        """To the problem at which the symmetry e-value crossed 1/alpha."""
        if self.tape is not None:
            self._find_crossing(self.tape)

    @work(thread=True, exclusive=True, group="tape")
    def _find_crossing(self, tape: Tape) -> None:
        whole = Watched.of(self.watched.folder, "replay")
        whole.take(tape.events)
        crossing = whole.state.live.monitor.symmetry.crossing
        place = None if crossing is None else tape.close_of(crossing.problem)
        self.app.call_from_thread(self._go, place, "the e-value never crossed 1/alpha in this session")

    def action_failure(self) -> None:
        """To the first cache failure."""
        if self.tape is not None:
            self._go(self.tape.first_failure(), "no cache check failed in this session")

    def _go(self, place: int | None, otherwise: str) -> None:
        if place is None:
            self.notify(otherwise, markup=False)
        elif self.tape is not None:
            self.tape.playing = False
            self.seek(place)

    def check_action(self, action: str, parameters: tuple[Any, ...]) -> bool | None:
        """Keys of a replay mean nothing on a live session."""
        del parameters
        if action in {"step", "problem", "speed", "seek", "crossing", "failure"}:
            return self.watched.mode == "replay"
        return True
