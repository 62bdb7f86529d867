"""`refeed-tui verify`: recompute the chain and the spec's digest, and count the pivots again."""

from __future__ import annotations

import click

from sessions.errors import RefeedError
from stats.words import count
from tui.commands.base import Command, json_option, session_argument
from tui.console import say, say_json


@click.command(
    cls=Command,
    examples=("refeed-tui verify night", "refeed-tui verify night --json"),
)
@session_argument
@json_option
def command(session: str, as_json: bool) -> None:
    """Recompute a session's hash chain, the digests of its spec and texts, and each pivot; exit code 5 if one is off.

    A pivot is counted again from what its arms wrote: right continuations, probes, its tokens; grades stay as they are.
    It detects corruption and careless edits, not forgery: who can write the files can write a new chain.
    """
    from sessions.reading import read, verify  # noqa: PLC0415 - `--help` need not load it
    from sessions.recount import recount  # noqa: PLC0415 - the same
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
    counted = recount(read(folder.journal_path, registration.digest), folder.texts_path, k)
    if as_json:
        say_json(
            {
                "id": folder.id,
                "intact": True,
                "digest": registration.digest,
                "events": found.events,
                "torn_bytes": found.torn,
                "link": found.link,
                "texts": {"match": len(counted.files), "missing": len(counted.missing)},
                "recount": {
                    "pivots": counted.pivots,
                    "continuations": counted.continuations,
                    "probes": counted.probes,
                },
            }
        )
        return
    say(f"session {folder.id}: intact")
    say(f"  spec     digest {registration.digest} matches")
    say(f"  journal  {found.events:,} events, chain unbroken, last link {found.link}")
    say(f"  texts    {count(len(counted.files), 'file')} as the journal names them")
    if counted.pivots > 0:
        follow = "follows" if counted.pivots == 1 else "follow"
        rest = f"{count(counted.continuations, 'continuation')} and {count(counted.probes, 'probe')}"
        say(f"  recount  {count(counted.pivots, 'pivot')} {follow} from {rest}, grades as they stand")
    if counted.missing:
        absent = count(len(counted.missing), "file")
        say(f"  note     {absent} missing: a copy may leave texts out; no number needs them")
    if found.torn > 0:
        say(f"  note     {found.torn} bytes after the last event: a writer is in the middle of one, or died there")
    say("  scope    detects corruption and careless edits, not forgery")
