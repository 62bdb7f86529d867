"""A clustered test that two pooled ratios are equal, where one problem may contribute to both.

It is the CR2 contrast of two dummy means. The dummies are orthogonal, so each cluster's adjustment is diagonal, and the
closed form of the pooled ratio holds side by side: with n_gb pivots of problem g on side b of N_b,
a_gb^2 = 1 / (1 - n_gb / N_b), and the Satterthwaite degrees of freedom come from the G x G matrix
P_gh = [g = h] sum_b n_gb a_gb^2 / N_b^2 - sum_b n_gb n_hb a_gb a_hb / N_b^3 as trace(P)^2 / sum P_gh^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stats.special import t_quantile, two_sided_p

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stats.clustered import Interval


@dataclass(frozen=True, slots=True)
class Contrast:
    """Pooled ratio of the second column minus that of the first, with CR2 error; None with `why` where undefined."""

    difference: float | None = None
    se: float | None = None
    t: float | None = None
    df: float | None = None
    p: float | None = None
    ci95: Interval | None = None
    why: str | None = None


def contrast(d: NDArray[np.int64], n: NDArray[np.int64]) -> Contrast:
    """CR2 test of sum d_g1 / sum n_g1 = sum d_g0 / sum n_g0.

    Args:
        d: int64 [G, 2], sums by problem and side.
        n: int64 [G, 2], pivots by problem and side.
    """
    kept = n.sum(axis=1) > 0
    d, n = d[kept], n[kept]
    weight = n.sum(axis=0)
    if np.any(weight == 0):
        return Contrast(why="undefined: one of the two sides has no eligible pivots")
    if np.any(n == weight):
        return Contrast(why="undefined: one problem holds a whole side")
    rate = d.sum(axis=0) / weight
    difference = float(rate[1] - rate[0])
    if not np.any(d * weight - n * d.sum(axis=0)):
        return Contrast(difference, why="undefined: no variation between problems")
    adjust = 1.0 / np.sqrt(1.0 - n / weight)
    score = (d - n * rate) * adjust / weight
    se = math.sqrt(float(np.sum((score[:, 1] - score[:, 0]) ** 2)))
    if se == 0:
        return Contrast(difference, why="undefined: both sides vary alike in every problem")
    df = _contrast_df(n, weight, adjust)
    t = difference / se
    half = t_quantile(df, 0.975) * se
    return Contrast(difference, se, t, df, two_sided_p(df, t), (difference - half, difference + half))


def _contrast_df(n: NDArray[np.int64], weight: NDArray[np.int64], adjust: NDArray[np.float64]) -> float:
    """Satterthwaite degrees of freedom; the G x G matrix is never formed."""
    own = np.sum(n * adjust**2 / weight**2, axis=1)
    column = n * adjust / weight**1.5
    diagonal = own - np.sum(column**2, axis=1)
    gram = column.T @ column
    off_diagonal = float(np.sum(gram**2)) - float(np.sum(np.sum(column**2, axis=1) ** 2))
    return float(diagonal.sum()) ** 2 / (float(np.sum(diagonal**2)) + off_diagonal)
