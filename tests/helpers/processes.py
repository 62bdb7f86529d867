"""What lives in a session of processes, read from /proc."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def processes_of(leader: int) -> list[int]:
    """Living processes of the session that a process leads or led, itself among them."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, sid = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(sid) == leader and state != "Z":
            found.append(int(stat.parent.name))
    return found


def gone(leader: int, patience: float = 60.0) -> bool:
    """Wait until nothing of a session lives; False when something still does after so many seconds.

    How long it took is no matter for a test: on a busy machine the kernel alone takes seconds to end a large process.
    """
    deadline = time.monotonic() + patience
    while processes_of(leader):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def kill_all(leader: int) -> None:
    """End what a test that failed left of a session."""
    for pid in processes_of(leader):
        os.kill(pid, signal.SIGKILL)
