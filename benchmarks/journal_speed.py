"""How fast a journal appends, and how soon a tailing reader sees an event.

Run: python -m benchmarks.journal_speed [EVENTS]
Bars: 20,000 events/s appended, 100 ms to a reader that polls at 20 Hz.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path

from sessions.disk.journal import Follower, Journal, verify
from tests.helpers.session_events import pivot

DIGEST = "c0" * 32


def append_speed(path: Path, count: int) -> None:
    """Append realistic pivots and print events/s."""
    event = pivot(nets=(1, 0, -2))
    with Journal.open(path, DIGEST) as journal:
        started = time.perf_counter()
        for _ in range(count):
            journal.append(event)
        seconds = time.perf_counter() - started
    size = path.stat().st_size
    print(f"append: {count / seconds:,.0f} events/s of {size / count:,.0f} bytes")
    started = time.perf_counter()
    found = verify(path, DIGEST)
    print(f"verify: {found.events / (time.perf_counter() - started):,.0f} events/s")


def tail_delay(path: Path, count: int = 100) -> None:
    """Print how late a reader that polls every 50 ms sees events."""
    seen: list[float] = []

    def tail() -> None:
        with Follower(path, DIGEST) as follower:
            while len(seen) < count:
                seen.extend(time.time() for _ in follower.poll())
                time.sleep(0.05)

    thread = threading.Thread(target=tail)
    thread.start()
    sent = []
    with Journal.open(path, DIGEST) as journal:
        for _ in range(count):
            sent.append(journal.append(pivot()).wall)
            time.sleep(0.013)
    thread.join()
    delays = sorted(late - early for early, late in zip(sent, seen, strict=True))
    print(f"tail: median {delays[count // 2] * 1e3:.0f} ms, slowest {delays[-1] * 1e3:.0f} ms of {count}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        append_speed(Path(folder) / "speed.jsonl", int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
        tail_delay(Path(folder) / "tail.jsonl")
