"""Who works in a session folder: the lock that a living worker holds, and run.json, which names its process."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self

import msgspec

from sessions.disk.files import failure, open_regular, read_bounded, write_atomic
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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


ProcessState = Literal["running", "stopped", "gone", "elsewhere", "unknown"]

STOPPED: Final = frozenset("Tt")  # by a signal, by a debugger
ENDED: Final = frozenset("ZX")  # a dead process that nobody waits for may be listed for ever, as in some containers
_LIMIT: Final = 1 << 16


def boot_id() -> str:
    """Id of this boot of the machine; empty where the kernel does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


class Process(NamedTuple):
    """What the kernel tells of a process.

    Attributes:
        letter: of its state, as in ps(1).
        started: clock ticks after boot.
    """

    letter: str
    started: int


def process(pid: int) -> Process | None:
    """A process of this machine; None when it ended, or the kernel does not tell."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command's name is in parentheses and may hold anything; the fields after the last one are numbers.
    fields = stat.rpartition(")")[2].split()
    return None if not fields or fields[0] in ENDED else Process(fields[0], int(fields[19]))


def start_time(pid: int) -> int | None:
    """Clock ticks after boot at which a process started; None when it ended, or the kernel does not tell."""
    found = process(pid)
    return None if found is None else found.started


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The worker of a session, living or dead.

    Attributes:
        pid: of the worker.
        started: its start in clock ticks after boot; with `boot` it tells a reused pid.
        boot: id of the boot of the machine.
        host: host name.
        version: of refeed-tui.
    """

    pid: int
    started: int | None
    boot: str
    host: str
    version: str = ""

    @classmethod
    def here(cls, version: str) -> Self:
        """This process."""
        pid = os.getpid()
        return cls(
            pid=pid,
            started=start_time(pid),
            boot=boot_id(),
            host=socket.gethostname(),
            version=version,
        )

    def elsewhere(self) -> bool:
        """Whether it ran on another host."""
        return self.host != socket.gethostname()

    def alive(self) -> bool:
        """Whether that very process exists on this machine: same boot, same pid, same start."""
        found = start_time(self.pid) if self.pid > 0 else None
        return self.boot == boot_id() and found is not None and found == self.started

    def write(self, path: Path) -> None:
        """Store it.

        Raises:
            RefeedError: kind "failed", with the cause.
        """
        write_atomic(path, msgspec.json.encode(self))

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Load it; None when there is none.

        Raises:
            RefeedError: kind "integrity" when it cannot be understood.
        """
        try:
            fields: Mapping[str, object] = msgspec.json.decode(read_bounded(path, _LIMIT))
            return msgspec.convert(fields, cls)
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, RecursionError) as error:
            raise RefeedError("integrity", f"{path} cannot be understood: {error}") from None


def process_state(run: RunInfo | None) -> ProcessState:
    """What a session's worker is, as far as this machine can tell: "stopped" is one that got SIGSTOP and lives.

    Args:
        run: the last worker; None before the first, of which nothing is known.
    """
    if run is None or run.started is None:
        return "unknown"
    if run.elsewhere():
        return "elsewhere"
    if not run.alive():
        return "gone"
    found = process(run.pid)
    if found is None:  # it ended just now
        return "gone"
    return "stopped" if found.letter in STOPPED else "running"
