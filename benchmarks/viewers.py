"""What viewers cost the worker: one campaign alone, then the same one under ten `attach --plain`.

Run: python -m benchmarks.viewers [VIEWERS] [ROUNDS]
Bar: nothing measurable. The worker shares nothing with a viewer but the journal's bytes and the machine; so its own CPU
seconds and context switches are what viewers could raise, and its wall time is what they take from a machine that is
too small.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from engine.registration import resolve
from engine.worker.supervisor import launch
from sessions.spec import CampaignSpec, register
from sessions.store import Store

SPEC = CampaignSpec(
    engine="embedded",
    problems=12,
    rollouts=4,
    k=4,
    max_pivots=3,
    temperature=1.5,
    margin=20.0,
    max_trunk_tokens=120,
    max_cont_tokens=80,
    probe_tokens=8,
    wave=1,
)
ATTACH = [sys.executable, "-c", "from tui.cli import main; main()", "attach", "--plain"]
TICKS = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """What a campaign took: wall seconds, the worker's CPU seconds, and all viewers' CPU seconds."""

    wall: float
    worker: float
    viewers: float


def cpu(pid: int) -> float:
    """CPU seconds of a process so far, user and system; what it had last when it is gone is the caller's."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def once(viewers: int) -> Cost:
    """Run the campaign from the start of its engine to its end."""
    folder = Store().create(register(resolve(SPEC)))
    launch(folder)
    run = folder.run()
    assert run is not None
    watching = [
        subprocess.Popen([*ATTACH, folder.id], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(viewers)
    ]
    while folder.summary().closed < 1:  # loading, and viewers that start, are not the question
        assert folder.live(), "the campaign ended before its first problem closed; see its worker.log"
        time.sleep(0.02)
    started, before = time.monotonic(), cpu(run.pid)
    seen = [cpu(viewer.pid) for viewer in watching]
    after, spent = before, 0.0
    while folder.live():
        try:
            after = cpu(run.pid)
            spent = sum(cpu(viewer.pid) for viewer in watching) - sum(seen)
        except OSError:
            break
        time.sleep(0.05)
    wall = time.monotonic() - started
    assert folder.state() == "finished", folder.state()
    assert all(viewer.poll() in {None, 0} for viewer in watching), "a viewer died"
    for viewer in watching:
        viewer.send_signal(signal.SIGTERM)
        viewer.wait()
    return Cost(wall, after - before, spent)


def main(viewers: int, rounds: int) -> None:
    """Alternate, so that a machine that others use disturbs both alike."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["REFEED_TUI_HOME"] = home
        os.environ["XDG_RUNTIME_DIR"] = home
        os.environ["OMP_NUM_THREADS"] = "1"
        found: dict[int, list[Cost]] = {0: [], viewers: []}
        for _ in range(rounds):
            for count, costs in found.items():
                costs.append(last := once(count))
                load = Path("/proc/loadavg").read_text(encoding="ascii").split()[0]
                print(
                    f"{count:2} viewers: wall {last.wall:.1f} s, worker {last.worker:.2f} CPU s, "
                    f"viewers {last.viewers:.2f} CPU s ({os.cpu_count()} cores, load {load})",
                    flush=True,
                )
    alone, watched = (statistics.median(cost.worker for cost in costs) for costs in found.values())
    print(
        f"worker's CPU, median of {rounds}: {alone:.2f} s alone, {watched:.2f} s watched ({watched / alone - 1:+.1%})"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10, int(sys.argv[2]) if len(sys.argv) > 2 else 3)
