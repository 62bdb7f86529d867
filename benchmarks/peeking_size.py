"""False alarms under peeking: how often each procedure ever rejects at alpha when there is no effect.

The null is made from the published runs: each informative problem keeps the size of its x_i = d_i / n_i and gets a
random sign, which is what exchangeable comparison passes would do. After every problem the procedure is looked at; a
run is a false alarm if any look rejects. Besides, the t is read once where a campaign with a stop rule ends: at the
crossing of its e-process, not before MIN_PROBLEMS, or at the last problem. Seeded; run from the repository root:

    python -m benchmarks.peeking_size --runs 5000 --out benchmarks/results/peeking_size.json
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stats.confidence import betting_path, plain_t_path, symmetry_path, t_path
from stats.disagreement import problem_counts
from stats.distributions import t_quantiles
from stats.rates import wilson
from tests.helpers.published import load, pooled_main

if TYPE_CHECKING:
    from numpy.typing import NDArray

MIN_PROBLEMS: Final = 5  # the default of a spec


def peeking_sizes(x: NDArray[np.float64], *, runs: int, seed: int, alpha: float = 0.05) -> dict[str, int]:
    """False alarms of each procedure in `runs` sign-flipped copies of x, float64 [n].

    The plain t is looked at from two problems on, where it first exists; as it is meant: once, at the end; and once at
    the end that a stop rule chose.
    """
    rng = np.random.default_rng(seed)
    flipped = x * (2.0 * rng.integers(0, 2, (runs, len(x))) - 1.0)
    need = -np.log(alpha)
    t = plain_t_path(flipped)
    df = np.maximum(np.arange(len(x)), 1)
    one_sided, two_sided = t > t_quantiles(df, 1 - alpha), np.abs(t) > t_quantiles(df, 1 - alpha / 2)
    symmetry, betting = symmetry_path(flipped) >= need, betting_path(flipped, alpha) >= need
    looks = {
        "symmetry": symmetry,
        "betting": betting,
        "t_e": t_path(flipped) >= need,
        "plain_t_one_sided": one_sided,
        "plain_t_two_sided": two_sided,
        "plain_t_one_sided_only_at_the_end": one_sided[:, -1:],
        "plain_t_two_sided_at_the_stop_by_symmetry": _at_stop(two_sided, symmetry),
        "plain_t_two_sided_at_the_stop_by_betting": _at_stop(two_sided, betting),
    }
    return {name: int(np.count_nonzero(rejected.any(axis=1))) for name, rejected in looks.items()}


def _at_stop(rejects: NDArray[np.bool_], reached: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """What a procedure says where the stop rule ends each run, bool [runs, 1]; a crossing stays a crossing."""
    crossed = np.logical_or.accumulate(reached, axis=1)
    crossed[:, : MIN_PROBLEMS - 1], crossed[:, -1] = False, True
    return np.take_along_axis(rejects, crossed.argmax(axis=1)[:, None], axis=1)


def published_x(name: str) -> NDArray[np.float64]:
    """x_i of the informative problems of "pooled", or of one published run, in order."""
    counts = problem_counts(pooled_main() if name == "pooled" else load(name))
    kept = counts.n > 0
    return np.asarray(counts.excess[kept] / counts.n[kept])


def measure(runs: int, seed: int, alpha: float) -> dict[str, Any]:
    """Sizes on the pooled run and on K = 8, with Wilson intervals and the conditions they were taken under."""
    started = time.perf_counter()
    sizes: dict[str, Any] = {}
    for name in ("pooled", "k8"):
        x = published_x(name)
        alarms = peeking_sizes(x, runs=runs, seed=seed, alpha=alpha)
        sizes[name] = {
            "problems": len(x),
            "procedures": {
                procedure: {"alarms": count, "size": count / runs, "ci95": list(wilson(runs, count / runs, 1.96))}
                for procedure, count in alarms.items()
            },
        }
    conditions = {
        "alpha": alpha,
        "runs": runs,
        "seed": seed,
        "null": "random signs on the published x_i, looked at after every problem",
        "min_problems": MIN_PROBLEMS,
        "numpy": version("numpy"),
        "scipy": version("scipy"),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "seconds": round(time.perf_counter() - started, 2),
    }
    return {"conditions": conditions, "sizes": sizes}


def main() -> None:
    """Print the table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alpha", type=float, default=0.05)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/peeking_size.json"))
    options = parser.parse_args()
    found = measure(options.runs, options.seed, options.alpha)
    for name, run in found["sizes"].items():
        print(f"{name} ({run['problems']} informative problems), nominal {options.alpha:.0%}")
        for procedure, size in run["procedures"].items():
            low, high = size["ci95"]
            print(f"  {procedure:<36} {size['size']:7.2%}  [{low:.2%}, {high:.2%}]")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
