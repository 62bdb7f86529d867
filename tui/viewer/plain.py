"""Following a session in plain lines: its journal and its lock, never the worker's memory."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from sessions.disk.files import open_regular
from sessions.disk.journal import Follower
from sessions.errors import RefeedError
from sessions.text import one_line
from tui import errors
from tui.console import say, warn
from tui.viewer.narrator import REASON_LIMIT
from tui.viewer.session import LiveSession, Worker, unseen

if TYPE_CHECKING:
    from pathlib import Path

    from sessions.store import SessionFolder

POLL: Final = 0.1
SILENCE: Final = 1.7  # with one poll more it stays under the promised 2 s
PAUSED_SILENCE: Final = 60.0
LET_GO: Final = 10.0  # for the worker to free its lock after its last event
LOG_LINES: Final = 12
LOG_BYTES: Final = 32_768
EXIT_CODES: Final = 256


def last_lines(log: Path, wanted: int = LOG_LINES) -> list[str]:
    """The last safe, non-empty lines of a worker's log; none when there is no log."""
    try:
        with os.fdopen(open_regular(log), "rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - LOG_BYTES))
            tail = file.read().decode("utf-8", errors="replace")
    except (OSError, RefeedError):  # a stranger's folder may hold a link or a pipe of that name
        return []
    kept = deque((one_line(line.rstrip(), 200) for line in tail.split("\n") if line.strip()), maxlen=wanted)
    return list(kept)


class PlainFollower:
    """Prints a session's events until its run ends, its worker dies, or somebody interrupts.

    Attributes:
        session: what was read so far, and whether a worker lives.
    """

    def __init__(self, folder: SessionFolder) -> None:
        self.session = LiveSession.of(folder, "attach")
        self._journal = Follower(folder.journal_path, self.session.registration.digest)
        self._heard_at = self._said_at = time.monotonic()

    @property
    def torn(self) -> int:
        """Bytes after the last whole event, at the last look."""
        return self._journal.torn

    def run(self) -> int:
        """Follow to the end and return the run's exit code.

        Raises:
            RefeedError: kind "integrity" when the journal is damaged.
        """
        with self._journal:
            while True:
                live = self._live()  # asked before the poll, so that a dead worker's last events are read
                self._poll()
                if not live:
                    return self._end()
                if self.session.state.ended is not None and time.monotonic() - self._heard_at > LET_GO:
                    return self._end()
                self._fill_silence()
                time.sleep(POLL)

    def _live(self) -> bool:
        """Whether a worker runs, here or on a host whose lock is not seen here."""
        known = self.session.host
        worker = Worker.of(self.session.folder)
        self.session.heard(worker, caught_up=False)
        if worker.live and worker.host and not known:
            self._say(f"runs on host {worker.host}")
        return worker.live

    def _poll(self) -> None:
        for event in self._journal.poll():
            self._heard_at = time.monotonic()
            for line in self.session.add(event):
                self._say(line)

    def _say(self, line: str) -> None:
        say(line)
        self._said_at = time.monotonic()

    def _fill_silence(self) -> None:
        now = time.monotonic()
        patience = PAUSED_SILENCE if self.session.state.paused else SILENCE
        if self.session.state.ended is None and now - self._said_at >= patience:
            self._say(self.session.narrator.current(now - self._heard_at))

    def _end(self) -> int:
        ended = self.session.state.ended
        if ended is None:
            return errors.FAILED
        return ended.exit_code if 0 <= ended.exit_code < EXIT_CODES else errors.FAILED

    def say_end(self) -> None:
        """Say on stderr what went wrong, if anything did; called last, so that it stands where one looks."""
        ended = self.session.state.ended
        if ended is None and self.session.host:
            warn(f"refeed-tui: session {self.session.folder.id} is not seen any more: {unseen(self.session.host)}")
        elif ended is None:
            self._say_death()
        elif ended.exit_code != errors.DONE:
            warn(f"refeed-tui: session {self.session.folder.id} {ended.state}: {one_line(ended.reason, REASON_LIMIT)}")

    def _say_death(self) -> None:
        folder = self.session.folder
        tail = last_lines(folder.log_path)
        if tail:
            say()
            say("The last lines of worker.log:")
            for line in tail:
                say(f"  {line}")
        warn(
            f"refeed-tui: session {folder.id} was interrupted: its worker died without ending it; "
            f"`refeed-tui resume {folder.id}` continues it, its log is {one_line(str(folder.log_path))}"
        )
