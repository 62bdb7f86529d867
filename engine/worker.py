"""The worker process: lock, socket and journal first, then the engine, then the campaign.

Started as `python -P -m engine.worker FOLDER` by `engine.supervisor`; it outlives its launcher. Until it says "ready"
on the ready pipe nothing was promised; after that every end is an `Ended` event in the journal.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import sys
import threading
import time
import traceback
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from engine.backends.load import load
from engine.bench import Bench
from engine.campaign import run
from engine.control import Control
from engine.controlsocket import Server, socket_path
from engine.fingerprint import check_engine, engine_ready, keep_process_mode, pinned
from engine.guardian import guard
from engine.limits import Limits, check_may_go_on
from engine.notify import Notifier
from engine.ready import Ready, tell
from engine.registration import digest_of_model
from engine.tasks.registry import open_task
from sessions.errors import RefeedError
from sessions.events import Ended, Notice, Opened, Paused, ProblemClosed, Resumed
from sessions.journal import Journal
from sessions.locks import lock
from sessions.onevent import kept
from sessions.reading import read
from sessions.reserve import Reserve
from sessions.run import RunInfo
from sessions.state import fold, new_state
from sessions.store import SessionFolder
from sessions.version import VERSION

if TYPE_CHECKING:
    from types import FrameType

    from engine.backend import Backend
    from engine.controlsocket import Command
    from sessions.campaign import CampaignState
    from sessions.errors import Kind
    from sessions.events import AnyEvent
    from sessions.spec import CampaignSpec

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SIGNAL_EXIT: Final = 128
WARNING: Final = "warning: "
UNGUARDED: Final = (
    "this worker was started by hand and leads no session of its own: after kill -9 processes of its engine may stay "
    "and hold the GPU; `resume` starts it so that none can"
)
USER_ABORT: Final = 1
FAILED: Final = 1
# A stage of loading is told in so many steps at most: a download of minutes should be seen to move.
LOADING_STEPS: Final = 100
# Stages of loading that the backend tells by itself, not from within a library's call, which an error could harm.
MAY_END_AT: Final = ("downloading", "starting the engine core", "warming up")


@dataclass(frozen=True, slots=True)
class Options:
    """Arguments of the worker.

    Attributes:
        folder: the session's folder.
        ready_fd: pipe to the launcher; None when started by hand.
        past_stop: continue past the sequential stop.
        allow_changed_engine: continue although the numerics fingerprint changed.
    """

    folder: Path
    ready_fd: int | None
    past_stop: bool
    allow_changed_engine: bool


class Recorder:
    """Appends events to the journal and folds the stamped event into the state that the campaign reads."""

    def __init__(self, journal: Journal, state: CampaignState, folder: SessionFolder, notifier: Notifier) -> None:
        """Record into `journal`, `state` and the folder's summary, and let `notifier` hear of it."""
        self._journal = journal
        self._state = state
        self._folder = folder
        self._notifier = notifier

    def emit(self, event: AnyEvent) -> None:
        """Append, fold, and refresh the summary that `list` reads where it would show a difference."""
        for wrong in self._notifier.complaints():
            self._record(Notice(kind="on-event", text=wrong))
        self._record(event)

    def _record(self, event: AnyEvent) -> None:
        stamped = self._journal.append(event)
        fold(self._state, stamped)
        if isinstance(stamped, ProblemClosed | Paused | Resumed | Ended):
            self._folder.summary()
        self._notifier.hear(stamped)

    def finish(self) -> None:
        """Wait until the end was told, and record what went wrong with that."""
        self._notifier.close()
        for wrong in self._notifier.complaints():
            sys.stderr.write(f"{wrong}\n")
            with contextlib.suppress(RefeedError):  # a full disk is no reason to end otherwise than recorded
                self._record(Notice(kind="on-event", text=wrong))


