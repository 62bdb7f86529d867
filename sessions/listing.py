"""Sessions as a list shows them: `refeed-tui list`, the home screen, and `list --json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessions.errors import RefeedError
from sessions.numbers import moment
from sessions.text import one_line

if TYPE_CHECKING:
    from sessions.store import SessionFolder

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
