"""`refeed-tui report`: every number of one session, of several side by side, or of several pooled."""

from __future__ import annotations

import click

from tui.commands.base import Command, json_option
from tui.console import say_json


@click.command(
    cls=Command,
    examples=(
        "refeed-tui report night",
        "refeed-tui report main screened --pool",
        "refeed-tui report k4 k8 k16",
        "refeed-tui report invariant --against stock --json",
    ),
)
@click.argument("session", nargs=-1, required=True)
@click.option("--pool", is_flag=True, help="Pool sessions of the same settings; repeated pivots are dropped and said.")
@click.option("--against", metavar="SESSION", help="Subtract this session's rates and excess.")
@json_option
def command(session: tuple[str, ...], pool: bool, against: str | None, as_json: bool) -> None:
    """Report on sessions: the paper's Table 1 row under both conditionings, the cache checks, and every other number.

    Several sessions stand side by side, or count as one with --pool (the same settings but for the window of problems).
    """
    from sessions.report.audit import Session, audit  # noqa: PLC0415 - numpy is loaded only for a session that exists
    from sessions.store import Store  # noqa: PLC0415 - `--help` need not load it

    store = Store()
    folders = [store.find(selector) for selector in session]
    other = None if against is None else Session.load(store.find(against))
    loaded = [Session.load(folder) for folder in folders]
    audits = [audit(loaded, other)] if pool else [audit([one], other) for one in loaded]
    if as_json:
        entries = [one.as_json() for one in audits]
        say_json(entries[0] if len(entries) == 1 else {"reports": entries})
        return
    from tui.console import show  # noqa: PLC0415 - JSON needs no rich
    from tui.viewer.report_text import render, side_by_side  # noqa: PLC0415 - the same

    show(*(render(audits[0]) if len(audits) == 1 else side_by_side(audits)))
