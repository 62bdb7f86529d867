"""One run on a session: its engine loads, the campaign goes on where it was, and the end is recorded in any case."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn, get_args

from engine.backends.load import load
from engine.digests import open_inputs
from engine.protocol.campaign import run as measure_all
from engine.protocol.context import Bench
from engine.protocol.limits import Limits
from engine.registration import READING, first_prompt
from engine.worker.canary import sing
from engine.worker.guardian import guard
from engine.worker.numerics import EngineChangedError, check_engine, engine_ready, keep_process_mode, pinned
from sessions.errors import RefeedError
from sessions.events import Ended, EndState, Notice, Paused, ProblemClosed, Resumed
from sessions.state.fold import fold

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack
    from pathlib import Path

    from engine.backend import Backend
    from engine.digests import Inputs
    from engine.protocol.control import Control, StopRequest
    from engine.tasks.task import Task
    from sessions.disk.files import Reserve
    from sessions.spec import CampaignSpec
    from sessions.state.campaign import CampaignState
    from sessions.store import SessionFolder

    Hear = Callable[[str, float], None]
    from engine.worker.hooks import Notifier
    from engine.worker.watchdog import Watchdog
    from sessions.disk.journal import Journal
    from sessions.events import AnyEvent

WARNING: Final = "warning: "
UNGUARDED: Final = (
    "this worker was started by hand and leads no session of its own: after kill -9 processes of its engine may stay "
    "and hold the GPU; `resume` starts it so that none can"
)
FAILED: Final = 1
# A stage of loading is told in so many steps at most: a download of minutes should be seen to move.
LOADING_STEPS: Final = 100
MAY_END_AT: Final = (READING, "downloading", "starting the engine core", "warming up")
LONGEST_REASON: Final = 4_000
IN_THE_LOG: Final = "worker.log has all of it"
LOCK_SECONDS: Final = 5.0  # an append takes milliseconds, unless its disk hangs


@dataclass(frozen=True, slots=True)
class Options:
    """Arguments of the worker.

    Attributes:
        folder: the session's folder.
        ready_fd: pipe to the launcher; None when started by hand.
        past_stop: continue past the sequential stop.
        allow_changed_engine: continue although the numerics fingerprint changed.
        change_on_stdin: whether standard input holds a change of the command that hears of events.
    """

    folder: Path
    ready_fd: int | None
    past_stop: bool
    allow_changed_engine: bool
    change_on_stdin: bool


@dataclass(frozen=True, slots=True)
class Run:
    """One run on a session, from its first event to its last.

    Attributes:
        options: of the worker.
        session: its folder.
        state: everything that is recorded.
        control: what is asked of it.
        recorder: where events go.
        reserve: disk space for the last one.
        watchdog: hears what is asked of it, and ends it where it does not end by itself.
        inputs: data and weights, where they were checked before the run began; None where they still must be.
    """

    options: Options
    session: SessionFolder
    state: CampaignState
    control: Control
    recorder: Recorder
    reserve: Reserve
    watchdog: Watchdog
    inputs: Inputs | None


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


def hearer(recorder: Recorder, control: Control) -> Hear:
    """Return what records the progress of loading, in steps that are worth a line, and raises where a stop may end it.

    The stages of `MAY_END_AT` are told by our own code, not from within a library's call, which an error could harm.
    """
    told: set[tuple[str, int]] = set()

    def hear(stage: str, fraction: float) -> None:
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

    return hear


def start_engine(run: Run, spec: CampaignSpec) -> tuple[Backend, Task]:
    """Check what was registered, load the backend, and record what it turned out to be.

    Raises:
        RefeedError: kind "task" or "engine": data or weights changed, a resumed session would continue on other
            numerics, or the campaign is to stop and a stage begins at which it may.
    """
    recorder, state = run.recorder, run.state
    hear = hearer(recorder, run.control)
    if spec.engine == "vllm" and not guard():  # the embedded engine starts no process
        recorder.emit(Notice(kind="warning", text=UNGUARDED))
        run.watchdog.unguarded()
    inputs = run.inputs or open_inputs(spec, hear)
    first_prompt(spec, inputs.task)
    began = time.monotonic()
    keep_process_mode(state, os.environ)
    backend = load(pinned(spec, state), hear)
    try:
        ready = engine_ready(backend.info, time.monotonic() - began, sing(backend), state)
        inputs.require_still()
        check_engine(ready, state, allow_changed=run.options.allow_changed_engine)
        recorder.emit(ready)
    except BaseException:
        backend.close()
        raise
    return backend, inputs.task


def limits_of(options: Options, session: SessionFolder, state: CampaignState) -> Limits:
    """The registered ends, with the time that earlier runs took."""
    return Limits(
        spec=session.spec(),
        price_per_hour=session.registration().price_per_hour,
        past_stop=options.past_stop,
        earlier_seconds=state.seconds,
        began=time.monotonic(),
    )


def campaign(run: Run) -> Ended:
    """Load the engine, run the campaign, and return how it ended."""
    spec, state, recorder = run.session.spec(), run.state, run.recorder
    limits = limits_of(run.options, run.session, state)
    start_deadline(limits, run.control)
    with run.watchdog.loading():
        backend, task = start_engine(run, spec)
    attempt = len(state.runs) - 1
    bench = Bench(spec, backend, task, recorder.emit, run.control, attempt, limits, run.session.texts_path)
    try:
        ended = measure_all(bench, state)
        run.control.stop(ended.reason, ended.state, ended.exit_code)  # recorded even if the engine never closes
        return ended
    finally:
        run.watchdog.close_within()
        with contextlib.suppress(RefeedError):  # the disk may be full, and that is said by whoever found out
            recorder.emit(Notice(kind="closing", text="closing the engine"))
        backend.close()


def reason_of(said: str) -> str:
    """An error's words for the journal; what is too long for a viewer's lines ends with where all of it is."""
    return said if len(said) <= LONGEST_REASON else f"{said[:LONGEST_REASON]}... ({IN_THE_LOG})"


def state_before(state: CampaignState) -> EndState:
    """How the earlier run ended, which a resume that is refused leaves as it was; "interrupted" where it died."""
    earlier = [one.ended for one in state.runs[:-1]]
    return next((end for end in get_args(EndState) if [end] == earlier[-1:]), "interrupted")


def attended(run: Run) -> int:
    """Run the campaign and record its end, whatever it is; return the exit code.

    Raises:
        RefeedError: kind "failed" when not even the end can be recorded.
    """
    try:
        ended = campaign(run)
    except RefeedError as error:
        run.reserve.release()
        with contextlib.suppress(OSError):  # a stop that was asked for takes the error's place in the journal
            traceback.print_exc()
        asked = run.control.stop_request
        refused = isinstance(error, EngineChangedError)
        ended = Ended(
            state=state_before(run.state) if refused else "failed", exit_code=FAILED, reason=reason_of(str(error))
        )
        if asked is not None:
            ended = asked.end()
    except BaseException as error:  # whatever it was, the journal must say how it ended
        run.reserve.release()
        traceback.print_exc()
        reason = f"{reason_of(f'{type(error).__name__}: {error}')}; the traceback is in worker.log"
        run.recorder.emit(Ended(state="failed", exit_code=FAILED, reason=reason))
        raise
    run.recorder.emit(ended)
    return ended.exit_code


def leave_now(run: Run, stack: ExitStack, asked: StopRequest) -> NoReturn:
    """Record the end that was asked for, give back what others can see, and end the process, whatever it is doing."""
    code = FAILED
    try:
        run.reserve.release()
        # Held for good: nothing is recorded after the end. A thread that hangs in the journal must not hold it off.
        if run.recorder.alone.acquire(timeout=LOCK_SECONDS):
            if run.state.ended is None:
                sys.stderr.write(f"refeed-tui: {asked.reason}: the worker did not end by itself, and is left\n")
                run.recorder.emit(asked.end())
            code = run.state.ended.exit_code if run.state.ended is not None else asked.exit_code
            stack.close()
    except (RefeedError, OSError):
        with contextlib.suppress(OSError):
            traceback.print_exc()
    finally:
        os._exit(code)


class Recorder:
    """Appends events to the journal and folds the stamped event into the state that the campaign reads.

    Attributes:
        alone: held while an event is recorded; whoever holds it records alone.
    """

    def __init__(self, journal: Journal, state: CampaignState, folder: SessionFolder, notifier: Notifier) -> None:
        """Record into `journal`, `state` and the folder's summary, and let `notifier` hear of it."""
        self._journal = journal
        self._state = state
        self._folder = folder
        self._notifier = notifier
        self.alone = threading.RLock()

    def emit(self, event: AnyEvent) -> None:
        """Append, fold, and refresh the summary that `list` reads where it would show a difference."""
        with self.alone:
            for wrong in self._notifier.complaints():
                self._record(Notice(kind="on-event", text=wrong))
            self._record(event)

    def _record(self, event: AnyEvent) -> None:
        stamped = self._journal.append(event)
        fold(self._state, stamped)
        if isinstance(stamped, ProblemClosed | Paused | Resumed | Ended):
            self._folder.summary()
        self._notifier.hear(stamped)

    def say(self, kind: str, text: str) -> None:
        """Record a notice from another thread; where the journal is busy for long, it goes to the log alone."""
        if not self.alone.acquire(timeout=1.0):
            sys.stderr.write(f"refeed-tui: {text}\n")
            return
        try:
            self.emit(Notice(kind=kind, text=text))
        finally:
            self.alone.release()

    def finish(self) -> None:
        """Wait until the end was told, and record what went wrong with that."""
        self._notifier.close()
        for wrong in self._notifier.complaints():
            sys.stderr.write(f"{wrong}\n")
            with contextlib.suppress(RefeedError):  # a full disk is no reason to end otherwise than recorded
                self._record(Notice(kind="on-event", text=wrong))
