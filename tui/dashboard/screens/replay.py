"""A replay: the panels of a campaign on the recorded clock."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar, Final

from textual import work
from textual.binding import Binding
from textual.message import Message

from sessions.numbers import clock
from tui.dashboard.screens.campaign import CampaignScreen
from tui.dashboard.screens.dialogs import Ask
from tui.dashboard.widgets.lines import Lines
from tui.dashboard.words import bar, joined
from tui.viewer.session import LiveSession, Worker, process
from tui.viewer.tape import Tape, read_all

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget

    from sessions.events import AnyEvent
    from tui.dashboard.style import Glyphs, Line


def tape_line(recording: Tape | None, width: int, glyphs: Glyphs, *, seeking: bool) -> Line:
    """Where a replay is, how fast it runs, and its keys."""
    if recording is None:
        return (("REPLAY: reading the recording", "accent"),)
    state = "seeking" if seeking else ("ended" if recording.ended else ("playing" if recording.playing else "held"))
    mark = glyphs.play if state == "playing" else glyphs.hold
    share = recording.now / recording.length if recording.length > 0 else 1.0
    filled, rest = bar(share, 6 if width < 110 else 20, glyphs, "accent")  # noqa: PLR2004  (a wide terminal)
    speed = f"{recording.speed:g}{glyphs.times}"
    return joined(
        (
            ((f"REPLAY {mark} {state}", "accent"),),
            ((f"{clock(recording.now)} of {clock(recording.length)} ", "plain"), filled, rest),
            ((speed, "strong"), (" +-", "key")),
            (
                (",.", "key"),
                (" step ", "muted"),
                ("np", "key"),
                (" problem ", "muted"),
                ("t", "key"),
                (" task", "muted"),
            ),
            (("x", "key"), (" crossing ", "muted"), ("f", "key"), (" failure", "muted")),
            ((f"event {recording.position:,}/{len(recording.events):,}", "muted"),),
        ),
        width,
        glyphs,
    )


TAPE_EVERY: Final = 0.1
FOLD_INLINE: Final = 2000
SLOWEST: Final = 0.125
FASTEST: Final = 4096.0


class Loaded(Message):
    """A recorded session was read to its end."""

    def __init__(self, tape: Tape, broken: str) -> None:
        super().__init__()
        self.tape = tape
        self.broken = broken


class Refolded(Message):
    """A replay was folded up to another place."""

    def __init__(self, session: LiveSession, position: int) -> None:
        super().__init__()
        self.session = session
        self.position = position


class ReplayScreen(CampaignScreen):
    """A recorded session: it plays, stops, steps and seeks.

    Attributes:
        tape: the recording; None until it was read.
        seeking: whether another place is being folded.
    """

    BINDINGS: ClassVar = [
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

    def __init__(self, session: LiveSession, *, speed: float = 1.0) -> None:
        """Prepare; reading starts when it is shown.

        Args:
            session: the session, with nothing folded.
            speed: recorded seconds a second.
        """
        super().__init__(session)
        self.tape: Tape | None = None
        self.seeking = False
        self._speed = speed
        self._advanced_at = 0.0

    @property
    def settled(self) -> bool:
        """Whether the place that was asked for is shown."""
        return self.session.caught_up and not self.seeking

    def below(self) -> Iterable[Widget]:
        """The line of the tape."""
        return (Lines(id="tape"),)

    def begin_reading(self, pace: int) -> None:
        """Read the whole recording."""
        self.set_interval(TAPE_EVERY * pace, self._advance)
        self._load()

    def on_unmount(self) -> None:
        """Let go of the recording, too; Textual calls the base's."""
        self.tape = None

    def frame_stamp(self) -> object:
        """What the tape's line shows, to compare."""
        tape = self.tape
        place = None if tape is None else (tape.position, int(tape.now), tape.speed, tape.playing)
        return self.seeking, place

    def paint_frame(self) -> None:
        """Paint the tape's line, too."""
        super().paint_frame()
        width = max(1, self.app.size.width - 2)
        line = tape_line(self.tape, width, self.services.glyphs, seeking=self.seeking)
        self.query_one("#tape", Lines).show((line,))

    def action_hold(self) -> None:
        """Stop the clock, or let it run."""
        if self.tape is not None:
            self.tape.playing = not self.tape.playing
        self.repaint(force=True)

    def controllable(self) -> bool:
        """A recording has no worker."""
        self.notify("this is a replay: there is no worker to command", markup=False)
        return False

    @work(thread=True, exclusive=True, group="tape")
    def _load(self) -> None:
        events, broken = read_all(self.session.folder, self.session.registration.digest)
        self.post_message(Loaded(Tape(events, speed=self._speed), broken))

    def on_loaded(self, message: Loaded) -> None:
        """Start the tape."""
        self.tape = message.tape
        self._advanced_at = time.monotonic()
        self.session.heard(Worker(), caught_up=True, broken=message.broken)
        self.repaint(force=True)

    def _advance(self) -> None:
        now = time.monotonic()
        passed, self._advanced_at = now - self._advanced_at, now
        if self.tape is None or self.seeking:
            return
        self.session.take(self.tape.advance(passed))

    def seek(self, position: int) -> None:
        """Show the recording as it was after its first `position` events."""
        tape = self.tape
        if tape is None:
            return
        position = max(0, min(position, len(tape.events)))
        if position >= tape.position and position - tape.position <= FOLD_INLINE:
            self.session.take(tape.events[tape.position : position])
            tape.place(position)
            self.repaint(force=True)
            return
        self.seeking = True
        self.repaint(force=True)
        self._refold(tape.events, position)

    @work(thread=True, exclusive=True, group="tape")
    def _refold(self, events: list[AnyEvent], position: int) -> None:
        fresh = LiveSession.of(self.session.folder, "replay")
        fresh.take(events[:position])
        self.post_message(Refolded(fresh, position))

    def on_refolded(self, message: Refolded) -> None:
        """Continue from the other place."""
        fresh = message.session
        fresh.revision = self.session.revision + 1
        fresh.heard(Worker(), caught_up=True, broken=self.session.broken)
        self.session = fresh
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
            self.tape.speed = max(SLOWEST, min(FASTEST, faster))
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

        self.app.push_screen(Ask("Go to which task index?"), chosen)

    def action_crossing(self) -> None:
        """To the problem at which the stop rule's e-value crossed 1/alpha."""
        if self.tape is not None:
            self._find_crossing(self.tape)

    @work(thread=True, exclusive=True, group="tape")
    def _find_crossing(self, tape: Tape) -> None:
        whole = LiveSession.of(self.session.folder, "replay")
        whole.take(tape.events)
        crossing = process(whole.state).crossing
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
