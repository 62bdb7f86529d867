"""The sequential clustered t on the published x: where it stops, its size under the swap null, the cost of a look.

Size: x is resampled with replacement from a published run and each value gets a random sign; a campaign is a false
alarm if any look crosses. Seeded; run from the repository root:

    python -m benchmarks.peeking_group_sequential --runs 300 --out benchmarks/results/peeking_group_sequential.json
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.peeking_size import published_x
from stats.groupseq import SequentialT

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALPHA = 0.05


def crossing(x: NDArray[np.float64], seed: int) -> int | None:
    """Return the problem at which a campaign registered for len(x) problems crosses, or None."""
    test = SequentialT(len(x), ALPHA, seed)
    for value in x:
        test.close(float(value))
    return test.crossed_at


def size(x: NDArray[np.float64], problems: int, runs: int) -> dict[str, float]:
    """Return the share of null campaigns that cross and its standard error."""
    rng = np.random.default_rng(problems)
    alarms = 0
    for run in range(runs):
        null = rng.choice(x, problems) * (2.0 * rng.integers(0, 2, problems) - 1.0)
        alarms += crossing(null, run) is not None
    share = alarms / runs
    return {"alarms": alarms, "size": share, "standard_error": float(np.sqrt(share * (1 - share) / runs))}


def look_milliseconds(problems: int) -> float:
    """Return the median time of the last 50 looks of a long campaign of random x."""
    test = SequentialT(problems, ALPHA, 0)
    times = []
    for value in np.random.default_rng(0).normal(0, 0.2, problems):
        start = time.perf_counter()
        test.close(float(value))
        times.append(1000 * (time.perf_counter() - start))
    return float(np.median(times[-50:]))


def main() -> None:
    """Write the results as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    names = ("pooled", "primary", "screened", "k8", "batchinv", "smoke")
    published = {name: published_x(name) for name in names}
    found: dict[str, Any] = {
        "conditions": {"alpha": ALPHA, "runs": arguments.runs, "trajectories": 20_000},
        "stops": {name: {"registered": len(x), "crossed_at": crossing(x, 0)} for name, x in published.items()},
        "look_ms_at_2000": look_milliseconds(2000),
        "sizes_pooled": {str(n): size(published["pooled"], n, arguments.runs) for n in (5, 10, 20, 40)},
    }
    arguments.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
