"""`refeed-tui verify`: recompute the chain and the spec's digest."""

from __future__ import annotations

import click

from sessions.errors import RefeedError
from tui.commands.base import Command, json_option, session_argument
from tui.console import say, say_json
from tui.numbers import count


@click.command(
    cls=Command,
    examples=("refeed-tui verify night", "refeed-tui verify night --json"),
)
@session_argument
@json_option
def command(session: str, as_json: bool) -> None:
    """Recompute a session's hash chain, the digest of its spec and its texts; exit code 5 when one does not hold.

    It detects corruption and careless edits, not forgery: who can write the files can write a new chain.
    """
    from sessions.held import count_texts  # noqa: PLC0415 - `--help` need not load it
    from sessions.reading import verify  # noqa: PLC0415 - the same
    from sessions.store import Store  # noqa: PLC0415 - the same

    folder = Store().find(session)
    registration = folder.registration()
    registration.campaign()  # raises when the spec does not match its digest
    found = verify(folder.journal_path, registration.digest)
    if found.broken_line is not None:
        raise RefeedError(
            "integrity",
            f"session {folder.id}: {found.reason}",
            f"the {found.events} events before it are intact; nothing was deleted",
        )
    texts = count_texts(folder)
    if as_json:
        say_json(
            {
                "id": folder.id,
                "intact": True,
                "digest": registration.digest,
                "events": found.events,
                "torn_bytes": found.torn,
                "link": found.link,
                "texts": {"match": texts.match, "missing": texts.missing},
            }
        )
        return
    say(f"session {folder.id}: intact")
    say(f"  spec     digest {registration.digest} matches")
    say(f"  journal  {found.events:,} events, chain unbroken, last link {found.link}")
    say(f"  texts    {count(texts.match, 'file')} as the journal names them")
    if texts.missing > 0:
        say(f"  note     {count(texts.missing, 'file')} missing: a copy may leave texts out; no number needs them")
    if found.torn > 0:
        say(f"  note     {found.torn} bytes after the last event: a writer is in the middle of one, or died there")
    say("  scope    detects corruption and careless edits, not forgery")
