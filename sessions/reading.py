"""The journal's readers: whole lines, events on an unbroken chain, what was appended since, and a verification.

Readers take no lock and leave a line without its newline alone: a writer may be in the middle of it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import msgspec

from sessions.chain import MAX_LINE, Chain, broken
from sessions.errors import RefeedError
from sessions.events import AnyEvent
from sessions.files import OpenFile, open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

decode: Final = msgspec.json.Decoder(AnyEvent).decode
_CHUNK: Final = 1 << 20


def _event(line: bytes, number: int) -> AnyEvent:
    """Decode a line whose chain holds.

    Raises:
        RefeedError: kind "integrity", naming the line and what is wrong with it.
    """
    try:
        event = decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise broken(number, f"is no event that this version knows: {str(error)[:200]!a}") from None
    if event.seq != number - 1:
        raise broken(number, f"says seq {event.seq}, but {number - 1} events come before it")
    return event


class Lines:
    """Whole lines of a file from an offset on, without their newlines; `offset` is the end of the last one given.

    `tail` holds the bytes after the last newline once the end of the file was reached.
    """

    def __init__(self, fd: int, offset: int, number: int = 0) -> None:
        """Read from `offset`, where line `number` ended."""
        self._fd = fd
        self.offset = offset
        self.tail = b""
        self._number = number

    def __iter__(self) -> Iterator[bytes]:
        """Lines from here to the present end.

        Raises:
            RefeedError: kind "integrity" for a line that is too long.
        """
        rest = b""
        while chunk := os.pread(self._fd, _CHUNK, self.offset + len(rest)):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self.offset += len(line) + 1
                self._number += 1
                if len(line) >= MAX_LINE:
                    raise broken(self._number, f"is longer than {MAX_LINE} bytes")
                yield line
            if len(rest) >= MAX_LINE:
                raise broken(self._number + 1, f"is longer than {MAX_LINE} bytes")
        self.tail = rest


class Follower(OpenFile):
    """Reads a journal from its start, then what was appended since.

    Attributes:
        torn: bytes after the last whole line at the last poll; a writer may be in the middle of it.
    """

    def __init__(self, path: Path, digest: str, *, offset: int = 0, chain: Chain | None = None) -> None:
        """Follow the journal at `path`, which need not exist yet.

        Args:
            path: events.jsonl.
            digest: of the session's spec.
            offset: byte to start from: the end of a line that was read before.
            chain: the place after that line; None at the start of the file.
        """
        self.path = path
        self.torn = 0
        self._chain = chain or Chain(digest)
        self._offset = offset

    @property
    def offset(self) -> int:
        """End of the last event that was read, bytes."""
        return self._offset

    @property
    def link(self) -> str:
        """Hash of the last event that was read."""
        return self._chain.link

    @property
    def events(self) -> int:
        """How many events were read."""
        return self._chain.lines

    def poll(self, limit: int | None = None) -> list[AnyEvent]:
        """Events appended since the last poll, at most `limit`; empty when there are none, or no file yet.

        A line without its newline waits; recovery by a writer that cuts it off goes unnoticed.

        Raises:
            RefeedError: kind "integrity", naming the line, when the chain is broken, a line is no event, or the file
                lost lines that were read before. Events before that line are returned first.
        """
        events: list[AnyEvent] = []
        try:
            for event in self:
                events.append(event)
                if len(events) == limit:
                    break
        except RefeedError:
            if not events:
                raise
        return events

    def __iter__(self) -> Iterator[AnyEvent]:
        """Events from here to the present end of the file.

        Raises:
            RefeedError: as `poll`.
        """
        if not self._opened():
            return
        size = os.fstat(self._fd).st_size
        if size < self._offset:
            raise broken(self._chain.lines, "was there and is gone: the file was cut")
        lines = Lines(self._fd, self._offset, self._chain.lines)
        for line in lines:
            link = self._chain.matching(line)
            number = self._chain.lines + 1
            if link is None:
                raise broken(number, "does not continue the hash chain: it was changed, moved or damaged")
            event = _event(line, number)
            self._chain.advance(link)
            self._offset = lines.offset
            yield event
        self.torn = len(lines.tail)

    def _opened(self) -> bool:
        if self._fd < 0:
            try:
                self._fd = open_regular(self.path)
            except FileNotFoundError:
                return False
        return True


class Reading:
    """Iterator over a journal's events, from the first to the present end.

    Attributes:
        torn: bytes of a last line without its newline; known once the iteration ended.
    """

    def __init__(self, follower: Follower) -> None:
        """Use `read`."""
        self._follower = follower
        self._events = iter(follower)

    @property
    def torn(self) -> int:
        """Bytes of a last line without its newline; known once the iteration ended."""
        return self._follower.torn

    def __iter__(self) -> Self:
        """Itself."""
        return self

    def __next__(self) -> AnyEvent:
        """Next event; closes the file after the last one, or before raising.

        Raises:
            RefeedError: kind "integrity", naming the line.
        """
        try:
            return next(self._events)
        except (StopIteration, RefeedError):
            self._follower.close()
            raise


def read(path: Path, digest: str) -> Reading:
    """Iterate over a journal's events, checking the chain; a missing file has none.

    Raises:
        RefeedError: kind "integrity", when the iteration reaches a line that is broken. Its number is in the message.
    """
    return Reading(Follower(path, digest))


class Verification(NamedTuple):
    """What `verify` found.

    Attributes:
        events: intact from the start.
        torn: bytes of a last line without its newline; a writer may be alive, or have died in the middle of it.
        link: hash of the last intact event.
        broken_line: number of the first broken line, counted from 1; None when there is none.
        reason: what is wrong with it.
    """

    events: int
    torn: int
    link: str
    broken_line: int | None = None
    reason: str = ""

    @property
    def intact(self) -> bool:
        """Whether no line is broken; a torn last line breaks nothing."""
        return self.broken_line is None


def verify(path: Path, digest: str) -> Verification:
    """Recompute the chain of a journal and decode each of its events.

    Raises:
        RefeedError: kind "failed" when the file cannot be read.
    """
    with Follower(path, digest) as follower:
        line, reason = None, ""
        try:
            for _ in follower:
                pass
        except RefeedError as error:
            if error.kind != "integrity":
                raise
            line, reason = follower.events + 1, error.message
        return Verification(follower.events, follower.torn, follower.link, line, reason)
