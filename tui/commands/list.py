"""`refeed-tui list`: the sessions of this machine, newest first."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from sessions.errors import RefeedError
from sessions.numbers import moment
from sessions.store import Store
from tui.commands.base import Command, json_option
from tui.console import say, say_json
from tui.plaintext import one_line

if TYPE_CHECKING:
    from sessions.store import SessionFolder

GAP = "  "
INVARIANT = "*"
EXPLAINED = f"{INVARIANT} batch-invariant"


@dataclass(frozen=True, slots=True)
class Row:
    """One session, as `list --json` promises it.

    Attributes:
        id: of the session.
        name: given to it; None for none.
        model: registered.
        engine: that ran it, else the registered one.
        state: running, paused, finished, stopped, aborted, failed, interrupted or imported.
        started: first event, ISO 8601 in UTC; None before it.
        problems: measured so far.
        pivots: of them, that are evidence.
        headline: the paper's excess in a few characters, or what is wrong with the session.
    """

    id: str
    name: str | None
    model: str
    engine: str
    state: str
    started: str | None
    problems: int
    pivots: int
    headline: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One session as it was when the list was read.

    Attributes:
        folder: of it.
        row: what is said of it.
        wanted: problems that it registered.
        batch_invariant: whether all of its passes have to agree to the last bit.
    """

    folder: SessionFolder
    row: Row
    wanted: int
    batch_invariant: bool

    def marked(self, text: str, limit: int) -> str:
        """A name on one line of at most `limit` characters, marked where the session is batch-invariant."""
        mark = INVARIANT if self.batch_invariant else ""
        return one_line(text, limit - len(mark)) + mark


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


def describe(folder: SessionFolder) -> Entry:
    """One session; a damaged one is listed as failed, with the damage."""
    try:
        spec, summary = folder.spec(), folder.summary()
        row = Row(
            id=folder.id,
            name=folder.name,
            model=spec.model or "",
            engine=summary.engine or spec.engine,
            state=folder.state(summary),
            started=_iso(summary.started) if summary.started > 0 else None,
            problems=summary.measured,
            pivots=summary.evidence.pivots,
            headline=f"DAMAGED: {summary.broken}" if summary.broken else summary.headline(),
        )
    except RefeedError as error:
        damaged = Row(folder.id, None, "", "", "failed", None, 0, 0, f"DAMAGED: {error.message}")
        return Entry(folder, damaged, wanted=0, batch_invariant=False)
    return Entry(folder, row, spec.problems, spec.batch_invariant)


def _iso(wall: float) -> str | None:
    """Seconds since the epoch as ISO 8601; None for a time that no calendar has."""
    began = moment(wall)
    return None if began is None else began.isoformat(timespec="seconds")


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
