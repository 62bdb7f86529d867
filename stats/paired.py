"""Paired comparisons over pivots: McNemar's test both ways, and the bias of the re-feed estimate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from stats.clustered import Interval, Pooled, pooled
from stats.disagreement import FLOOR_CHANGE, REFEED_CHANGE, changes, eligible
from stats.table import EXACT1, REFEED

if TYPE_CHECKING:
    from stats.counts import Condition
    from stats.table import PivotTable

# the published interval of the bias uses 1.96, not 1.959964: its last digit depends on it
PUBLISHED_Z: Final = 1.96


@dataclass(frozen=True, slots=True)
class McNemar:
    """Discordant pivots b (only re-feed disagrees) and c (only the replica does).

    Attributes:
        z: (b - c) / sqrt(b + c), the published statistic; it takes pivots of one problem for independent, and under
            within-problem swaps exceeds 1.96 in 29-52% of the cases.
        z_clustered: sum (b_i - c_i) / sqrt(sum (b_i - c_i)^2) over problems.
        why: the reason for every None.
    """

    b: int
    c: int
    z: float | None
    z_clustered: float | None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Bias:
    """Mean of A_refeed - A_exact1 over the eligible pivots.

    Attributes:
        mean: in units of credit.
        t, ci95: the published ones, pivots taken as independent: mean / se and mean -+ 1.96 se.
        clustered: the CR2 version.
        why: the reason for every None.
    """

    mean: float | None
    t: float | None
    ci95: Interval | None
    clustered: Pooled
    why: str | None = None


def mcnemar(table: PivotTable, condition: Condition = "common") -> McNemar:
    """Compare the two disagreements pivot by pivot (Table 1, column z, and its cluster form)."""
    mask = eligible(table.net, condition)
    found = changes(table.net[mask]).disagree.astype(np.int64)
    step = found[:, REFEED_CHANGE] - found[:, FLOOR_CHANGE]
    b, c = int(np.sum(step == 1)), int(np.sum(step == -1))
    if b + c == 0:
        return McNemar(b, c, None, None, "undefined: no pivot disagrees under one comparison only")
    by_problem = np.bincount(table.group[mask], weights=step, minlength=len(table.problems))
    square = float(np.sum(by_problem**2))
    z = (b - c) / math.sqrt(b + c)
    if square == 0:
        return McNemar(b, c, z, None, "clustered z undefined: b = c in every problem")
    return McNemar(b, c, z, (b - c) / math.sqrt(square))


def bias(table: PivotTable, condition: Condition = "common") -> Bias:
    """Bias of the re-feed estimate (section 5.1), integers over a common multiple of the K in the table."""
    mask = eligible(table.net, condition)
    net, k = table.net[mask], table.k[mask]
    count = len(net)
    common = math.lcm(*(int(value) for value in np.unique(k)))
    step = (net[:, REFEED] - net[:, EXACT1]) * (common // k)
    group, problems = table.group[mask], len(table.problems)
    total = np.zeros(problems, dtype=np.int64)
    np.add.at(total, group, step)
    clustered = pooled(total, np.bincount(group, minlength=problems), scale=common)
    if count == 0:
        return Bias(None, None, None, clustered, clustered.why)
    mean = int(step.sum()) / (common * count)
    if bool(np.all(step == step[0])):
        return Bias(mean, None, None, clustered, f"undefined: all {count} differences are equal")
    se = float(np.std(step, ddof=1)) / (common * math.sqrt(count))
    half = PUBLISHED_Z * se
    return Bias(mean, mean / se, (mean - half, mean + half), clustered)
