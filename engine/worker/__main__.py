"""The worker process: lock and journal first, then the engine, then the campaign.

Started as `python -P -m engine.worker FOLDER` by `engine.worker.supervisor`; it outlives its launcher. Until it says
"ready" on the ready pipe nothing was promised; after that every end is an `Ended` event in the journal.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import sys
import traceback
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec

from engine.digests import open_inputs
from engine.protocol.control import Control
from engine.protocol.limits import check_may_go_on
from engine.registration import require_engine
from engine.worker.hooks import COMMAND_SECONDS, Notifier
from engine.worker.lifecycle import FAILED, Options, Recorder, Run, attended, leave_now, limits_of
from engine.worker.numerics import check_known, keep_process_mode
from engine.worker.supervisor import Launcher, Ready
from engine.worker.watchdog import GRACE, SIGNALS, Watchdog, stop_by_signal
from sessions.disk import requests
from sessions.disk.files import Reserve
from sessions.disk.folder import RunInfo, lock
from sessions.disk.hooks import Change, keep, kept
from sessions.disk.journal import Follower, Journal
from sessions.errors import RefeedError
from sessions.events import Notice, Opened
from sessions.state.fold import fold, new_state
from sessions.store import SessionFolder
from sessions.version import VERSION

if TYPE_CHECKING:
    from engine.digests import Inputs
    from engine.protocol.control import StopRequest
    from sessions.state.campaign import CampaignState


def catch_signals(control: Control) -> None:
    """Let signals end the campaign within one engine step, with the journal closed."""
    for number in SIGNALS:
        signal.signal(number, lambda number, _frame: stop_by_signal(control, number))


def leave_early(asked: StopRequest) -> NoReturn:
    """End a worker that hangs before its run began: nothing was changed."""
    sys.stderr.write(f"refeed-tui: {asked.reason}, before this run began\n")
    os._exit(asked.exit_code or FAILED)


def check_before(session: SessionFolder, control: Control, launcher: Launcher) -> Inputs:
    """Check the data and weights of a session that ran before: one that is refused stays as it was.

    Raises:
        RefeedError: as `open_inputs`; kind "failed" when it is to stop meanwhile.
    """

    def hear(stage: str, fraction: float) -> None:
        launcher.step(stage, fraction)
        if control.stop_request is not None:
            raise RefeedError("failed", f"{control.stop_request.reason}, before this run began", "nothing changed")

    return open_inputs(session.spec(), hear)


def recorder_of(options: Options, session: SessionFolder, journal: Journal, state: CampaignState) -> Recorder:
    """The recorder of a run against which nothing speaks any more, told to the command of its events."""
    if options.change_on_stdin:
        keep(session, msgspec.json.decode(sys.stdin.buffer.read(), type=Change).to)
    return Recorder(journal, state, session, Notifier(kept(session), session, state))


def open_run(options: Options, launcher: Launcher, stack: ExitStack) -> Run:
    """Take the session and begin a run on it.

    Args:
        options: of the worker.
        launcher: told of steps that take long.
        stack: gets what must be given back.

    Raises:
        RefeedError: the session is running elsewhere, damaged, has nothing left to do, lacks its engine or what it
            began on, or cannot be written.
    """
    session, control = SessionFolder(options.folder), Control()
    stack.enter_context(lock(session.lock_path))
    state = new_state(session.spec())
    events = stack.enter_context(Follower(session.journal_path, session.registration().digest))
    for event in events:
        fold(state, event)
    check_may_go_on(limits_of(options, session, state), state)
    require_engine(session.spec().engine)  # of a session that came from elsewhere, or of another environment
    reserve = stack.enter_context(Reserve(session.path / ".reserve"))
    left = requests.clear(session.requests_path)  # asked of a worker that died: whoever continues wants it to go on
    RunInfo.here(VERSION).write(session.run_path)
    catch_signals(control)
    watchdog = Watchdog(control, session.requests_path, leave_early)
    stack.enter_context(watchdog.running())
    if state.runs and not options.allow_changed_engine:
        keep_process_mode(state, os.environ)
        check_known(session.spec(), state, os.environ)
    inputs = check_before(session, control, launcher) if state.runs else None
    journal = stack.enter_context(Journal.open(session.journal_path, session.registration().digest))
    for event in events:  # a last one that lacked its newline
        fold(state, event)
        check_may_go_on(limits_of(options, session, state), state)
    recorder = recorder_of(options, session, journal, state)
    stack.callback(recorder.finish)
    host = socket.gethostname()
    recorder.emit(Opened(session=session.id, version=VERSION, host=host, pid=os.getpid(), past_stop=options.past_stop))
    if journal.recovered is not None:
        torn = journal.recovered
        did = "kept: only its newline was missing" if torn.completed else "cut off"
        recorder.emit(Notice(kind="recovered", text=f"a torn last line of {torn.length} bytes was {did}"))
    if left:
        recorder.emit(Notice(kind="request", text=f"asked of an earlier worker and not obeyed: {', '.join(left)}"))
    run = Run(options, session, state, control, recorder, reserve, watchdog, inputs)
    watchdog.say = partial(recorder.say, "request")
    watchdog.leave = partial(leave_now, run, stack)
    return run


def work(options: Options, launcher: Launcher) -> int:
    """Take the session, tell the launcher, and see the campaign to its end; return the exit code.

    Raises:
        RefeedError: before "ready", as `open_run`.
    """
    with ExitStack() as stack:
        run = open_run(options, launcher, stack)
        launcher.tell(Ready(ok=True))
        try:
            return attended(run)
        except RefeedError as error:  # not even the end could be written
            traceback.print_exc()
            sys.stderr.write(f"refeed-tui: the end of this run could not be recorded: {error}\n")
            return FAILED
        finally:
            run.watchdog.close_within(GRACE + COMMAND_SECONDS)  # whoever hears of the end may take its time


def parse(arguments: list[str]) -> Options:
    """Read the worker's arguments."""
    parser = argparse.ArgumentParser(prog="python -P -m engine.worker")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ready-fd", type=int)
    for flag in ("--past-stop", "--allow-changed-engine", "--change-on-stdin"):
        parser.add_argument(flag, action="store_true")
    return Options(**vars(parser.parse_args(arguments)))


def main(arguments: list[str] | None = None) -> int:
    """Run a worker; the exit code is the campaign's."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    launcher = Launcher(options.ready_fd)
    try:
        return work(options, launcher)
    except RefeedError as error:
        launcher.tell(Ready(ok=False, kind=error.kind, message=error.message, hint=error.hint))
        with contextlib.suppress(OSError):  # the log may be on the disk that is full
            traceback.print_exc()
        return FAILED


if __name__ == "__main__":
    sys.exit(main())
