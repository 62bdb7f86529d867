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


def seconds_until_gone(leader: int, patience: float) -> float:
    """Wait until nothing of a session lives; returns how long that took, `patience` when something still does."""
    began = time.monotonic()
    while processes_of(leader) and time.monotonic() - began < patience:
        time.sleep(0.02)
    return min(time.monotonic() - began, patience)


def kill_all(leader: int) -> None:
    """End what a test that failed left of a session."""
    for pid in processes_of(leader):
        os.kill(pid, signal.SIGKILL)
