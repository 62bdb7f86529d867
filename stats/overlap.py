"""Intervals over problems for the two Jaccards of a selection and for their difference, all ratios of sums."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stats.clustered import ONE_PROBLEM, Interval
from stats.distributions import t_quantile
from stats.rates import RateInterval, clustered_rate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stats.selection import OverlapCounts


@dataclass(frozen=True, slots=True)
class JaccardIntervals:
    """Both Jaccards with their CR2 intervals, and re-feed minus replica.

    Attributes:
        refeed, replica: Wilson intervals on the effective number of pivots, as for rates.
        difference: Jaccard of re-feed minus that of the replica; below zero where re-feed selects worse.
        se: cluster-robust error of the linearised difference, problems as clusters, times sqrt(G / (G - 1)).
        ci95: difference -+ t quantile with G - 1 degrees of freedom * se, clipped to [-1, 1].
        why: the reason for None in the difference.
    """

    refeed: RateInterval
    replica: RateInterval
    difference: float | None
    se: float | None
    ci95: Interval | None
    why: str | None = None


def jaccard_intervals(refeed: OverlapCounts, replica: OverlapCounts) -> JaccardIntervals:
    """Intervals from the overlaps of the same G problems under re-feed and under the replica."""
    rates = clustered_rate(refeed.both, refeed.either), clustered_rate(replica.both, replica.either)
    first, second = (rate.rate for rate in rates)
    if first is None or second is None:
        return JaccardIntervals(*rates, None, None, None, "an empty union has no Jaccard")
    difference = first - second
    groups = int(np.count_nonzero((refeed.either > 0) | (replica.either > 0)))
    if groups == 1:
        return JaccardIntervals(*rates, difference, None, None, ONE_PROBLEM)
    score = _score(refeed, first) - _score(replica, second)
    se = math.sqrt(groups / (groups - 1) * float(np.sum(score**2)))
    if math.isclose(se, 0.0, abs_tol=1e-12):
        return JaccardIntervals(*rates, difference, None, None, "undefined: no problem differs from the whole")
    half = t_quantile(groups - 1, 0.975) * se
    return JaccardIntervals(*rates, difference, se, (max(-1.0, difference - half), min(1.0, difference + half)))


def _score(overlap: OverlapCounts, jaccard: float) -> NDArray[np.float64]:
    """What each problem adds to the error of the ratio."""
    score: NDArray[np.float64] = (overlap.both - jaccard * overlap.either) / float(overlap.either.sum())
    return score
