"""Reading a journal beside the event loop: a thread that only posts batches, and the recorded clock of a replay."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from textual.message import Message

from sessions.disk.journal import Follower
from sessions.errors import RefeedError
from sessions.events import CacheFailure, Opened, Pivot, ProblemClosed
from stats.distributions import t_cdf
from tui.viewer.session import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessions.events import AnyEvent
    from sessions.store import SessionFolder

BATCH: Final = 1000
POLL: Final = 0.1
SLOW_POLL: Final = 0.25
ALIVE_EVERY: Final = 5
BATCHES_AHEAD: Final = 4
LONGEST_GAP: Final = 2.0
EVENTS_PER_SECOND: Final = 20.0


class Batch(Message):
    """Events from the journal, and what else the reader knows."""

    def __init__(self, events: list[AnyEvent], worker: Worker, *, caught_up: bool, broken: str = "") -> None:
        """Hold what was read."""
        super().__init__()
        self.events = events
        self.worker = worker
        self.caught_up = caught_up
        self.broken = broken


class Feed:
    """Follows a session's journal from a thread.

    At most `BATCHES_AHEAD` batches wait on the event loop, so a long journal never floods it.
    """

    def __init__(self, folder: SessionFolder, digest: str, post: Callable[[Message], object], *, slow: bool) -> None:
        """Prepare; `run` does the work.

        Args:
            folder: of the session.
            digest: of its spec.
            post: hands a message to the event loop, from any thread.
            slow: poll less often.
        """
        self._folder = folder
        self._digest = digest
        self._post = post
        self._wait = SLOW_POLL if slow else POLL
        self._stop = threading.Event()
        self._room = threading.Semaphore(BATCHES_AHEAD)

    def stop(self) -> None:
        """Make `run` return soon."""
        self._stop.set()
        self._room.release()

    def done_with_one(self) -> None:
        """A batch was folded; there is room for another."""
        self._room.release()

    def run(self) -> None:
        """Read until `stop`; a broken journal is told once and ends the reading."""
        t_cdf(1.0, 0.0)  # loads scipy here; the first closed problem would load it on the event loop
        polls, worker = 0, Worker()
        told: tuple[Worker, bool] | None = None
        with Follower(self._folder.journal_path, self._digest) as follower:
            while not self._stop.is_set():
                if polls % ALIVE_EVERY == 0:
                    worker = self._worker()
                polls += 1
                try:
                    events = follower.poll(BATCH)
                except RefeedError as error:
                    self._send(Batch([], worker, caught_up=True, broken=error.message))
                    return
                caught_up = len(events) < BATCH
                if events or told != (worker, caught_up):
                    told = (worker, caught_up)
                    self._send(Batch(events, worker, caught_up=caught_up))
                if caught_up:
                    self._stop.wait(self._wait)

    def _worker(self) -> Worker:
        try:
            return Worker.of(self._folder)
        except RefeedError:  # a lock file that cannot be asked tells nothing; the journal still does
            return Worker()

    def _send(self, batch: Batch) -> None:
        self._room.acquire()
        if not self._stop.is_set():
            self._post(batch)


def read_all(folder: SessionFolder, digest: str) -> tuple[list[AnyEvent], str]:
    """Every event of a journal, and what broke it (empty when nothing did)."""
    events: list[AnyEvent] = []
    with Follower(folder.journal_path, digest) as follower:
        try:
            events.extend(follower)
        except RefeedError as error:
            return events, error.message
    return events, ""


@dataclass(slots=True)
class Tape:
    """A recorded session on its own clock.

    Time runs as the worker's did; between runs, and wherever nothing was recorded (an import), it is shortened.

    Attributes:
        events: all of them.
        at: seconds on the tape of each event, nondecreasing.
        position: how many events are played.
        now: seconds on the tape.
        speed: tape seconds a second.
        playing: whether time runs.
    """

    events: list[AnyEvent]
    at: list[float] = field(default_factory=list)
    position: int = 0
    now: float = 0.0
    speed: float = 1.0
    playing: bool = True

    def __post_init__(self) -> None:
        """Lay the events on the tape."""
        clock, before = 0.0, 0.0
        for event in self.events:
            step = min(event.mono, LONGEST_GAP) if isinstance(event, Opened) else max(0.0, event.mono - before)
            clock += step
            before = event.mono
            self.at.append(clock)
        if clock == 0.0:
            self.at = [number / EVENTS_PER_SECOND for number in range(len(self.events))]

    @property
    def length(self) -> float:
        """Seconds of the whole tape."""
        return self.at[-1] if self.at else 0.0

    @property
    def ended(self) -> bool:
        """Whether everything was played."""
        return self.position >= len(self.events)

    def advance(self, seconds: float) -> list[AnyEvent]:
        """Let real time pass and return the events that came due."""
        if not self.playing or self.ended:
            return []
        self.now = min(self.now + seconds * self.speed, self.length)
        start = self.position
        while self.position < len(self.at) and self.at[self.position] <= self.now:
            self.position += 1
        return self.events[start : self.position]

    def place(self, position: int) -> None:
        """Move to an event; what it takes to show that is the caller's."""
        self.position = max(0, min(position, len(self.events)))
        self.now = self.at[self.position - 1] if self.position > 0 else 0.0

    def after_problem(self, problem: int) -> int | None:
        """Position after which a problem's first event with its index was played; None when it never comes."""
        for number, event in enumerate(self.events):
            if getattr(event, "problem", None) == problem:
                return number + 1
        return None

    def next_close(self, step: int) -> int:
        """Position after the next problem's end (step 1), or with one problem fewer (step -1)."""
        places = [n + 1 for n, event in enumerate(self.events) if isinstance(event, ProblemClosed)]
        if step > 0:
            return next((place for place in places if place > self.position), len(self.events))
        behind = [place for place in places if place <= self.position]
        return behind[-2] if len(behind) > 1 else 0

    def first_failure(self) -> int | None:
        """Position after the first cache failure; None when there is none."""
        for number, event in enumerate(self.events):
            if isinstance(event, CacheFailure) or (isinstance(event, Pivot) and event.cache.state == "failed"):
                return number + 1
        return None

    def close_of(self, problem: int) -> int | None:
        """Position after a problem closed measured; None when it never did."""
        for number, event in enumerate(self.events):
            if isinstance(event, ProblemClosed) and event.problem == problem and event.outcome == "measured":
                return number + 1
        return None
