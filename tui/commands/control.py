"""`refeed-tui abort`, `pause` and `resume`: what a person may ask of a campaign."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click

from sessions.errors import RefeedError
from sessions.store import Store
from tui import errors
from tui.commands.base import Command, session_argument
from tui.console import say
from tui.setup.launching import start

if TYPE_CHECKING:
    from engine.worker.supervisor import How
    from sessions.disk import requests
    from sessions.disk.hooks import Change
    from sessions.store import SessionFolder

ABORT_SECONDS: Final = 60.0
POLL: Final = 0.1


def _send(folder: SessionFolder, what: requests.Command) -> None:
    from engine.worker.supervisor import send  # noqa: PLC0415 - `--help` need not load it

    say(f"session {folder.id}: {send(folder, what)}")


@click.command(
    name="abort",
    cls=Command,
    examples=("refeed-tui abort night",),
)
@session_argument
def abort_command(session: str) -> None:
    """End a running campaign within one engine step, and wait until its worker is gone, for a minute at most.

    While its engine loads it ends within some seconds, whatever is being read.

    What is recorded stays; the problem that was being measured is not evidence. `resume` continues the session.
    """
    folder = Store().find(session)
    _send(folder, "abort")
    deadline = time.monotonic() + ABORT_SECONDS
    while _there(folder):
        if time.monotonic() > deadline:
            raise RefeedError(
                "failed",
                f"the worker of {folder.id} still runs {ABORT_SECONDS:.0f} s after the abort",
                f"its worker.log shows what it does; {_last_resort(folder)}",
            )
        time.sleep(POLL)
    say(f"session {folder.id}: {folder.state()}")


def _last_resort(folder: SessionFolder) -> str:
    run = folder.run()
    kill = "kill that process" if run is None else f"`kill -9 {run.pid}`"
    return f"{kill} loses nothing that is recorded"


def _there(folder: SessionFolder) -> bool:
    """Whether a session's worker holds its lock or, having let go of it, still gives back what its engine took."""
    run = folder.run()
    return folder.live() or (run is not None and (run.alive() or (run.elsewhere() and not folder.summary().ended)))


@click.command(
    name="pause",
    cls=Command,
    examples=("refeed-tui pause night",),
)
@session_argument
def pause_command(session: str) -> None:
    """Hold a running campaign before its next problem; the engine and its memory stay held, and billed."""
    _send(Store().find(session), "pause")


@click.command(
    name="resume",
    cls=Command,
    examples=("refeed-tui resume night", "refeed-tui resume night --past-stop"),
)
@session_argument
@click.option("--past-stop", is_flag=True, help="Continue past the sequential stop; every report says so.")
@click.option("--allow-changed-engine", is_flag=True, help="Continue although the engine's numerics changed.")
@click.option(
    "--on-event",
    metavar="COMMAND",
    help="Run this at events, instead of the command given before; '' runs none.",
)
@click.option("--plain", is_flag=True, help="Follow in plain lines what was continued, as `attach --plain` does.")
def resume_command(session: str, past_stop: bool, allow_changed_engine: bool, on_event: str | None, plain: bool) -> int:
    """Take back a pause; or, where no worker runs, start one that continues the session from its journal.

    Closed problems stay; the one that was open is measured anew. The data and the weights are checked first; what is
    refused changes nothing. Without --plain it returns once the worker is ready.
    """
    folder = Store().find(session)
    change = None if on_event is None else _change(folder, on_event)
    if _running(folder):
        if past_stop or allow_changed_engine:
            raise RefeedError("usage", f"session {folder.id} has a worker already", "only a new one takes these flags")
        if change is not None:
            raise RefeedError(
                "usage", "--on-event cannot be changed while a worker runs", "`refeed-tui abort` it first"
            )
        _send(folder, "resume")
    else:
        from engine.worker.supervisor import How  # noqa: PLC0415 - `--help` need not load it

        _continue(folder, How(past_stop=past_stop, allow_changed_engine=allow_changed_engine, change=change))
        say(f"session {folder.id}: going on; watch it with `refeed-tui attach {folder.id}`")
    if not plain:
        return errors.DONE
    from tui.commands.display import watch  # noqa: PLC0415 - numpy comes with it

    return watch(folder, plain=True)


def _change(folder: SessionFolder, command: str) -> Change:
    from sessions.disk.hooks import Change, OnEvent, require_in_home  # noqa: PLC0415 - only --on-event needs it

    if command:  # said now: its worker would come to it when minutes of weights are checked
        require_in_home(folder)
    return Change(OnEvent.parse(command) if command else None)


def _running(folder: SessionFolder) -> bool:
    """Whether a worker measures; one that has ended and still tells so (--on-event) is waited for.

    Raises:
        RefeedError: kind "session" when it does not go away.
    """
    while folder.starting():  # a second worker might take the place of the one that is just coming
        time.sleep(POLL)
    deadline = time.monotonic() + ABORT_SECONDS
    while folder.live():
        if not folder.summary().ended:
            return True
        if time.monotonic() > deadline:
            hint = "see worker.log; or another `resume` of it is checking its weights"
            raise RefeedError("session", f"a worker of {folder.id} is there that does not measure", hint)
        time.sleep(POLL)
    return False


def _continue(folder: SessionFolder, how: How) -> None:
    state = folder.state()
    if state == "imported":
        raise RefeedError("usage", f"session {folder.id} was imported: there is nothing to run")
    if state == "finished":
        raise RefeedError("usage", f"session {folder.id} is finished: there is nothing left to measure")
    start(folder, how)
