"""The thread beside a campaign that hears what is asked of it, and ends a worker that does not end by itself.

Ten times a second it reads the session's requests and the signals that came. A campaign heeds a stop within one engine
step. Where one does not return (a template that loops, a collective that hangs, an engine that cannot be closed), the
worker is left all the same after a grace period, with its end recorded: the machine must not be billed for ever.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from engine.protocol.control import StopRequest
from sessions.disk import requests
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from engine.protocol.control import Control
    from sessions.disk.requests import Command

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SIGNAL_EXIT: Final = 128
USER_ABORT: Final = 1
LOOK_SECONDS: Final = 0.1
LOADING_GRACE: Final = 3.0
GRACE: Final = 30.0  # an engine step takes seconds at most, and so does the closing of an engine
MOST_TOLD: Final = 10  # sentences about a folder that somebody fills with other things


def obey(control: Control, command: Command) -> None:
    """Pass one request on to the campaign."""
    if command == "abort":
        control.stop("aborted by the user", "aborted", USER_ABORT)
    elif command == "pause":
        control.pause()
    else:
        control.resume()


def stop_by_signal(control: Control, number: int) -> None:
    """Ask for the end that a signal means."""
    name = signal.Signals(number).name
    control.stop(f"the worker got {name}; `resume` continues", "interrupted", SIGNAL_EXIT + number)


class Watchdog:
    """Hears requests and signals, and leaves a worker that does not heed a stop.

    Attributes:
        leave: ends the process, with the end recorded where there is a journal. It does not return in a worker.
        say: records one sentence on requests that were ignored.
    """

    def __init__(self, control: Control, folder: Path, leave: Callable[[StopRequest], None]) -> None:
        """Prepare; `running` starts it.

        Args:
            control: where requests go.
            folder: of the session's requests.
            leave: as in the attributes.
        """
        self.leave = leave
        self.say: Callable[[str], None] = lambda text: print(text, file=sys.stderr)  # noqa: T201 - worker.log
        self._control = control
        self._folder = folder
        self._loading = False
        self._guarded = True
        self._deadline: float | None = None
        self._obeyed: set[str] = set()
        self._told: set[str] = set()

    def unguarded(self) -> None:
        """Leave a loading engine no sooner than any other: it has started processes that nobody would end."""
        self._guarded = False

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Load an engine in the block: nothing is measured yet, so a stop waits seconds only for the next stage."""
        self._loading = True
        try:
            yield
        finally:
            self._loading = False

    def close_within(self, seconds: float = GRACE) -> None:
        """Be gone in so many seconds from now; else the worker is left, whether a stop was asked for or not."""
        self._deadline = time.monotonic() + seconds

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch while the block runs. In a main thread, signals are heard even where no Python code runs there."""
        over = threading.Event()
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        os.set_blocking(write_end, False)
        before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        thread = threading.Thread(target=self._watch, args=(over, read_end), name="watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            if threading.current_thread() is not thread:  # else this process is being left
                signal.set_wakeup_fd(before)
                thread.join()
                os.close(write_end)
                os.close(read_end)

    def _watch(self, over: threading.Event, signals: int) -> None:
        since: float | None = None
        while not over.is_set():
            select.select([signals], [], [], LOOK_SECONDS)
            with contextlib.suppress(BlockingIOError):
                for number in os.read(signals, 64):
                    if number in SIGNALS:
                        stop_by_signal(self._control, number)
            self._read_requests()
            asked = self._control.stop_request
            if asked is not None and since is None:
                since = time.monotonic()
            if self._overdue(since) and not over.is_set():
                self.leave(asked or StopRequest(f"the engine did not close within {GRACE:.0f} s", "failed", 1))
                return

    def _overdue(self, since: float | None) -> bool:
        now = time.monotonic()
        if self._deadline is not None:
            return now > self._deadline
        grace = LOADING_GRACE if self._loading and self._guarded else GRACE
        return since is not None and now - since > grace

    def _read_requests(self) -> None:
        """Obey what waits; what is no request, or cannot be removed, is said once."""
        try:
            found = requests.look(self._folder)
            for name, command in found.requests:
                if name not in self._obeyed:
                    obey(self._control, command)
                    self._obeyed.add(name)  # until it is gone, or it would be obeyed ten times a second
                requests.remove(self._folder, name)
                self._obeyed.discard(name)
            for name in found.strange:
                self._once(f"requests/{name} is no request and is ignored")
        except RefeedError as error:
            self._once(str(error))

    def _once(self, text: str) -> None:
        if text not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(text)
            self.say(text)
