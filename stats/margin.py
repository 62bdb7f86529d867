"""Does the effect depend on the pivot's margin? Two buckets (section 5.1) and a clustered test of their difference.

The test is the CR2 contrast of two dummy means. The dummies are orthogonal, so each cluster's adjustment is diagonal,
and the closed form of the pooled ratio holds bucket by bucket: with n_gb pivots of problem g in bucket b of N_b,
a_gb^2 = 1 / (1 - n_gb / N_b), and the Satterthwaite degrees of freedom come from the G x G matrix
P_gh = [g = h] sum_b n_gb a_gb^2 / N_b^2 - sum_b n_gb n_hb a_gb a_hb / N_b^3 as trace(P)^2 / sum P_gh^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from stats.disagreement import FLOOR_CHANGE, REFEED_CHANGE, changes, eligible
from stats.special import two_sided_p

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stats.disagreement import Condition
    from stats.table import PivotTable

CUT: Final = 0.3
"""Nats between the two buckets of the paper."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Disagreement rates of the eligible pivots of one margin bucket; None where it is empty."""

    n: int
    refeed: float | None
    floor: float | None


@dataclass(frozen=True, slots=True)
class Contrast:
    """Rate from the cut upwards minus rate below it, with CR2 error; None with `why` where undefined."""

    difference: float | None = None
    se: float | None = None
    t: float | None = None
    df: float | None = None
    p: float | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Margin:
    """Both buckets, and tests that the re-feed rate and the excess are the same in both."""

    below: Bucket
    above: Bucket
    refeed_flat: Contrast
    excess_flat: Contrast


def margin(table: PivotTable, condition: Condition = "common", cut: float = CUT) -> Margin:
    """Split the eligible pivots at `cut` nats of margin; a pivot at the cut is in the upper bucket."""
    mask = eligible(table.net, condition)
    found = changes(table.net[mask]).disagree.astype(np.int64)
    upper = table.margin[mask] >= cut
    group, problems = table.group[mask], len(table.problems)

    def by_bucket(values: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.stack(
            [_sums(values[side], group[side], problems) for side in (~upper, upper)],
            axis=1,
        )

    n = by_bucket(np.ones(len(group), dtype=np.int64))
    refeed, floor = by_bucket(found[:, REFEED_CHANGE]), by_bucket(found[:, FLOOR_CHANGE])
    below, above = (_bucket(n[:, at], refeed[:, at], floor[:, at]) for at in (0, 1))
    return Margin(below, above, contrast(refeed, n), contrast(refeed - floor, n))


def contrast(d: NDArray[np.int64], n: NDArray[np.int64]) -> Contrast:
    """CR2 test of sum d_g1 / sum n_g1 = sum d_g0 / sum n_g0.

    Args:
        d: int64 [G, 2], sums by problem and bucket.
        n: int64 [G, 2], pivots by problem and bucket.
    """
    kept = n.sum(axis=1) > 0
    d, n = d[kept], n[kept]
    weight = n.sum(axis=0)
    if np.any(weight == 0):
        return Contrast(why="undefined: one of the buckets is empty")
    if np.any(n == weight):
        return Contrast(why="undefined: one problem holds a whole bucket")
    rate = d.sum(axis=0) / weight
    difference = float(rate[1] - rate[0])
    if not np.any(d * weight - n * d.sum(axis=0)):
        return Contrast(difference, why="undefined: no variation between problems")
    adjust = 1.0 / np.sqrt(1.0 - n / weight)
    score = (d - n * rate) * adjust / weight
    se = math.sqrt(float(np.sum((score[:, 1] - score[:, 0]) ** 2)))
    if se == 0:
        return Contrast(difference, why="undefined: both buckets vary alike in every problem")
    df = _contrast_df(n, weight, adjust)
    t = difference / se
    return Contrast(difference, se, t, df, two_sided_p(df, t))


def _contrast_df(n: NDArray[np.int64], weight: NDArray[np.int64], adjust: NDArray[np.float64]) -> float:
    """Satterthwaite degrees of freedom; the G x G matrix is never formed."""
    own = np.sum(n * adjust**2 / weight**2, axis=1)
    column = n * adjust / weight**1.5
    diagonal = own - np.sum(column**2, axis=1)
    gram = column.T @ column
    off_diagonal = float(np.sum(gram**2)) - float(np.sum(np.sum(column**2, axis=1) ** 2))
    return float(diagonal.sum()) ** 2 / (float(np.sum(diagonal**2)) + off_diagonal)


def _sums(values: NDArray[np.int64], group: NDArray[np.int64], problems: int) -> NDArray[np.int64]:
    total = np.zeros(problems, dtype=np.int64)
    np.add.at(total, group, values)
    return total


def _bucket(n: NDArray[np.int64], refeed: NDArray[np.int64], floor: NDArray[np.int64]) -> Bucket:
    count = int(n.sum())
    if count == 0:
        return Bucket(0, None, None)
    return Bucket(count, int(refeed.sum()) / count, int(floor.sum()) / count)
