"""`refeed-tui abort`, `pause` and `resume`: what a person may ask of a campaign."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Literal

import click

from sessions.errors import RefeedError
from sessions.store import Store
from tui import errors
from tui.commands.base import Command, session_argument
from tui.console import say
from tui.plaintext import one_line

if TYPE_CHECKING:
    from sessions.onevent import OnEvent
    from sessions.store import SessionFolder

Ask = Literal["abort", "pause", "resume"]

ABORT_SECONDS: Final = 60.0
POLL: Final = 0.1


def _send(folder: SessionFolder, what: Ask) -> None:
    from engine.supervisor import send  # noqa: PLC0415 - `--help` need not load it

    answer = send(folder, what)
    if not answer.ok:
        raise RefeedError("failed", f"the worker of {folder.id} refused to {what}: {one_line(answer.text)}")
    say(f"session {folder.id}: {one_line(answer.text)}")


@click.command(
    name="abort",
    cls=Command,
    examples=("refeed-tui abort night",),
)
@session_argument
def abort_command(session: str) -> None:
    """End a running campaign within one engine step, and wait until its worker is gone, for a minute at most.

    While vLLM loads it ends at the next stage: weights that are being read are read to their end.

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
                "while it loads weights it ends only after that; `refeed-tui list` shows its state",
            )
        time.sleep(POLL)
    say(f"session {folder.id}: {folder.state()}")


def _there(folder: SessionFolder) -> bool:
    """Whether a session's worker holds its lock or, having let go of it, still gives back what its engine took."""
    run = folder.run()
    return folder.live() or (run is not None and run.alive())


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

    Closed problems stay; the one that was open is measured anew. Without --plain it returns once the worker is ready.
    """
    folder = Store().find(session)
    told = None if not on_event else _parse(on_event)
    if _running(folder):
        if past_stop or allow_changed_engine:
            raise RefeedError("usage", f"session {folder.id} has a worker already", "only a new one takes these flags")
        if on_event is not None:
            raise RefeedError(
                "usage", "--on-event cannot be changed while a worker runs", "`refeed-tui abort` it first"
            )
        _send(folder, "resume")
    else:
        if on_event is not None:
            _keep(folder, told)
        _continue(folder, past_stop=past_stop, allow_changed_engine=allow_changed_engine)
        say(f"session {folder.id}: going on; watch it with `refeed-tui attach {folder.id}`")
    if not plain:
        return errors.DONE
    from tui.watch import watch  # noqa: PLC0415 - numpy comes with it

    return watch(folder, plain=True)


def _parse(command: str) -> OnEvent:
    from sessions.onevent import OnEvent  # noqa: PLC0415 - only --on-event needs it

    return OnEvent.parse(command)


def _keep(folder: SessionFolder, told: OnEvent | None) -> None:
    from sessions.onevent import keep  # noqa: PLC0415 - only --on-event needs it

    keep(folder, told)


def _running(folder: SessionFolder) -> bool:
    """Whether a worker measures; one that has ended and still tells so (--on-event) is waited for.

    Raises:
        RefeedError: kind "session" when it does not go away.
    """
    deadline = time.monotonic() + ABORT_SECONDS
    while folder.live():
        if not folder.summary().ended:
            return True
        if time.monotonic() > deadline:
            raise RefeedError("session", f"the last worker of {folder.id} ended and does not go away", "see worker.log")
        time.sleep(POLL)
    return False


def _continue(folder: SessionFolder, *, past_stop: bool, allow_changed_engine: bool) -> None:
    state = folder.state()
    if state == "imported":
        raise RefeedError("usage", f"session {folder.id} was imported: there is nothing to run")
    if state == "finished":
        raise RefeedError("usage", f"session {folder.id} is finished: there is nothing left to measure")
    from engine.supervisor import launch  # noqa: PLC0415 - `--help` need not load it

    launch(folder, past_stop=past_stop, allow_changed_engine=allow_changed_engine)
