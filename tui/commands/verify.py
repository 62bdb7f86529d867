"""`refeed-tui verify`: recompute the chain and the spec's digest, and count the pivots again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from sessions.errors import RefeedError
from sessions.text import printable
from stats.words import count
from tui.commands.base import Command, json_option, session_argument
from tui.console import say, say_json, warn
from tui.setup.launching import teller

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions.disk.journal import Verification
    from sessions.events import AnyEvent
    from sessions.state.recount import Recount
    from sessions.store import SessionFolder

SHOWN: Final = 5
NAME_LIMIT: Final = 60


@click.command(
    cls=Command,
    examples=("refeed-tui verify night", "refeed-tui verify night --json"),
)
@session_argument
@json_option
def command(session: str, as_json: bool) -> None:
    """Recompute a session's hash chain, the digests of its spec and texts, and each pivot; exit code 5 if one is off.

    A pivot is counted again from what its arms wrote: right continuations, probes, its tokens; grades stay as they are.
    One without texts cannot be, which is said. What `list` remembers of the session is made anew where it differs.

    It detects corruption and careless edits, not forgery: who can write the files can write a new chain.
    """
    from sessions.disk.journal import read, verify  # noqa: PLC0415 - `--help` need not load it
    from sessions.state.recount import recount  # noqa: PLC0415 - the same
    from sessions.state.summary import witness  # noqa: PLC0415 - the same
    from sessions.store import Store  # noqa: PLC0415 - the same

    folder = Store().find(session)
    registration = folder.registration()
    k = registration.campaign().k  # raises when the spec does not match its digest
    found = verify(folder.journal_path, registration.digest)
    if found.broken_line is not None:
        raise RefeedError(
            "integrity",
            f"session {folder.id}: {found.reason}",
            f"the {found.events} events before it are intact; nothing was deleted",
        )
    events = _told(read(folder.journal_path, registration.digest), found.events, f"session {folder.id}")
    counted = recount(events, folder.texts_path, k)
    cache = witness(folder.summary_path, folder.journal_path, registration.digest, registration.campaign())
    notes = list(_notes(found, counted, cache))
    if as_json:
        said = _document(folder, found, counted)
        say_json({**said, "summary": {"matched": not cache}, "notes": notes})
    else:
        _show(folder, found, counted, notes)


def _told(events: Iterator[AnyEvent], total: int, what: str) -> Iterator[AnyEvent]:
    """The events, while a person at a terminal is told how many of them were looked at."""
    hear = teller(what, warn) if sys.stderr.isatty() else None
    for number, event in enumerate(events):
        if hear is not None:
            hear("counting its pivots again", number / total)
        yield event


def _document(folder: SessionFolder, found: Verification, counted: Recount) -> dict[str, object]:
    return {
        "id": folder.id,
        "intact": True,
        "complete": _left(counted) == 0,
        "digest": folder.registration().digest,
        "events": found.events,
        "torn_bytes": found.torn,
        "link": found.link,
        "texts": {
            "match": len(counted.files),
            "missing": len(counted.missing),
            "unnamed": [printable(name) for name in counted.unnamed],
        },
        "recount": {
            "pivots": counted.pivots,
            "continuations": counted.continuations,
            "probes": counted.probes,
            "not_counted": counted.uncounted._asdict(),
        },
    }


def _left(counted: Recount) -> int:
    """Pivots that may be evidence and were not counted again."""
    return counted.uncounted.missing + counted.uncounted.textless


def _show(folder: SessionFolder, found: Verification, counted: Recount, notes: list[str]) -> None:
    left = _left(counted)
    if left == 0:
        say(f"session {folder.id}: intact")
    else:
        of = count(counted.pivots + left, "pivot")
        say(f"session {folder.id}: spec and journal intact; {left:,} of {of} could not be counted again")
    say(f"  spec     digest {folder.registration().digest} matches")
    say(f"  journal  {found.events:,} events, chain unbroken, last link {found.link}")
    say(f"  texts    {count(len(counted.files), 'file')} as the journal names them")
    if counted.pivots > 0:
        follow = "follows" if counted.pivots == 1 else "follow"
        rest = f"{count(counted.continuations, 'continuation')} and {count(counted.probes, 'probe')}"
        say(f"  recount  {count(counted.pivots, 'pivot')} {follow} from {rest}, grades as they stand")
    for note in notes:
        say(f"  note     {note}")
    say("  scope    detects corruption and careless edits, not forgery")


def _notes(found: Verification, counted: Recount, cache: str) -> Iterator[str]:
    """What limits the verification, or was found beside what it verifies; a line each."""
    missing, textless, unclosed = counted.uncounted
    if counted.missing:
        absent = count(len(counted.missing), "file")
        yield f"{absent} missing: {count(missing, 'pivot')} could not be counted again; a copy may leave texts out"
    if textless > 0:
        yield f"{count(textless, 'pivot')} came without texts, as imported ones do"
    if unclosed > 0:
        yield f"{count(unclosed, 'pivot')} of attempts that did not close: no evidence, and not counted again"
    if counted.unnamed:
        names = ", ".join(printable(name, NAME_LIMIT) for name in counted.unnamed[:SHOWN])
        more = f" and {len(counted.unnamed) - SHOWN} more" if len(counted.unnamed) > SHOWN else ""
        yield (
            f"{count(len(counted.unnamed), 'file')} in texts/ that the journal does not name: {names}{more}; "
            "a worker that was killed can leave one, and so does a journal that was cut"
        )
    if cache:
        yield cache
    if found.torn > 0:
        yield f"{found.torn} bytes after the last event: a writer is in the middle of one, or died there"
