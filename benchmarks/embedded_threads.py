"""Tokens per second of the embedded engine by threads and by how waiting threads behave, each in a process of its own.

    python benchmarks/embedded_threads.py [--write]

The load average stands beside the numbers: threads are told apart by what else wants the cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

SETTINGS = {
    "1 thread": {"OMP_NUM_THREADS": "1"},
    "2 threads, waiting ones sleep": {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"},
    "2 threads, waiting ones spin": {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "active"},
}
REQUESTS = 128
TOKENS = 100
LONGEST = 120


class Quiet:
    """A watcher that lets everything pass."""

    def first_token(self, first: object) -> bool:
        """Go on."""
        return first is not None

    def step(self, stats: object) -> bool:
        """Go on."""
        return stats is not None


def measure() -> float:
    """Tokens per second of one batch on the bundled model, after a small one to warm up."""
    from engine.backend import Request  # noqa: PLC0415 - the environment must be set before torch loads
    from engine.backends.embedded.backend import load  # noqa: PLC0415
    from engine.backends.load import BUNDLED_PATH  # noqa: PLC0415
    from engine.tasks.registry import open_task  # noqa: PLC0415
    from engine.tasks.task import user_message  # noqa: PLC0415

    engine = load(BUNDLED_PATH, max_num_seqs=REQUESTS)
    task = open_task("arithmetic")
    prompts = [engine.encode_chat(None, user_message(task.problem(i), task.instruction)) for i in range(16)]

    def batch(name: str, size: int) -> list[Request]:
        return [Request(f"{name}{i}", prompts[i % 16], f"{name}{i}", i, 0.7, 0.95, TOKENS) for i in range(size)]

    engine.run(batch("warm", 8), Quiet())
    began = time.perf_counter()
    done = engine.run(batch("timed", REQUESTS), Quiet())
    return sum(len(one.tokens) for one in done) / (time.perf_counter() - began)


def main() -> None:
    """Measure every setting, print the table, and keep it where asked."""
    if sys.argv[1:] == ["--one"]:
        print(measure())
        return
    rates: dict[str, float | None] = {}
    before = os.getloadavg()[0]
    for name, settings in SETTINGS.items():
        try:
            done = subprocess.run(
                [sys.executable, __file__, "--one"],
                env=os.environ | settings,
                capture_output=True,
                text=True,
                check=True,
                timeout=LONGEST,
            )
            rates[name] = round(float(done.stdout))
        except subprocess.TimeoutExpired:
            rates[name] = None
        print(f"{name}: {rates[name] or f'no end within {LONGEST} s'} tokens/s")
    result = {
        "tokens_per_second": rates,
        "requests": REQUESTS,
        "tokens_per_request_at_most": TOKENS,
        "cores": os.cpu_count(),
        "load_average_before_and_after": [before, os.getloadavg()[0]],
        "machine": "x86-64 virtual machine, other programs running",
        "date": time.strftime("%Y-%m-%d"),
    }
    if "--write" in sys.argv:
        Path("benchmarks/results/embedded_threads.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
