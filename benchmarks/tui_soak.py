"""A long watch: 20 hours of a campaign, compressed, watched by the real app without a terminal, and used all the while.

    python benchmarks/tui_soak.py                                    10 minutes
    python benchmarks/tui_soak.py --minutes 60 --out FILE

One process writes what a worker would write in `--hours`, on the recorded clock, in three quarters of the time; then
the journal stands still. The viewer is asked for another panel, another size, a filter, a pivot, help, the list of
sessions and the session again (a whole new attach in the same process), one thing a second. After it a fresh process
attaches to the whole journal and is used in the same way: what the first one holds beyond that is what watching for
long costs.

Every sample is of `--every` seconds: resident memory, how late a timer of 10 ms fired (the event loop's lag) and how
much CPU time the loop's thread took meanwhile (the part of the lag that is not the machine's), events folded, and what
would leak without showing in memory at once: threads, open files, tasks, screens, campaigns that are still held.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import gc
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.pilot import Pilot

    from sessions.store import SessionFolder
    from tui.dashboard.app import RefeedApp

HOUR: Final = 3600.0
GROWING: Final = 0.75
FRESH_SECONDS: Final = 60.0
ACTION_SECONDS: Final = 1.0
LONGEST_OPENING: Final = 240.0
PIVOTS_PER_PROBLEM: Final = 40
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
SIZES: Final = {"small": (80, 24), "middle": (120, 40), "large": (200, 60)}

# One action a second: a key, a size, or `again`: to the list of sessions and back.
USE: Final = (
    "1", "small", "c", "2", "s", "d", "d", "slash", "z", "e", "r", "o", "enter", "y", "enter", "n", "n", "escape",
    "escape", "large", "3", "c", "4", "5", "6", "7", "w", "w", "8", "question_mark", "escape", "1", "middle", "space",
    "space", "again",
)  # fmt: skip


def write(home: Path, hours: float, seconds: float) -> None:
    """Append `hours` of a campaign in `seconds`, as its worker would, and hold the lock until stdin closes.

    The first line that it prints is the session's folder.
    """
    from tests.helpers.tui_journals import Script  # noqa: PLC0415  (the writer's own process)

    script = Script(home, name="night", settings={"problems": int(hours * HOUR / 20)})
    lock = os.open(script.folder.lock_path, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    began = time.monotonic()
    script.begin()
    print(script.folder.path, flush=True)
    problem = 0
    while script.clock.mono < hours * HOUR:
        script.problem(problem, script.nets(PIVOTS_PER_PROBLEM))
        problem += 1
        ahead = script.clock.mono / (hours * HOUR) * seconds - (time.monotonic() - began)
        time.sleep(max(0.0, ahead))
    script.journal.close()
    print(f"{problem} problems in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    sys.stdin.read()


def resident() -> float:
    """Resident memory of this process, MB."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE / 1e6


