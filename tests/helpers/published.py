"""Load the published per-pivot records as a PivotTable; floats become integers over K exactly."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from stats.pool import pool
from stats.table import UNKNOWN, PivotTable
from tests.helpers.shared import shared_path

if TYPE_CHECKING:
    from pathlib import Path


def published_folder() -> Path:
    """The published records, or a skip that says where they were expected."""
    return shared_path("data", "published")


@cache
def load(name: str) -> PivotTable:
    """One published run as a table."""
    document = json.loads((published_folder() / f"{name}.json").read_text())
    return table_of(document)


def pooled_main() -> PivotTable:
    """The main pooled configuration: primary, then screened."""
    return pool([load("primary"), load("screened")]).table


def table_of(document: dict[str, Any]) -> PivotTable:
    """Arrays of one published document, problems in its own order."""
    k = int(document["config"]["k"])
    problems = [int(entry["problem_id"]) for entry in document["per_problem"]]
    row = {problem: index for index, problem in enumerate(problems)}
    pivots = sorted(document["pivots"], key=lambda pivot: row[pivot["problem_id"]])
    return PivotTable(
        problems=np.array(problems, dtype=np.int64),
        group=np.array([row[pivot["problem_id"]] for pivot in pivots], dtype=np.int64),
        rollout=np.array([pivot["rollout"] for pivot in pivots], dtype=np.int64),
        position=np.array([pivot["abs_pos"] for pivot in pivots], dtype=np.int64),
        k=np.full(len(pivots), k, dtype=np.int64),
        net=np.array([[over_k(pivot[f"A_{arm}"], k) for arm in ARMS] for pivot in pivots], dtype=np.int64).reshape(
            -1, 3
        ),
        margin=np.array([pivot["margin"] for pivot in pivots], dtype=np.float64),
        hit_tokens=np.full(len(pivots), UNKNOWN, dtype=np.int64),
        decode_tokens=np.full(len(pivots), UNKNOWN, dtype=np.int64),
        probe_delta=np.array([probe_deltas(pivot) for pivot in pivots], dtype=np.float64).reshape(-1, 2),
        probe_arm_delta=np.array([arm_deltas(pivot) for pivot in pivots], dtype=np.float64).reshape(-1, 2, 2),
        probe_diverged=np.array([divergences(pivot) for pivot in pivots], dtype=np.int8).reshape(-1, 2),
    )


ARMS = ("exact1", "exact2", "refeed")
COMPARISONS = ("exact2", "refeed")


def over_k(value: float, k: int) -> int:
    """The integer that the float stands for; anything else is an error."""
    net = round(value * k)
    if net / k != value or abs(net) > k:
        message = f"{value!r} is no multiple of 1/{k}"
        raise ValueError(message)
    return net


def probe_deltas(pivot: dict[str, Any]) -> list[float]:
    """Largest first-token logprob difference of the replica and of re-feed."""
    return [pivot.get(f"greedy_first_logprob_delta_{name}", np.nan) for name in COMPARISONS]


def arm_deltas(pivot: dict[str, Any]) -> list[list[float]]:
    """The same by arm, from the first tokens' logprobs."""
    if any(f"greedy_first_{name}" not in pivot for name in ARMS):
        return [[np.nan, np.nan], [np.nan, np.nan]]
    reference = pivot["greedy_first_exact1"]
    compared = [pivot[f"greedy_first_{name}"] for name in COMPARISONS]
    return [[abs(first[arm][1] - reference[arm][1]) for arm in ("actual", "alt")] for first in compared]


def divergences(pivot: dict[str, Any]) -> list[int]:
    """1 where a greedy probe diverged from exact pass 1, UNKNOWN where it is not recorded."""
    found = [pivot.get(f"greedy_divergence_{name}") for name in COMPARISONS]
    return [UNKNOWN if value is None else int(value) for value in found]
