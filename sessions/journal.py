"""The journal's writer: append events, recover a torn tail. `sessions.reading` reads, follows and verifies.

One writer (the session's lock sees to that) and any number of readers. An event is there once its newline is: readers
leave a line without one alone, and the next writer cuts it off, or completes it when only the newline was missing.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeVar

import msgspec

from sessions.chain import MAX_LINE, Chain
from sessions.errors import RefeedError
from sessions.events import Ended, Event, ProblemClosed
from sessions.files import OpenFile, failure, open_regular, sync_folder, write_all
from sessions.reading import Lines, decode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Clock = Callable[[], tuple[float, float]]

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
