"""What a worker tells its launcher: steps of its start, then once that it is ready, or why not. No third state."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import termios
from typing import Final

import msgspec

from sessions.errors import Kind, RefeedError

UNREAD: Final = 4096  # bytes of steps that may wait in the pipe, which holds 64 KiB: the last word needs room, too


class Step(msgspec.Struct, frozen=True, tag="step", tag_field="said"):
    """Something before "ready" that takes its time.

    Attributes:
        stage: what is done.
        fraction: of it, 0 to 1.
    """

    stage: str
    fraction: float


class Ready(msgspec.Struct, frozen=True, tag="ready", tag_field="said"):
    """The last word to the launcher.

    Attributes:
        ok: whether it holds the lock, listens, and opened the journal.
        kind: of the error otherwise.
        message: of the error.
        hint: of the error.
    """

    ok: bool
    kind: Kind = "failed"
    message: str = ""
    hint: str = ""

    def require(self) -> None:
        """Raise the worker's error, if it had one.

        Raises:
            RefeedError: as in the worker.
        """
        if not self.ok:
            raise RefeedError(self.kind, self.message, self.hint)


class Launcher:
    """The worker's end of the pipe to whoever launched it, who may have gone away: that is no reason to stop."""

    def __init__(self, fd: int | None) -> None:
        """Tell at this descriptor; None when nobody listens."""
        self._fd = fd

    def step(self, stage: str, fraction: float) -> None:
        """Say what is done before "ready"; nothing to a launcher that does not listen, for it may be stopped."""
        if self._fd is not None and _unread(self._fd) < UNREAD:
            self._write(self._fd, Step(stage, fraction))

    def tell(self, ready: Ready) -> None:
        """Say the last word and close the pipe; later ones are not said, for the number may be another file's."""
        fd, self._fd = self._fd, None
        if fd is not None:
            try:
                self._write(fd, ready)
            finally:
                os.close(fd)

    @staticmethod
    def _write(fd: int, word: Step | Ready) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(fd, msgspec.json.encode(word) + b"\n")


def _unread(fd: int) -> int:
    """Bytes that wait in a pipe; its writing end can be asked, too."""
    waiting: int = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * struct.calcsize("i")))[0]
    return waiting
