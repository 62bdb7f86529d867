"""The hash chain of a journal's lines.

A line is an event's JSON with `,"chain":"<16 hex>"` before its closing brace. The hash is BLAKE2b of 64 bits over the
previous line's 16 hex digits and the body (the JSON without the chain); the first line's previous is the digest of the
spec. It detects corruption and careless edits. It is no signature: whoever can write the file can write a new chain.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from sessions.errors import RefeedError

# One line at most; the longest event of a real campaign (TrunksDone of a thousand rollouts) is a fifth of it.
MAX_LINE: Final = 1 << 20
_KEY: Final = b',"chain":"'
_CLOSE: Final = b'"}'
_DIGITS: Final = 16
_TAIL: Final = len(_KEY) + _DIGITS + len(_CLOSE)


class Chain:
    """The place in a chain after some number of lines.

    Attributes:
        link: hex of the last line's hash; the spec's digest before the first line.
        lines: how many lines are in it.
    """

    __slots__ = ("lines", "link")

    def __init__(self, link: str, lines: int = 0) -> None:
        """Start from the digest of a spec, or from a place that was stored."""
        self.link = link
        self.lines = lines

    def extend(self, body: bytes) -> tuple[bytes, str]:
        """Line (newline included) that would store `body` next, and its hash. The place itself does not move."""
        link = blake2b(self.link.encode() + body, digest_size=_DIGITS // 2).hexdigest()
        return b"%b%b%b%b\n" % (body[:-1], _KEY, link.encode(), _CLOSE), link

    def advance(self, link: str) -> None:
        """Move past a line that was stored with this hash."""
        self.link = link
        self.lines += 1

    def follow(self, line: bytes) -> None:
        """Check that a line (without its newline) continues the chain, and move past it.

        Raises:
            RefeedError: kind "integrity", naming the line.
        """
        link = self.matching(line)
        if link is None:
            raise broken(self.lines + 1, "does not continue the hash chain: it was changed, moved or damaged")
        self.advance(link)

    def matching(self, line: bytes) -> str | None:
        """Hash of a line (without its newline) if it continues the chain, else None."""
        if line[-_TAIL : -_TAIL + len(_KEY)] != _KEY or line[-len(_CLOSE) :] != _CLOSE:
            return None
        body = line[:-_TAIL] + b"}"
        link = blake2b(self.link.encode() + body, digest_size=_DIGITS // 2).hexdigest()
        return link if line[-len(_CLOSE) - _DIGITS : -len(_CLOSE)] == link.encode() else None


def broken(line: int, what: str) -> RefeedError:
    """An `integrity` error that names a line of a journal, counted from 1."""
    return RefeedError(
        "integrity", f"events.jsonl line {line} {what}", "nothing was deleted; lines before it are intact"
    )
