"""Reading and writing the files of a session folder, which may come from a stranger.

Nothing here follows a symbolic link at the last step of a path, waits on a pipe, or reads more than it was told to.
Files are 0600 and folders 0700.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from typing import TYPE_CHECKING, Final, Self

from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
_HINTS: Final = {
    errno.ENOSPC: "free some space, then `refeed-tui resume`; what was recorded before stands",
    errno.EDQUOT: "the disk quota is used up; free some space, then `refeed-tui resume`",
    errno.EFBIG: "the file size limit (`ulimit -f`) was reached",
    errno.EROFS: "the file system is read-only; copy the session elsewhere",
    errno.EACCES: "check the owner and the permissions",
    errno.EPERM: "check the owner and the permissions",
}


class OpenFile:
    """A file that is open, or not yet: closed once, at the end of a block or before."""

    _fd: int = -1

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


def failure(verb: str, path: Path, error: OSError) -> RefeedError:
    """A `failed` error that says what could not be done with which file, and why."""
    hint = _HINTS.get(error.errno or 0, "")
    return RefeedError("failed", f"cannot {verb} {path}: {error.strerror or error}", hint)


def open_regular(path: Path, flags: int = os.O_RDONLY, *, folder: int | None = None) -> int:
    """Open a regular file and return its descriptor.

    Args:
        path: the file; relative to `folder` when that is given.
        flags: of open(2), beside those that keep us from following links and waiting.
        folder: descriptor of the folder that holds it.

    Raises:
        RefeedError: kind "integrity" when it is a link, a folder, a pipe, a device; kind "failed" when it cannot be
            opened.
        FileNotFoundError: it is not there.
    """
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, FILE_MODE, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EISDIR, errno.ENXIO}:
            raise RefeedError(
                "integrity", f"{path} is not a regular file", "a session holds plain files only"
            ) from None
        raise failure("open", path, error) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise RefeedError("integrity", f"{path} is not a regular file", "a session holds plain files only")
    return fd


@contextlib.contextmanager
def open_folder(path: Path) -> Iterator[int]:
    """Descriptor of a folder that is not a symbolic link.

    Raises:
        RefeedError: kind "integrity" when it is something else; kind "failed" when it cannot be opened.
        FileNotFoundError: it is not there.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            raise RefeedError("integrity", f"{path} is not a plain folder") from None
        raise failure("open", path, error) from error
    try:
        yield fd
    finally:
        os.close(fd)


def read_bounded(path: Path, limit: int, *, folder: int | None = None) -> bytes:
    """Whole content of a regular file of at most `limit` bytes.

    Raises:
        RefeedError: kind "integrity" when it is longer or not a regular file; kind "failed" when it cannot be read.
        FileNotFoundError: it is not there.
    """
    with open(open_regular(path, folder=folder), "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise RefeedError("integrity", f"{path} is longer than {limit} bytes", "no session writes so large a file")
    return data


def write_all(fd: int, data: bytes) -> None:
    """Write every byte: one write(2), and more only after a short one.

    Raises:
        OSError: as write(2) says; what was written before stays.
    """
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, data[written:])


def write_atomic(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace a file's content so that a reader sees the old or the new one, never a part.

    Args:
        path: the file; a symbolic link there is replaced, never followed.
        data: new content.
        durable: fsync the file and its folder, so that it survives a power cut.

    Raises:
        RefeedError: kind "failed", with the cause; the old content stands.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
        try:
            write_all(fd, data)
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        temporary.replace(path)
        if durable:
            sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise failure("write", path, error) from error


def sync_folder(path: Path) -> None:
    """Fsync a folder, so that the names in it survive a power cut.

    Raises:
        OSError: as fsync(2) says.
    """
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


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