def catch_signals(control: Control) -> None:
    """Let signals end the campaign within one engine step, with the journal closed."""

    def ask_to_stop(number: int, _frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        control.stop(f"the worker got {name}; `resume` continues", "interrupted", SIGNAL_EXIT + number)

    for number in SIGNALS:
        signal.signal(number, ask_to_stop)


def handle(control: Control, command: Command) -> str:
    """Carry out one command and return the sentence that the asker sees."""
    if command == "abort":
        control.stop("aborted by the user", "aborted", USER_ABORT)
        return "aborting within one engine step; nothing that is recorded is lost"
    if command == "pause":
        control.pause()
        return "pausing before the next problem; the engine stays loaded and the machine billed"
    if command == "resume":
        control.resume()
        return "going on"
    return "paused" if control.pause_requested else "running"


def start_deadline(limits: Limits, control: Control) -> threading.Timer | None:
    """Stop the campaign when `max_hours` or `max_cost` is reached within a problem; None without a limit."""
    left = limits.seconds_left()
    if left is None:
        return None
    seconds, name = left
    timer = threading.Timer(max(seconds, 0.0), control.stop, (f"{name} reached", "stopped", 0))
    timer.daemon = True
    timer.start()
    return timer


def start_engine(
    spec: CampaignSpec, recorder: Recorder, state: CampaignState, control: Control, *, allow_changed: bool
) -> Backend:
    """Load the backend and record what it turned out to be.

    Raises:
        RefeedError: kind "engine", also when a resumed session would continue on other numerics, and when the campaign
            is to stop and the backend begins a stage at which it may.
    """
    began = time.monotonic()
    told: set[tuple[str, int]] = set()

    def progress(stage: str, fraction: float) -> None:
        if control.stop_request is not None and stage.startswith(MAY_END_AT):
            raise RefeedError("engine", f"stopped at {stage}", "`resume` goes on")
        step = (stage, int(fraction * LOADING_STEPS))
        if step in told:
            return
        told.add(step)
        if stage.startswith(WARNING):
            recorder.emit(Notice(kind="warning", text=stage.removeprefix(WARNING)))
        else:
            recorder.emit(Notice(kind="loading", text=stage, fraction=fraction))

    if spec.engine == "vllm" and not guard():  # the embedded engine starts no process
        recorder.emit(Notice(kind="warning", text=UNGUARDED))
    keep_process_mode(state, os.environ)
    backend = load(pinned(spec, state), progress)
    ready = engine_ready(backend.info, time.monotonic() - began, state)
    check_engine(ready, allow_changed=allow_changed)
    recorder.emit(ready)
    return backend


def _as_registered(kind: Kind, name: str | None, now: str | None, registered: str | None) -> None:
    """Refuse data or a model whose content changed since the campaign was registered."""
    if now != registered:
        raise RefeedError(
            kind,
            f"{name} now hashes to {str(now)[:16]}, but {str(registered)[:16]} was registered",
            "restore the file, or register a new campaign",
        )


def limits_of(options: Options, session: SessionFolder, state: CampaignState) -> Limits:
    """The registered ends, with the time that earlier runs took."""
    return Limits(
        spec=session.spec(),
        price_per_hour=session.registration().price_per_hour,
        past_stop=options.past_stop,
        earlier_seconds=state.seconds,
        began=time.monotonic(),
    )


def campaign(
    options: Options, session: SessionFolder, recorder: Recorder, state: CampaignState, control: Control
) -> Ended:
    """Load the engine, run the campaign, and return how it ended."""
    spec = session.spec()
    limits = limits_of(options, session, state)
    start_deadline(limits, control)
    task = open_task(str(spec.task))
    _as_registered("task", spec.task, task.digest, spec.task_digest)
    _as_registered("engine", spec.model, digest_of_model(spec), spec.model_digest)
    backend = start_engine(spec, recorder, state, control, allow_changed=options.allow_changed_engine)
    try:
        attempt = len(state.runs) - 1
        return run(Bench(spec, backend, task, recorder.emit, control, attempt, limits, session.texts_path), state)
    finally:
        backend.close()


def attended(
    options: Options,
    session: SessionFolder,
    recorder: Recorder,
    state: CampaignState,
    control: Control,
    reserve: Reserve,
) -> int:
    """Run the campaign and record its end, whatever it is; return the exit code.

    Raises:
        RefeedError: kind "failed" when not even the end can be recorded.
    """
    try:
        ended = campaign(options, session, recorder, state, control)
    except RefeedError as error:
        reserve.release()
        with contextlib.suppress(OSError):  # a stop that was asked for takes the error's place in the journal
            traceback.print_exc()
        asked = control.stop_request
        ended = Ended(state="failed", exit_code=FAILED, reason=str(error))
        if asked is not None:
            ended = Ended(state=asked.state, exit_code=asked.exit_code, reason=asked.reason)
    except BaseException as error:  # whatever it was, the journal must say how it ended
        reserve.release()
        traceback.print_exc()
        reason = f"{type(error).__name__}: {error}; the traceback is in worker.log"
        recorder.emit(Ended(state="failed", exit_code=FAILED, reason=reason))
        raise
    recorder.emit(ended)
    return ended.exit_code


def work(options: Options) -> int:
    """Take the session, tell the launcher, and see the campaign to its end; return the exit code.

    Raises:
        RefeedError: before "ready": the session is running elsewhere, damaged, has nothing left to do, or cannot be
            written.
    """
    session = SessionFolder(options.folder)
    control = Control()
    with ExitStack() as stack:
        stack.enter_context(lock(session.lock_path))
        registration = session.registration()
        state = new_state(session.spec())
        journal = stack.enter_context(Journal.open(session.journal_path, registration.digest))
        for event in read(session.journal_path, registration.digest):
            fold(state, event)
        check_may_go_on(limits_of(options, session, state), state)
        reserve = stack.enter_context(Reserve(session.path / ".reserve"))
        path = socket_path(session.id)
        server = Server(path, session.id, lambda command: handle(control, command))
        stack.callback(server.close)
        RunInfo.here(str(path), VERSION).write(session.run_path)
        catch_signals(control)
        recorder = Recorder(journal, state, session, Notifier(kept(session), session, state))
        stack.callback(recorder.finish)
        host = socket.gethostname()
        recorder.emit(
            Opened(session=session.id, version=VERSION, host=host, pid=os.getpid(), past_stop=options.past_stop)
        )
        if journal.recovered is not None:
            torn = journal.recovered
            did = "kept: only its newline was missing" if torn.completed else "cut off"
            recorder.emit(Notice(kind="recovered", text=f"a torn last line of {torn.length} bytes was {did}"))
        tell(options.ready_fd, Ready(ok=True))
        try:
            return attended(options, session, recorder, state, control, reserve)
        except RefeedError as error:  # not even the end could be written; the pipe is closed, its number another's
            traceback.print_exc()
            sys.stderr.write(f"refeed-tui: the end of this run could not be recorded: {error}\n")
            return FAILED


def parse(arguments: list[str]) -> Options:
    """Read the worker's arguments."""
    parser = argparse.ArgumentParser(prog="python -P -m engine.worker")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ready-fd", type=int)
    parser.add_argument("--past-stop", action="store_true")
    parser.add_argument("--allow-changed-engine", action="store_true")
    given = parser.parse_args(arguments)
    return Options(given.folder, given.ready_fd, given.past_stop, given.allow_changed_engine)


def main(arguments: list[str] | None = None) -> int:
    """Run a worker; the exit code is the campaign's."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    try:
        return work(options)
    except RefeedError as error:
        tell(options.ready_fd, Ready(ok=False, kind=error.kind, message=error.message, hint=error.hint))
        with contextlib.suppress(OSError):  # the log may be on the disk that is full
            traceback.print_exc()
        return FAILED


if __name__ == "__main__":
    sys.exit(main())
