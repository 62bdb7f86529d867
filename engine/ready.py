"""The worker's one record to its launcher: ready, or why not. There is no third state."""

from __future__ import annotations

import os

import msgspec

from sessions.errors import Kind, RefeedError


class Ready(msgspec.Struct, frozen=True):
    """What the worker tells its launcher, once.

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


def tell(fd: int | None, ready: Ready) -> None:
    """Write the record and close the pipe; a launcher that went away is no reason to stop."""
    if fd is None:
        return
    try:
        os.write(fd, msgspec.json.encode(ready) + b"\n")
    except BrokenPipeError:
        return
    finally:
        os.close(fd)
