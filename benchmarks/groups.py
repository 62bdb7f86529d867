"""Campaigns of the bundled model in groups of 1, 2, 4 and 8 problems, on one engine of this machine's CPU.

    python -m benchmarks.groups embedded [--write]
    OMP_NUM_THREADS=1 .venv-vllm/bin/python -m benchmarks.groups vllm [--write]

All groups are measured in turn, two rounds in one process, so what counts is the ratio of medians to groups of 1.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.gpu.inprocess import conduct
from engine.backends.load import load
from engine.registration import resolve
from sessions.spec import from_fields

GROUPS: Final = (1, 2, 4, 8)
ROUNDS: Final = 2
FIELDS: Final[dict[str, Any]] = {
    "model": "bundled",
    "task": "arithmetic",
    "problems": 8,
    "wave": 8,
    "k": 2,
    "rollouts": 4,
    "max_pivots": 2,
    "max_model_len": 1024,
    "max_trunk_tokens": 160,
    "max_cont_tokens": 120,
}


def main() -> None:
    """Measure, print, and keep where asked."""
    engine = sys.argv[1]
    spec = resolve(from_fields(FIELDS | {"engine": engine}))
    backend = load(spec, lambda _stage, _share: None)
    seconds: dict[int, list[float]] = {group: [] for group in GROUPS}
    before = os.getloadavg()[0]
    try:
        conduct(msgspec.structs.replace(spec, problems=2), backend)  # warm
        attempts = itertools.count(1)
        for _ in range(ROUNDS):
            for group in GROUPS:
                assert backend.reset_prefix_cache()
                done = conduct(msgspec.structs.replace(spec, group=group), backend, next(attempts))
                cache = done.state.cache_tally()
                assert cache.verified == cache.checked > 0
                seconds[group].append(round(done.seconds, 2))
    finally:
        backend.close()
    medians = {group: statistics.median(times) for group, times in seconds.items()}
    faster = {group: round(medians[1] / median, 2) for group, median in medians.items()}
    print(f"{engine}: seconds {seconds}; times faster than groups of 1: {faster}")
    if "--write" in sys.argv:
        result = {
            "engine": engine,
            "numerics": dict(backend.info.numerics),
            "fields": FIELDS,
            "seconds": seconds,
            "times_faster_than_groups_of_1": faster,
            "load_average": [before, os.getloadavg()[0]],
        }
        path = Path(__file__).parent / "results" / f"groups_{engine}_cpu.json"
        path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
