"""`refeed-tui attach` and `replay`: watch a running session, or look at a finished one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tui.commands.base import Command, ascii_option, plain_option, refresh_option, session_argument

if TYPE_CHECKING:
    from tui.commands.display import Refresh


@click.command(
    name="attach",
    cls=Command,
    examples=("refeed-tui attach", "refeed-tui attach night --plain"),
)
@click.argument("session", required=False)
@plain_option
@refresh_option
@ascii_option
def attach_command(session: str | None, plain: bool, refresh: Refresh, ascii_only: bool | None) -> int:
    """Watch a session, running or finished; the newest if none is named.

    Off a terminal: its progress in lines, then its report, and the campaign's exit code. Leaving, or Ctrl-C, leaves the
    campaign alone.
    """
    from sessions.store import Store  # noqa: PLC0415 - `--help` need not load it
    from tui.commands.display import watch  # noqa: PLC0415 - numpy comes with it

    store = Store()
    folder = store.newest() if session is None else store.find(session)
    return watch(folder, plain=plain, refresh=refresh, ascii_only=ascii_only)


@click.command(
    name="replay",
    cls=Command,
    examples=("refeed-tui replay night", "refeed-tui replay night --speed 60"),
)
@session_argument
@click.option("--speed", type=click.FloatRange(0, min_open=True), help="Recorded seconds a second [default: 1].")
@plain_option
@refresh_option
@ascii_option
def replay_command(session: str, speed: float | None, plain: bool, refresh: Refresh, ascii_only: bool | None) -> int:
    """Show a recorded session on its recorded clock.

    In plain lines it does not wait unless --speed is given.
    """
    from sessions.store import Store  # noqa: PLC0415 - `--help` need not load it
    from tui.commands.display import replay  # noqa: PLC0415 - numpy comes with it

    return replay(Store().find(session), plain=plain, speed=speed, refresh=refresh, ascii_only=ascii_only)
