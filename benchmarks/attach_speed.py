"""How long `attach` takes on a running campaign of 50,000 pivots: as plain lines, and as a dashboard on a real pty.

Run: python -m benchmarks.attach_speed [PIVOTS]
Bar: under 3 s from the command to a screen that shows every pivot.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

from benchmarks.fold_speed import PIVOTS_PER_PROBLEM, write
from sessions.disk.folder import lock
from sessions.spec import CampaignSpec, register
from sessions.store import SessionFolder, Store

COMMAND = [sys.executable, "-c", "from tui.cli import main; main()", "attach"]
PATIENCE = 60.0


def session(pivots: int) -> SessionFolder:
    """A session in the home that the environment names, with a campaign that has not ended."""
    spec = CampaignSpec(
        engine="embedded", model="bundled", task="arithmetic", problems=pivots // PIVOTS_PER_PROBLEM + 9
    )
    folder = Store().create(register(spec))
    write(folder.journal_path, pivots, folder.registration().digest)
    return folder


def plain(folder: SessionFolder, last: bytes) -> float:
    """Seconds from the command to the line of the last problem, as the lock says that it runs."""
    started = time.perf_counter()
    with subprocess.Popen([*COMMAND, folder.id, "--plain"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if last in line:
                break
        else:
            message = "the command ended without the line of the last problem"
            raise RuntimeError(message)
        seconds = time.perf_counter() - started
        process.send_signal(signal.SIGTERM)
    return seconds


def dashboard(folder: SessionFolder, shown: bytes) -> float:
    """Seconds from the command until a terminal of 120x40 shows a text."""
    started = time.perf_counter()
    pid, master = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execv(COMMAND[0], [*COMMAND, folder.id])  # noqa: S606 - the command that is timed
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    seen = b""
    while shown not in re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", seen):
        if time.perf_counter() - started > PATIENCE:
            message = f"nothing shows {shown!r}"
            raise TimeoutError(message)
        if select.select([master], [], [], 0.05)[0]:
            seen += os.read(master, 1 << 16)
    seconds = time.perf_counter() - started
    os.kill(pid, signal.SIGTERM)
    os.waitpid(pid, 0)
    return seconds


def main(pivots: int) -> None:
    """Write, then attach three times each way; the best counts, the rest is the machine's noise."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["REFEED_TUI_HOME"] = home
        folder = session(pivots)
        size = folder.journal_path.stat().st_size / 1e6
        last = f"(task {pivots // PIVOTS_PER_PROBLEM - 1}) closed".encode()
        with lock(folder.lock_path):
            lines = [plain(folder, last) for _ in range(3)]
            screens = [dashboard(folder, f"{pivots:,}".encode()) for _ in range(3)]
    load = Path("/proc/loadavg").read_text(encoding="ascii").split()[0]
    print(f"{pivots:,} pivots, {size:.0f} MB of journal; {os.cpu_count()} cores, load {load}")
    for name, found in (("plain lines", lines), ("dashboard", screens)):
        print(f"{name:12} {', '.join(f'{seconds:.2f}' for seconds in found)} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
