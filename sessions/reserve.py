"""Some disk space that a worker holds back, so that a full disk leaves room to record why the campaign ended."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, Final, Self

from sessions.files import failure, open_regular

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

SIZE: Final = 1 << 17


class Reserve:
    """A file of some blocks beside the journal, removed when they are needed."""

    def __init__(self, path: Path) -> None:
        """Take the space, where the file system lets us.

        Raises:
            RefeedError: kind "failed" when there is not even that much, or nothing can be written here at all.
        """
        self._path = path
        with contextlib.suppress(OSError):
            path.unlink()  # left by a worker that died
        try:
            fd = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                os.posix_fallocate(fd, 0, SIZE)
            finally:
                os.close(fd)
        except OSError as error:
            self.release()
            if error.errno in {errno.EOPNOTSUPP, errno.EINVAL, errno.EFBIG}:
                return  # not here; the campaign does without
            raise failure("hold back some space in", path, error) from error

    def release(self) -> None:
        """Give it back; safe to call twice."""
        with contextlib.suppress(OSError):
            self._path.unlink()

    def __enter__(self) -> Self:
        """Give it back at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give it back."""
        self.release()
