"""The lock that tells a living worker from a dead one.

flock(2) is released by the kernel when its holder dies, however it dies; a pid file alone could name a stranger.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from typing import TYPE_CHECKING, Final

from sessions.errors import RefeedError
from sessions.files import failure, open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# A reader that asks `held` has a shared lock for some microseconds; a worker that starts just then tries again.
_PATIENCE: Final = 0.5
_BUSY: Final = {errno.EAGAIN, errno.EACCES}


@contextlib.contextmanager
def lock(path: Path, *, patience: float = _PATIENCE) -> Iterator[int]:
    """Hold a session's lock; yields its descriptor, which children do not inherit over exec.

    Args:
        path: the lock file; created if absent.
        patience: seconds to try.

    Raises:
        RefeedError: kind "session" when another process holds it; kind "failed" when the file system refuses.
    """
    fd = open_regular(path, os.O_RDWR | os.O_CREAT)
    try:
        _acquire(fd, path, patience)
        yield fd
    finally:
        os.close(fd)


def _acquire(fd: int, path: Path, patience: float) -> None:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _BUSY:
                raise failure("lock", path, error) from error
            if time.monotonic() >= deadline:
                raise RefeedError(
                    "session",
                    f"session {path.parent.name} is running elsewhere",
                    "attach to it with `refeed-tui attach`, or end it with `refeed-tui abort`",
                ) from None
            time.sleep(0.02)
        else:
            return


def held(path: Path) -> bool:
    """Whether a process holds the lock at `path` now.

    Raises:
        RefeedError: kind "integrity" when it is not a plain file; kind "failed" when the file system refuses.
    """
    try:
        fd = open_regular(path)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _BUSY:
            return True
        raise failure("lock", path, error) from error
    else:
        return False
    finally:
        os.close(fd)
