"""What the dashboard costs: a real pty of 120x40, a journal that another process writes, and clocks inside the app.

    python benchmarks/tui_load.py                     2,000 events/s for 20 s on the live screen and on the table
    python benchmarks/tui_load.py --open 100000       attach to a session of 100,000 pivots

CPU is user and system time of the viewer's process over the measured seconds, in shares of one core. Event-loop delay
is how late a timer of 10 ms fires. "first frame" is from the start of the interpreter to the first painted screen of
the session; "opened" until the whole journal is folded and painted; "cpu" is the viewer's CPU time up to there, which
says more on a busy machine.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from sessions.disk.journal import Journal  # noqa: E402
from sessions.events import Opened, ProblemClosed, Progress  # noqa: E402  (after the path)
from sessions.spec import CampaignSpec, register  # noqa: E402
from sessions.store import Store  # noqa: E402
from tests.helpers.session_events import engine_ready, pivot, trunks_done  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions.events import AnyEvent
    from sessions.store import SessionFolder

SIZE = (120, 40)
PIVOTS_PER_PROBLEM = 40


def spec(problems: int) -> CampaignSpec:
    """A spec that `problems` problems fit."""
    return CampaignSpec(
        engine="embedded", model="bundled", task="arithmetic", problems=problems, k=4, cont_temperature=0.7
    )


def campaign(problems: int) -> Iterator[AnyEvent]:
    """Events of a campaign, mostly pivots, as many as a campaign can say."""
    yield Opened(session="load", version="0", host="load", pid=1)
    yield engine_ready()
    for problem in range(problems):
        yield trunks_done(problem, attempt=0)
        for number in range(PIVOTS_PER_PROBLEM):
            nets = ((number % 5) - 2, (number % 5) - 2, ((number * 7 + problem) % 5) - 2)
            yield pivot(problem, number % 8, 120 + 16 * number, nets, attempt=0)
            if number % 10 == 0:
                yield Progress(
                    problem=problem, stage="re-feed", done=number * 10, total=400, verified=number * 10, failed=0,
                    tokens=number * 1000, tokens_per_s=6000.0, kv_use=0.4,
                )  # fmt: skip
        yield ProblemClosed(problem=problem, attempt=0, outcome="measured", pivots=PIVOTS_PER_PROBLEM, seconds=1.0)


def create(home: Path, problems: int) -> SessionFolder:
    """A session without events."""
    return Store(home).create(register(spec(problems), name="load"))


def write(folder: str, rate: float, seconds: float) -> None:
    """Append events at a rate, as a worker would, holding the session's lock."""
    from sessions.store import SessionFolder  # noqa: PLC0415  (the writer's own process)

    session = SessionFolder(Path(folder))
    lock = os.open(session.lock_path, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    events = campaign(100_000)
    with Journal.open(session.journal_path, session.registration().digest) as journal:
        began, written = time.monotonic(), 0
        while time.monotonic() - began < seconds:
            while written < (time.monotonic() - began) * rate:
                journal.append(next(events))
                written += 1
            time.sleep(0.005)
    print(written)


def view(folder: str, seconds: float, out: str, keys: str) -> None:
    """Run the dashboard with clocks inside, in this process, on the terminal that it was given."""
    started = float(os.environ["LOAD_STARTED"])
    import asyncio  # noqa: PLC0415  (import time is part of what is measured)
    import resource  # noqa: PLC0415

    from sessions.store import SessionFolder  # noqa: PLC0415
    from tui.dashboard.app import RefeedApp  # noqa: PLC0415
    from tui.dashboard.screens.campaign import CampaignScreen  # noqa: PLC0415

    found: dict[str, Any] = {"imported_s": time.time() - started}
    delays: list[float] = []

    class Probed(RefeedApp):
        async def _probe(self) -> None:
            while not isinstance(self.screen, CampaignScreen) or self.screen.paints == 0:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            found["first_frame_s"], found["first_frame_cpu_s"] = time.time() - started, time.process_time()
            while not self.screen.session.caught_up:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            self.screen.repaint(force=True)
            await asyncio.sleep(0)
            found["opened_s"], found["opened_cpu_s"] = time.time() - started, time.process_time()
            for key in keys:
                self.simulate_key(key)
            await asyncio.sleep(1.0)
            usage, clock = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
            events = self.screen.session.state.events
            while time.monotonic() - clock < seconds:
                asked = time.monotonic()
                await asyncio.sleep(0.01)
                delays.append(time.monotonic() - asked - 0.01)
            now = resource.getrusage(resource.RUSAGE_SELF)
            took = time.monotonic() - clock
            found["cpu_share"] = (now.ru_utime + now.ru_stime - usage.ru_utime - usage.ru_stime) / took
            found["events_per_s"] = (self.screen.session.state.events - events) / took
            found["events"] = self.screen.session.state.events
            found["pivots"] = len(self.screen.session.state.pivots)
            found["peak_mb"] = now.ru_maxrss / 1024
            self.exit(0)

        def on_mount(self) -> None:  # Textual calls the base's, too
            self.probing = asyncio.get_running_loop().create_task(self._probe())

    app = Probed(SessionFolder(Path(folder)), mode="attach")
    app.run()
    if app.error is not None:
        raise app.error
    app.probing.result()
    ordered = sorted(delays)
    found |= {f"delay_p{p}_ms": 1000 * ordered[min(len(ordered) - 1, len(ordered) * p // 100)] for p in (50, 99)}
    found["delay_max_ms"] = 1000 * ordered[-1]
    Path(out).write_text(json.dumps(found))


def in_pty(arguments: list[str], env: dict[str, str]) -> int:
    """Run this script in a real pty of the benchmark's size; returns how many bytes came out of it.

    Raises:
        SystemExit: it failed; its last words are shown.
    """
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(env)
        os.environ.update({"TERM": "xterm-256color", "LANG": "C.UTF-8", "LOAD_STARTED": repr(time.time())})
        os.execv(sys.executable, [sys.executable, __file__, *arguments])  # noqa: S606  (a pty has no subprocess API)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0))
    came, tail = 0, b""
    while True:
        readable, _, _ = select.select([fd], [], [], 0.5)
        if readable:
            try:
                data = os.read(fd, 65536)
            except OSError:
                break
            if not data:
                break
            came += len(data)
            tail = (tail + data)[-4000:]
    _, status = os.waitpid(pid, 0)
    if status != 0:
        sys.exit(f"the viewer failed:\n{tail.decode(errors='replace')}")
    return came


def measured(folder: SessionFolder, seconds: float, keys: str, writer: subprocess.Popen[bytes] | None) -> None:
    """Watch a session in a pty and print what it cost."""
    out = folder.path / "found.json"
    came = in_pty(["--view", str(folder.path), "--seconds", str(seconds), "--out", str(out), "--keys", keys], {})
    if writer is not None:
        writer.wait()
    found = json.loads(out.read_text())
    found["pty_kb_per_s"] = came / seconds / 1000
    load = os.getloadavg()[0]
    print(f"keys {keys or '-'}, load average {load:.1f}")
    for name, value in found.items():
        print(f"  {name:16} {value:,.3f}" if isinstance(value, float) else f"  {name:16} {value:,}")


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--open", type=int, default=0, help="pivots of a session that is opened")
    parser.add_argument("--rate", type=float, default=2000.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--write")
    parser.add_argument("--view")
    parser.add_argument("--out")
    parser.add_argument("--keys", default="")
    args = parser.parse_args()
    if args.write:
        write(args.write, args.rate, args.seconds)
        return
    if args.view:
        view(args.view, args.seconds, args.out, args.keys)
        return
    with tempfile.TemporaryDirectory() as home:
        if args.open:
            problems = args.open // PIVOTS_PER_PROBLEM
            folder = create(Path(home), problems)
            with Journal.open(folder.journal_path, folder.registration().digest) as journal:
                for event in campaign(problems):
                    journal.append(event)
            measured(folder, 5.0, "2", None)
            return
        for keys in ("", "2"):
            folder = create(Path(home), 100_000)
            command = [sys.executable, __file__, "--write", str(folder.path), "--rate", str(args.rate)]
            writer = subprocess.Popen([*command, "--seconds", str(args.seconds + 6)], stdout=subprocess.DEVNULL)
            time.sleep(0.5)
            measured(folder, args.seconds, keys, writer)


if __name__ == "__main__":
    main()
