"""A recorded session on its own clock: what a replay plays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sessions.disk.journal import Follower
from sessions.errors import RefeedError
from sessions.events import CacheFailure, Opened, Pivot, ProblemClosed

if TYPE_CHECKING:
    from sessions.events import AnyEvent
    from sessions.store import SessionFolder

LONGEST_GAP: Final = 2.0
EVENTS_PER_SECOND: Final = 20.0


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
