"""`refeed-tui list`: the sessions of this machine, newest first."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from sessions.listing import EXPLAINED, Entry, describe
from sessions.store import Store
from sessions.text import one_line
from tui.commands.base import Command, json_option
from tui.console import say, say_json

if TYPE_CHECKING:
    from sessions.listing import Entry

GAP = "  "


@click.command(
    name="list",
    cls=Command,
    examples=("refeed-tui list", "refeed-tui list --json"),
)
@json_option
def command(as_json: bool) -> None:
    """List sessions, newest first: id, model, state, problems done, headline."""
    store = Store()
    listed = [describe(folder) for folder in store.folders()]
    if as_json:
        say_json({"sessions": [asdict(entry.row) for entry in listed]})
    elif listed:
        _show(listed)
    else:
        say(f"no sessions in {one_line(str(store.path))}; start one with `refeed-tui launch demo`")


def _show(listed: list[Entry]) -> None:
    cells = [("session", "name", "model", "state", "problems", "headline")]
    for entry in listed:
        row = entry.row
        done = f"{row.problems}/{entry.wanted}"
        name, model = one_line(row.name or "-", 16), entry.marked(row.model.rsplit("/", 1)[-1] or "-", 20)
        cells.append((one_line(row.id), name, model, row.state, done, one_line(row.headline, 120)))
    widths = [max(len(line[at]) for line in cells) for at in range(len(cells[0]) - 1)]
    for line in cells:
        columns = (cell.ljust(width) for cell, width in zip(line, widths, strict=False))
        say(GAP.join((*columns, line[-1])).rstrip())
    if any(entry.batch_invariant for entry in listed):
        say(EXPLAINED)
