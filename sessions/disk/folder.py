"""A session's folder: its files, its locked spec, the lock of a living worker, and run.json, which names its process.

Free of numpy, so that `refeed-tui list` starts at once.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self

import msgspec
import platformdirs

from sessions.disk.files import failure, open_regular, read_bounded, write_atomic
from sessions.errors import RefeedError
from sessions.spec import Registration, check
from sessions.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sessions.spec import CampaignSpec

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
_SPEC_LIMIT: Final = 1 << 20
NAME_LIMIT: Final = 64
STARTING_SECONDS: Final = 10.0  # from registration to the worker's lock: a third of a second, more on a busy machine


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


def home() -> Path:
    """Folder that holds everything of refeed-tui: $REFEED_TUI_HOME, else the platform's state folder."""
    chosen = os.environ.get("REFEED_TUI_HOME", "")
    return Path(chosen).absolute() if chosen else platformdirs.user_state_path("refeed-tui")


@dataclass(frozen=True)
class Folder:
    """A session's folder: its files, its locked spec, and who works in it.

    Attributes:
        path: its folder, absolute.
    """

    path: Path

    @property
    def id(self) -> str:
        """Name of the folder."""
        return printable(self.path.name)

    @property
    def spec_path(self) -> Path:
        """The locked spec and its digest."""
        return self.path / "spec.json"

    @property
    def journal_path(self) -> Path:
        """The events."""
        return self.path / "events.jsonl"

    @property
    def texts_path(self) -> Path:
        """Folder of the side files with texts."""
        return self.path / "texts"

    @property
    def log_path(self) -> Path:
        """What the engine printed."""
        return self.path / "worker.log"

    @property
    def run_path(self) -> Path:
        """Which process runs it."""
        return self.path / "run.json"

    @property
    def lock_path(self) -> Path:
        """Locked while a worker lives."""
        return self.path / "lock"

    @property
    def requests_path(self) -> Path:
        """Folder of what people ask of its worker."""
        return self.path / "requests"

    @property
    def summary_path(self) -> Path:
        """Cache of `summary`."""
        return self.path / "summary.json"

    @cached_property
    def _registration(self) -> Registration:
        try:
            return msgspec.json.decode(read_bounded(self.spec_path, _SPEC_LIMIT), type=Registration)
        except FileNotFoundError:
            raise RefeedError("session", f"no session at {self.path}", "`refeed-tui list` shows sessions") from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise RefeedError("integrity", f"{self.spec_path} cannot be understood: {error}") from None

    @cached_property
    def _spec(self) -> CampaignSpec:
        return check(self._registration.campaign())  # a stranger's numbers must be in range before anything counts

    def registration(self) -> Registration:
        """The stored spec with its digest and name.

        Raises:
            RefeedError: kind "session" when there is none; kind "integrity" when it cannot be understood.
        """
        return self._registration

    def spec(self) -> CampaignSpec:
        """The spec, its digest checked.

        Raises:
            RefeedError: kind "integrity" when the stored spec does not match its digest; kind "spec" when it is
                out of range.
        """
        return self._spec

    @property
    def name(self) -> str | None:
        """The session's name, if it has one, as one printable line."""
        name = self._registration.name
        return None if name is None else printable(name, NAME_LIMIT)

    def live(self) -> bool:
        """Whether a worker holds the session's lock.

        Raises:
            RefeedError: as `locks.held`.
        """
        return held(self.lock_path)

    def starting(self) -> bool:
        """Whether the first worker of a session that was registered moments ago is still to take its lock.

        A session that was copied or imported has a journal, and one whose start was refused has a lock.
        """
        if os.path.lexists(self.lock_path) or os.path.lexists(self.journal_path):
            return False
        try:
            return abs(time.time() - self.spec_path.stat().st_mtime) < STARTING_SECONDS
        except OSError:
            return False

    def give_up(self) -> None:
        """Say that no worker is coming: leave a lock that nobody holds, as a worker does that came and went."""
        with contextlib.suppress(OSError, RefeedError):  # nothing can be written there, and whoever gives up says why
            os.close(open_regular(self.lock_path, os.O_RDWR | os.O_CREAT))

    def run(self) -> RunInfo | None:
        """The last worker, living or dead; None before the first.

        Raises:
            RefeedError: kind "integrity" when run.json cannot be understood.
        """
        return RunInfo.read(self.run_path)


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
