"""The guardian: a small process beside a worker that ends whatever the worker leaves behind when it dies.

An engine may run in processes of its own, and those hold a GPU for as long as they live. The guardian waits at a pipe
whose other end only the worker holds; the kernel closes that end, whatever the worker died of. Then it kills what still
lives in the session that the worker led. It stays in that session itself, in a process group of its own, so that the
session's number cannot become another's meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from sessions.disk.folder import process
from sessions.errors import RefeedError

IGNORED: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
READY: Final = b"+"
PATIENCE: Final = 60.0  # a large engine takes the kernel seconds to end, and a tracker waits for it
STEP: Final = 0.05
# Python's keeper of shared memory: it unlinks what the others left there once all of them are gone, and ends by itself.
TRACKER: Final = b"multiprocessing.resource_tracker"


class _Lifeline:
    """The worker's end of the pipe: a bare number, so that nothing short of the worker's end closes it."""

    def __init__(self, fd: int) -> None:
        """Keep it out of forked children; those that are started otherwise do not inherit it."""
        self._fd = fd
        os.register_at_fork(after_in_child=self._drop)

    def _drop(self) -> None:
        # Once: a child of the child runs this too, and there the number may be another file's.
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def guard() -> bool:
    """Start the guardian of this process. It needs no closing: it ends when this process has ended.

    Returns:
        False, with nothing started, when this process leads no session: others may live in it.

    Raises:
        RefeedError: kind "failed" when there can be no guardian.
    """
    if os.getsid(0) != os.getpid():
        return False
    read_end, write_end = os.pipe()
    _Lifeline(write_end)
    command = [sys.executable, "-P", "-m", "engine.worker.guardian", str(os.getpid())]
    try:
        process = subprocess.Popen(command, stdin=read_end, stdout=subprocess.PIPE, process_group=0)
    except OSError as error:
        raise RefeedError("failed", f"the worker's guardian cannot be started: {error}", "see `ulimit -u`") from error
    finally:
        os.close(read_end)
    assert process.stdout is not None
    with process.stdout as said:
        if said.read(1) != READY:
            raise RefeedError("failed", "the worker's guardian died at its start", "see worker.log")
    return True


def _keeps_memory(pid: int) -> bool:
    """Whether a process is Python's keeper of shared memory."""
    try:
        return TRACKER in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def members(session: int) -> list[int]:
    """Ids of the processes that live in a session, without this process."""
    found = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):  # noqa: PTH208 - names, not paths
        with contextlib.suppress(OSError):  # it ended just now
            if os.getsid(pid) == session and pid != os.getpid() and process(pid) is not None:
                found.append(pid)
    return found


def sweep(session: int) -> set[int]:
    """Kill what lives in a session, resource trackers only if they do not end after the others.

    Returns:
        Whom it killed.
    """
    killed = set()
    deadline = time.monotonic() + PATIENCE
    late = False
    while not late and (left := members(session)):
        late = time.monotonic() > deadline
        for pid in left:
            # The worker itself is ending: the kernel closes its end of the pipe some moments before it is gone.
            if late or (pid != session and not _keeps_memory(pid)):
                with contextlib.suppress(OSError):  # it ended just now
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
        time.sleep(STEP)
    return killed


def main() -> int:
    """Wait for the worker's end, and sweep its session."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    session = int(sys.argv[1])
    if session != os.getsid(0):
        sys.stderr.write("engine.worker.guardian is started by a worker, in the worker's session\n")
        return 2
    with contextlib.suppress(OSError):  # the worker may have died already
        os.write(1, READY)
    os.read(0, 1)
    killed = sweep(session)
    if killed:
        pids = ", ".join(map(str, sorted(killed)))
        sys.stderr.write(f"refeed-tui: worker {session} ended and left processes, which were killed: {pids}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
