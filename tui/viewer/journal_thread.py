"""Reading a journal beside the event loop, in a thread that only posts batches."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from textual.message import Message

from sessions.disk.journal import Follower
from sessions.errors import RefeedError
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


class Batch(Message):
    """Events from the journal, and what else the reader knows."""

    def __init__(self, events: list[AnyEvent], worker: Worker, *, caught_up: bool, broken: str = "") -> None:
        super().__init__()
        self.events = events
        self.worker = worker
        self.caught_up = caught_up
        self.broken = broken


class JournalThread:
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
