"""How long it takes to read, check, decode and fold a long journal, as `attach` and `report` do.

Run: python -m benchmarks.fold_speed [PIVOTS]
Bars: 100,000 pivots in under 3 s; 50,000 (attach) likewise.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

from sessions.disk.journal import Journal, read
from sessions.spec import CampaignSpec
from sessions.state.fold import fold_all
from tests.helpers.session_events import closed, engine_ready, opened, pass_started, pivot, trunks_done

DIGEST = "c0" * 32
PIVOTS_PER_PROBLEM = 40


def write(path: Path, pivots: int, digest: str = DIGEST) -> None:
    """A campaign of 40 pivots a problem."""
    draw = random.Random(0)  # noqa: S311
    with Journal.open(path, digest) as journal:
        journal.append(opened())
        journal.append(engine_ready())
        for problem in range(pivots // PIVOTS_PER_PROBLEM):
            journal.append(trunks_done(problem))
            for name in ("exact-1", "exact-2", "re-feed"):
                journal.append(pass_started(problem, name))
            for number in range(PIVOTS_PER_PROBLEM):
                nets = (draw.randint(-1, 1), draw.randint(-1, 1), draw.randint(-1, 1))
                journal.append(pivot(problem, number // 5, 145 + 16 * number, nets, shifts=(0.001, 0.01)))
            journal.append(closed(problem, PIVOTS_PER_PROBLEM))


def main(pivots: int) -> None:
    """Write, then time reading with and without the table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        write(path, pivots)
        started = time.perf_counter()
        state = fold_all(CampaignSpec(), read(path, DIGEST))
        folded = time.perf_counter() - started
        table = state.table()
        built = time.perf_counter() - started - folded
        size = path.stat().st_size
    print(f"{len(table.group):,} pivots, {state.events:,} events, {size / 1e6:.0f} MB")
    print(f"read, checked, decoded and folded in {folded:.2f} s; table in {built * 1e3:.0f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
