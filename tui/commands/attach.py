"""`refeed-tui attach`: watch a running session, or look at a finished one."""

from __future__ import annotations

import click

from tui.commands.base import Command


@click.command(
    cls=Command,
    examples=("refeed-tui attach", "refeed-tui attach night --plain"),
)
@click.argument("session", required=False)
@click.option("--plain", is_flag=True, help="Print progress lines instead of the dashboard; automatic off a terminal.")
def command(session: str | None, plain: bool) -> int:
    """Follow a session from its start to its end, then print its report; the newest session if none is named.

    Ctrl-C detaches and leaves the campaign alone. The exit code is the campaign's.
    """
    from sessions.store import Store  # noqa: PLC0415 - `--help` need not load it
    from tui.watch import watch  # noqa: PLC0415 - numpy comes with it

    store = Store()
    folder = store.newest() if session is None else store.find(session)
    return watch(folder, plain=plain)
