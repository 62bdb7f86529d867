"""Inference that treats the problem, not the pivot, as the unit: pivots of one problem share a prompt and trunks.

Two estimands, each with its own error, never mixed: the pooled ratio sum d_g / sum n_g, and the mean over problems of
d_g / n_g.

The pooled ratio has the bias-reduced cluster variance CR2 (Bell and McCaffrey 2002; Pustejovsky and Tipton 2018, R's
clubSandwich) and its Satterthwaite degrees of freedom. For an intercept-only model both have the closed form used here:
with N = sum n_g, s_g = d_g - n_g theta and a_g^2 = 1 / (1 - n_g / N),

    SE^2 = sum a_g^2 s_g^2 / N^2,    df = N^2 / (sum n_g^2 + sum_{g != h} n_g^2 n_h^2 a_g^2 a_h^2 / N^2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from stats.distributions import t_quantile, two_sided_p

if TYPE_CHECKING:
    from numpy.typing import NDArray

Interval = tuple[float, float]

NOTHING_ELIGIBLE: Final = "no eligible pivots"
ONE_PROBLEM: Final = "needs at least 2 informative problems"


@dataclass(frozen=True, slots=True)
class Pooled:
    """A pooled ratio over problems with its CR2 error; None with `why` where a number does not exist.

    Attributes:
        value: sum d_g / sum n_g.
        se, t, df, p: CR2 standard error, value / se, Satterthwaite degrees of freedom, two-sided p against zero.
        ci95: value -+ t quantile * se.
        cr1_se: the usual cluster error sqrt(G/(G-1) sum s_g^2) / N, for comparison.
        clusters: informative problems G.
        why: the reason for every None.
    """

    value: float | None = None
    se: float | None = None
    t: float | None = None
    df: float | None = None
    p: float | None = None
    ci95: Interval | None = None
    cr1_se: float | None = None
    clusters: int = 0
    why: str | None = None


@dataclass(frozen=True, slots=True)
class ProblemMean:
    """The mean over n informative problems of x_i = d_i / n_i, its plain t, and the sign split.

    Attributes:
        n, mean, sd, t, df, p: the one-sample t test over problems (two-sided p).
        refeed_worse, floor_worse, equal: problems with d_i above, below and equal to zero.
        why: the reason for every None.
    """

    n: int
    mean: float | None
    sd: float | None
    t: float | None
    df: int | None
    p: float | None
    refeed_worse: int
    floor_worse: int
    equal: int
    why: str | None = None


def informative(d: NDArray[np.int64], n: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Drop the problems without eligible pivots, keeping the order."""
    kept = n > 0
    return d[kept], n[kept]


def all_ratios_equal(d: NDArray[np.int64], n: NDArray[np.int64]) -> bool:
    """Whether d_g / n_g is one number for all g, decided on integers (np.std of equal floats is not 0)."""
    return bool(np.all(d * n[0] == d[0] * n))


def pooled(d: NDArray[np.int64], n: NDArray[np.int64], *, scale: int = 1) -> Pooled:
    """Pooled ratio sum d_g / (scale sum n_g) with CR2 error and degrees of freedom.

    Args:
        d: int64 [G], numerators by problem.
        n: int64 [G], pivots by problem; zeros are skipped.
        scale: common denominator of `d`, for estimates in units of 1/K.
    """
    d, n = informative(d, n)
    groups = len(n)
    if groups == 0:
        return Pooled(why=NOTHING_ELIGIBLE)
    total, weight = int(d.sum()), int(n.sum())
    value = total / (scale * weight)
    if groups == 1:
        return Pooled(value=value, clusters=1, why=ONE_PROBLEM)
    df = satterthwaite_df(n)
    if all_ratios_equal(d, n):
        return Pooled(value=value, df=df, clusters=groups, why=f"undefined: all {groups} problems have the same ratio")
    score = (d * weight - n * total) / (weight * scale)
    se = math.sqrt(float(np.sum(score**2 / (1.0 - n / weight)))) / weight
    cr1 = math.sqrt(groups / (groups - 1) * float(np.sum(score**2))) / weight
    half = t_quantile(df, 0.975) * se
    t = value / se
    return Pooled(value, se, t, df, two_sided_p(df, t), (value - half, value + half), cr1, groups)


def satterthwaite_df(n: NDArray[np.int64]) -> float:
    """CR2 degrees of freedom of a pooled mean with cluster sizes `n` (at least 2 of them, all positive)."""
    weight = float(n.sum())
    adjusted = n.astype(np.float64) ** 2 / (1.0 - n / weight)
    cross = float(adjusted.sum()) ** 2 - float(np.sum(adjusted**2))
    return weight**2 / (float(np.sum(n.astype(np.float64) ** 2)) + cross / weight**2)


def problem_mean(d: NDArray[np.int64], n: NDArray[np.int64]) -> ProblemMean:
    """Mean of d_i / n_i over informative problems, with the t test valid once, at a planned end.

    Args:
        d: int64 [G], re-feed minus floor disagreements by problem.
        n: int64 [G], eligible pivots by problem; zeros are skipped.
    """
    d, n = informative(d, n)
    count = len(n)
    signs = (int(np.sum(d > 0)), int(np.sum(d < 0)), int(np.sum(d == 0)))
    if count == 0:
        return ProblemMean(0, None, None, None, None, None, *signs, why=NOTHING_ELIGIBLE)
    x = d / n
    mean = float(x.mean())
    if count == 1:
        return ProblemMean(1, mean, None, None, None, None, *signs, why=ONE_PROBLEM)
    if all_ratios_equal(d, n):
        value = int(d[0]) / int(n[0])
        why = f"undefined: all {count} equal"
        return ProblemMean(count, value, 0.0, None, count - 1, None, *signs, why=why)
    sd = float(x.std(ddof=1))
    t = mean / (sd / math.sqrt(count))
    return ProblemMean(count, mean, sd, t, count - 1, two_sided_p(count - 1, t), *signs)
