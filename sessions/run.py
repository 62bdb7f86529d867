"""Which process runs a session: what run.json holds."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import msgspec

from sessions.errors import RefeedError
from sessions.files import read_bounded, write_atomic

PROTOCOL: Final = 1
ENDED: Final = frozenset("ZX")  # a dead process that nobody waits for may be listed for ever, as in some containers
_LIMIT: Final = 1 << 16

if TYPE_CHECKING:
    from collections.abc import Mapping


def boot_id() -> str:
    """Id of this boot of the machine; empty where the kernel does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def start_time(pid: int) -> int | None:
    """Clock ticks after boot at which a process started; None when it ended, or the kernel does not tell."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command's name is in parentheses and may hold anything; the fields after the last one are numbers.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in ENDED else int(fields[19])


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The worker of a session, living or dead.

    Attributes:
        pid: of the worker.
        started: its start in clock ticks after boot; with `boot` it tells a reused pid.
        boot: id of the boot of the machine.
        host: host name.
        socket: path of the control socket.
        protocol: version of what is spoken there.
        version: of refeed-tui.
    """

    pid: int
    started: int | None
    boot: str
    host: str
    socket: str
    protocol: int = PROTOCOL
    version: str = ""

    @classmethod
    def here(cls, socket_path: str, version: str) -> Self:
        """This process."""
        pid = os.getpid()
        return cls(
            pid=pid,
            started=start_time(pid),
            boot=boot_id(),
            host=socket.gethostname(),
            socket=socket_path,
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
