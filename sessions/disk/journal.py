"""The journal: one event a line on a hash chain; appended, read, followed and verified here and nowhere else."""

from __future__ import annotations

import contextlib
import os
import time
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeVar

import msgspec

from sessions.disk.files import OpenFile, failure, open_regular, sync_folder, write_all
from sessions.errors import RefeedError
from sessions.events import AnyEvent, Ended, Event, ProblemClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Clock = Callable[[], tuple[float, float]]

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


_E = TypeVar("_E", bound=Event)
_encode: Final = msgspec.json.Encoder().encode


def real_clock() -> Clock:
    """Clock of a worker: seconds since the epoch, and monotonic seconds since this call."""
    opened = time.monotonic()
    return lambda: (time.time(), time.monotonic() - opened)


class Torn(NamedTuple):
    """A last line without its newline.

    Attributes:
        offset: where it starts in the file, bytes.
        length: bytes.
        completed: whether it was whole, so that recovery added the newline instead of cutting it off.
    """

    offset: int
    length: int
    completed: bool


class Journal(OpenFile):
    """The one writer of a journal. Signal handlers of its process set flags; they must not raise in the middle of it.

    Attributes:
        path: events.jsonl.
        recovered: the torn line that opening found, or None.
    """

    def __init__(self, path: Path, fd: int, chain: Chain, size: int, clock: Clock) -> None:
        """Use `Journal.open`."""
        self.path = path
        self.recovered: Torn | None = None
        self._fd = fd
        self._chain = chain
        self._size = size
        self._clock = clock
        self._clean = True

    @classmethod
    def open(cls, path: Path, digest: str, *, clock: Clock | None = None) -> Self:
        """Open or create a journal, check its whole chain and settle a torn last line.

        Args:
            path: events.jsonl.
            digest: of the session's spec.
            clock: gives (wall, mono) of an event; None for real time.

        Raises:
            RefeedError: kind "integrity" when the chain is broken (nothing is touched); kind "failed" when the file
                cannot be opened or written.
        """
        fd = open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            chain = Chain(digest)
            lines = Lines(fd, 0)
            for line in lines:
                chain.follow(line)
            journal = cls(path, fd, chain, lines.offset, clock or real_clock())
            journal._settle(lines.tail)
            if chain.lines == 0:
                sync_folder(path.parent)
        except OSError as error:
            os.close(fd)
            raise failure("open", path, error) from error
        except RefeedError:
            os.close(fd)
            raise
        return journal

    def _settle(self, tail: bytes) -> None:
        """Complete a last line that lacks or has a damaged newline only; cut any other off."""
        if not tail:
            return
        completed = False
        for line in (tail, tail[:-1]):
            link = self._chain.matching(line)
            if link is not None:
                os.ftruncate(self._fd, self._size + len(line))
                write_all(self._fd, b"\n")
                self._chain.advance(link)
                completed = True
                break
        self.recovered = Torn(self._size, len(tail), completed)
        if completed:
            self._size += len(line) + 1
        else:
            os.ftruncate(self._fd, self._size)
        os.fsync(self._fd)

    @property
    def events(self) -> int:
        """How many events are stored."""
        return self._chain.lines

    def append(self, event: _E) -> _E:
        """Stamp an event with seq and time and store it with one write(2); fsync it at ProblemClosed and Ended.

        Returns:
            the stamped event.

        Raises:
            RefeedError: kind "failed" when it cannot be stored: the disk is full, or the event would not read back
                (a value that is not finite, a line that is too long). Nothing of it stays in the file, and the
                journal can be appended to again.
        """
        wall, mono = self._clock()
        stamped = msgspec.structs.replace(event, seq=self._chain.lines, wall=wall, mono=mono)
        body = _encode(stamped)
        line, link = self._chain.extend(body)
        self._check(stamped, line)
        try:
            self._cut()
            self._clean = False
            write_all(self._fd, line)
            self._size += len(line)
            self._chain.advance(link)
            self._clean = True
        except OSError as error:
            with contextlib.suppress(OSError):  # the next append tries again, and so does the next opening
                self._cut()
            raise failure("append to", self.path, error) from error
        if isinstance(stamped, ProblemClosed | Ended):
            self.sync()
        return stamped

    def _cut(self) -> None:
        """Take off what an interrupted append left behind the last whole line."""
        if not self._clean:
            os.ftruncate(self._fd, self._size)
            self._clean = True

    @staticmethod
    def _check(event: Event, line: bytes) -> None:
        name = type(event).__name__
        if len(line) > MAX_LINE:
            raise RefeedError("failed", f"{name} takes {len(line)} bytes, more than {MAX_LINE} a line", "report this")
        try:
            decode(line)
        except msgspec.DecodeError as error:
            raise RefeedError("failed", f"{name} would not read back: {error}", "report this") from None

    def sync(self) -> None:
        """Make everything appended so far survive a power cut.

        Raises:
            RefeedError: kind "failed" when the disk refuses.
        """
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise failure("sync", self.path, error) from error
