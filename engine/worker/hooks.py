"""Tells a person's own command when a campaign ends, crosses, fails a cache check or pauses.

The command gets one JSON object on its standard input. It runs in a thread of its own and a process group of its own,
for a bounded time; whatever it does, the campaign does not wait for it, and what went wrong becomes a Notice.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import queue
import re
import signal
import socket
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from sessions.events import CacheFailure, Ended, Paused, ProblemClosed

if TYPE_CHECKING:
    from sessions.disk.hooks import OnEvent
    from sessions.events import Event
    from sessions.state.campaign import CampaignState
    from sessions.store import SessionFolder
    from stats.sequential import EProcess

Kind = Literal["ended", "crossed", "cache-failed", "paused"]

COMMAND_SECONDS: Final = 30.0
# Tokens of a model hub are the worker's business. Keys of a cloud stay: a command that stops the machine needs them.
TOKEN: Final = re.compile(r"(^|_)TOKEN(_|$)", re.IGNORECASE)
WAITING: Final = 64  # messages; a command that is slower than its campaign's events loses some, and that is said


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What a command reads.

    Attributes:
        event: ended, crossed, cache-failed or paused.
        text: all of it in one sentence.
        session: id.
        name: of the session; None without one.
        folder: of the session.
        host: that the worker runs on.
        model: registered.
        time: ISO 8601, UTC.
        state: how it ended (finished, stopped, aborted, interrupted, failed), else running or paused.
        reason: of the event, in words.
        exit_code: of the worker; None unless it ended.
        problems: measured so far.
        registered: problems that were registered.
        pivots: that are evidence so far.
        refeed: rate of changed signs when re-fed, a fraction; None without eligible pivots.
        floor: the same in the replica.
        excess: re-feed minus floor.
    """

    event: Kind
    text: str
    session: str
    name: str | None
    folder: str
    host: str
    model: str
    time: str
    state: str
    reason: str
    exit_code: int | None
    problems: int
    registered: int
    pivots: int
    refeed: float | None
    floor: float | None
    excess: float | None


class Notifier:
    """Runs one command a message, one after the other. `hear` and `complaints` belong to the recording thread."""

    def __init__(
        self, on_event: OnEvent | None, session: SessionFolder, state: CampaignState, seconds: float = COMMAND_SECONDS
    ) -> None:
        """Watch a campaign whose earlier runs are folded into `state`.

        Args:
            on_event: what to run; None for nothing.
            session: that the state is of.
            state: folded by the caller, before each `hear`.
            seconds: that one command may take.
        """
        self._on_event = on_event
        self._session = session
        self._state = state
        self._seconds = seconds
        self._crossed = self._process().crossing is not None
        self._failed: set[tuple[int, int]] = set()
        self._messages: queue.Queue[Message | None] = queue.Queue(WAITING)
        self._complaints: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._running: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None

    def _process(self) -> EProcess:
        return self._state.live.monitor.followed(self._state.spec.stop)

    def hear(self, event: Event) -> None:
        """Take an event that was recorded and folded; returns at once."""
        if self._on_event is None:
            return
        found = self._occasion(event)
        if found is None:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, args=(self._on_event,), name="on-event", daemon=True)
            self._thread.start()
        try:
            self._messages.put_nowait(self._message(event, *found))
        except queue.Full:
            self._complaints.put(f"--on-event: {WAITING} messages wait already; `{found[0]}` was left out")

    def _occasion(self, event: Event) -> tuple[Kind, str, str] | None:
        """Kind, state and reason of a message that an event deserves."""
        match event:
            case Ended():
                return "ended", event.state, event.reason
            case Paused():
                return "paused", "paused", f"asked by {event.by}; the engine stays loaded and the machine billed"
            case CacheFailure() if (event.problem, event.attempt) not in self._failed:  # one a problem, not hundreds
                self._failed.add((event.problem, event.attempt))
                return "cache-failed", "running", f"{event.stage} of problem {event.problem}: {event.reason}"
            case ProblemClosed() if not self._crossed and self._process().crossing is not None:
                self._crossed = True
                process = self._process()
                level = f"1/alpha = {1 / self._state.spec.alpha:g}"
                reason = f"the e-process reached {process.e_max:.1f}, over {level}, at problem {event.problem}"
                return "crossed", "running", reason
            case _:
                return None

    def _message(self, event: Event, kind: Kind, doing: str, reason: str) -> Message:
        state, spec, common = self._state, self._state.spec, self._state.live.common
        refeed, floor, excess = common.refeed.rate, common.floor.rate, common.excess
        rates = "" if excess is None else f", excess {100 * excess:+.1f}pp"
        label = self._session.id if self._session.name is None else f"{self._session.name} ({self._session.id})"
        said = f"{label} {doing if kind == 'ended' else kind}: {reason}"
        return Message(
            event=kind,
            text=f"{said}; {len(state.measured)} of {spec.problems} problems{rates}",
            session=self._session.id,
            name=self._session.name,
            folder=str(self._session.path),
            host=socket.gethostname(),
            model=spec.model or "",
            time=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            state=doing,
            reason=reason,
            exit_code=event.exit_code if isinstance(event, Ended) else None,
            problems=len(state.measured),
            registered=spec.problems,
            pivots=state.live.pivots,
            refeed=refeed,
            floor=floor,
            excess=excess,
        )

    def _serve(self, on_event: OnEvent) -> None:
        while (message := self._messages.get()) is not None:
            wrong = self._tell(on_event, message)
            if wrong:
                self._complaints.put(f"--on-event {on_event.argv[0]} ({message.event}): {wrong}")

    def _tell(self, on_event: OnEvent, message: Message) -> str:
        """Run the command with one message; returns what went wrong, or nothing."""
        try:
            process = subprocess.Popen(on_event.argv, stdin=subprocess.PIPE, start_new_session=True, env=_environment())
        except (OSError, ValueError) as error:
            return f"cannot be run: {error}"
        self._running = process
        try:
            process.communicate(msgspec.json.encode(message) + b"\n", timeout=self._seconds)
        except subprocess.TimeoutExpired:
            _kill(process)
            process.wait()
            return f"took more than {self._seconds:g} s and was killed"
        finally:
            self._running = None
        return "" if process.returncode == 0 else f"exit code {process.returncode}; worker.log has its output"

    def complaints(self) -> list[str]:
        """What went wrong since the last call, a sentence each."""
        found = []
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(self._complaints.get_nowait())
        return found

    def close(self) -> None:
        """Wait until everything was told, as long as one command may take; then kill what still runs."""
        if self._thread is None:
            return
        deadline = time.monotonic() + self._seconds
        with contextlib.suppress(queue.Full):
            self._messages.put(None, timeout=self._seconds)
        self._thread.join(max(0.0, deadline - time.monotonic()) + 1.0)
        if self._thread.is_alive():
            running = self._running
            if running is not None:
                _kill(running)
            self._complaints.put(f"--on-event: not everything was told within {self._seconds:g} s of the end")


def _environment() -> dict[str, str]:
    """The worker's environment without tokens, for a command that may send it anywhere."""
    return {name: value for name, value in os.environ.items() if TOKEN.search(name) is None}


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a command and what it started, as long as that stayed in its process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