class Clocks:
    """How late a timer of 10 ms fires, and everything else that is sampled."""

    def __init__(self, app: RefeedApp) -> None:
        """Measure this app's loop."""
        self._app = app
        self._late: list[float] = []
        self._busy: list[float] = []
        self._began = time.monotonic()
        self.samples: list[dict[str, Any]] = []

    async def tick(self) -> None:
        """Run the timer until cancelled."""
        while True:
            asked, used = time.monotonic(), time.thread_time()
            await asyncio.sleep(0.01)
            self._late.append(1000 * (time.monotonic() - asked - 0.01))
            self._busy.append(1000 * (time.thread_time() - used))

    def sample(self, doing: str) -> None:
        """Close the present interval."""
        late, self._late = sorted(self._late), []
        busy, self._busy = sorted(self._busy), []
        shown = self._app.campaign
        state = None if shown is None else shown.session.state
        found = {
            "at_s": round(time.monotonic() - self._began, 1),
            "doing": doing,
            "resident_mb": round(resident(), 1),
            "lag_p50_ms": round(late[len(late) // 2], 2),
            "lag_p99_ms": round(late[len(late) * 99 // 100], 1),
            "lag_max_ms": round(late[-1], 1),
            "busy_p99_ms": round(busy[len(busy) * 99 // 100], 1),
            "busy_max_ms": round(busy[-1], 1),
            "events": 0 if state is None else state.events,
            "pivots": 0 if state is None else len(state.pivots),
            "threads": threading.active_count(),
            "files": len(list(Path("/proc/self/fd").iterdir())),
            "tasks": len(asyncio.all_tasks()),
            "screens": len(self._app.screen_stack),
            "load_average": round(os.getloadavg()[0], 1),
        }
        self.samples.append(found)
        print(json.dumps(found), flush=True)


async def use(app: RefeedApp, pilot: Pilot[int], until: float) -> None:
    """Do what a person does, an action a second, until then."""
    for action in _actions():
        if time.monotonic() >= until:
            return
        if action in SIZES:
            await pilot.resize_terminal(*SIZES[action])
        elif action == "again":
            await attach_again(app)
        else:
            app.simulate_key(action)
        await asyncio.sleep(ACTION_SECONDS)


async def attach_again(app: RefeedApp) -> None:
    """Leave the session for the list, and open it anew once it is listed.

    Raises:
        TimeoutError: the list, or the session, did not come.
    """
    from tui.dashboard.screens.campaign import CampaignScreen  # noqa: PLC0415  (with the app)
    from tui.dashboard.screens.home import HomeScreen  # noqa: PLC0415

    before = app.campaign
    app.simulate_key("0")
    async with asyncio.timeout(LONGEST_OPENING):
        while not isinstance(app.screen, HomeScreen) or app.screen.entry is None:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        await asyncio.sleep(ACTION_SECONDS)
        app.simulate_key("enter")
        while not isinstance(app.screen, CampaignScreen) or app.campaign is before or not app.screen.settled:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def _actions() -> Iterator[str]:
    while True:
        yield from USE


async def view(folder: SessionFolder, seconds: float, growing: float, every: float) -> dict[str, Any]:
    """Watch for so long and return the samples; the last one is taken after a full garbage collection."""
    from sessions.state.campaign import CampaignState  # noqa: PLC0415  (its import is part of the memory that is measured)
    from tui.dashboard.app import RefeedApp  # noqa: PLC0415  (likewise)

    app = RefeedApp(folder, mode="attach", ascii_only=False)
    async with app.run_test(size=SIZES["middle"]) as pilot:
        clocks = Clocks(app)
        began = time.monotonic()
        ticking = asyncio.create_task(clocks.tick())
        using = asyncio.create_task(use(app, pilot, began + seconds))
        while time.monotonic() - began < seconds:
            await asyncio.sleep(every)
            clocks.sample("growing" if time.monotonic() - began < growing else "standing")
            if using.done():
                using.result()
        await using
        app.simulate_key("1")
        await asyncio.sleep(2 * every)
        gc.collect()
        clocks.sample("after a full collection")
        ticking.cancel()
        objects = gc.get_objects()
        campaigns = sum(isinstance(one, CampaignState) and one.events > 0 for one in objects)
    return {"samples": clocks.samples, "objects": len(objects), "campaigns": campaigns}


def viewer(folder: str, out: Path, seconds: float, growing: float, every: float) -> dict[str, Any]:
    """Watch from a process of its own."""
    given = [str(value) for value in (folder, out, seconds, growing, every)]
    subprocess.run([sys.executable, __file__, "--view", *given], check=True)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def summary(long: dict[str, Any], fresh: dict[str, Any]) -> dict[str, Any]:
    """What the samples come to."""
    samples = long["samples"]
    standing = [sample for sample in samples if sample["doing"] == "standing"]
    half = len(standing) // 2

    def mean(of: list[dict[str, Any]], name: str) -> float:
        return round(sum(sample[name] for sample in of) / max(1, len(of)), 1)

    last, alone = samples[-1], fresh["samples"][-1]
    return {
        "events": last["events"],
        "pivots": last["pivots"],
        "resident_mb_at_first": samples[0]["resident_mb"],
        "resident_mb_at_last": last["resident_mb"],
        "resident_mb_of_a_fresh_viewer": alone["resident_mb"],
        "campaigns_held": long["campaigns"],
        "objects": long["objects"],
        "objects_of_a_fresh_viewer": fresh["objects"],
        "standing_resident_mb_first_half_mean": mean(standing[:half], "resident_mb"),
        "standing_resident_mb_second_half_mean": mean(standing[half:], "resident_mb"),
        "lag_p99_ms_median": sorted(sample["lag_p99_ms"] for sample in samples)[len(samples) // 2],
        "lag_p99_ms_worst": max(sample["lag_p99_ms"] for sample in samples),
        "lag_max_ms": max(sample["lag_max_ms"] for sample in samples),
        "busy_p99_ms_median": sorted(sample["busy_p99_ms"] for sample in samples)[len(samples) // 2],
        "busy_p99_ms_worst": max(sample["busy_p99_ms"] for sample in samples),
        "busy_max_ms": max(sample["busy_max_ms"] for sample in samples),
    }


def soak(hours: float, minutes: float, every: float) -> dict[str, Any]:
    """Write, watch, and watch again from a fresh process."""
    seconds = 60 * minutes
    growing = GROWING * seconds
    load = os.getloadavg()
    with tempfile.TemporaryDirectory() as home:
        os.environ["REFEED_TUI_HOME"] = home
        command = [sys.executable, __file__, "--write", home, str(hours), str(growing)]
        writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        folder = writer.stdout.readline().strip()
        try:
            long = viewer(folder, Path(home) / "long.json", seconds, growing, every)
            fresh = viewer(folder, Path(home) / "fresh.json", FRESH_SECONDS, 0.0, every)
        finally:
            writer.communicate()
    return {
        "conditions": {
            "recorded_hours": hours,
            "minutes": minutes,
            "seconds_a_sample": every,
            "actions_a_second": 1 / ACTION_SECONDS,
            "cores": os.cpu_count(),
            "niceness": os.nice(0),
            "load_average_before_and_after": [load[0], os.getloadavg()[0]],
            "python": platform.python_version(),
            "textual": version("textual"),
            "plotext": version("plotext"),
            "machine": "x86-64 virtual machine, other programs running",
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
        },
        "summary": summary(long, fresh),
        "samples": long["samples"],
        "samples_of_a_fresh_viewer": fresh["samples"],
    }


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--hours", type=float, default=20.0)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--every", type=float, default=10.0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--write", nargs=3)
    parser.add_argument("--view", nargs=5)
    args = parser.parse_args()
    if args.write or args.view:
        if args.write:
            write(Path(args.write[0]), *(float(part) for part in args.write[1:]))
            return
        from sessions.store import SessionFolder  # noqa: PLC0415  (a child's own import)

        folder, out, *numbers = args.view
        found = asyncio.run(view(SessionFolder(Path(folder)), *(float(part) for part in numbers)))
        Path(out).write_text(json.dumps(found))
        return
    found = soak(args.hours, args.minutes, args.every)
    print(json.dumps(found["summary"], indent=2))
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
