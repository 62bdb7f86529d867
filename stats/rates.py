"""Intervals for rates of clustered pivots, and what can be said when nothing was seen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stats.clustered import Interval, pooled
from stats.distributions import t_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class RateInterval:
    """Wilson interval of a rate on its effective number of pivots.

    Attributes:
        rate: events / n; None where n = 0.
        ci95: None where the clustered error is undefined, with `why`.
        n_effective: n / design effect.
    """

    rate: float | None
    ci95: Interval | None
    n_effective: float | None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class NothingSeen:
    """One-sided upper bounds on a rate of which no event was seen; "zero" is not a bound.

    Attributes:
        n, clusters: pivots and informative problems without any event.
        level: confidence of both bounds.
        independent: 1 - alpha^(1/n), valid only if pivots were independent.
        over_problems: 1 - alpha^(1/clusters), for the share of problems with any event; no independence of pivots.
    """

    n: int
    clusters: int
    level: float
    independent: float
    over_problems: float


def wilson(n_effective: float, rate: float, z: float) -> Interval:
    """Wilson score interval (Wilson 1927) for a rate on `n_effective` observations."""
    centre = rate + z * z / (2 * n_effective)
    half = z * math.sqrt(rate * (1 - rate) / n_effective + z * z / (4 * n_effective**2))
    scale = 1 + z * z / n_effective
    return (centre - half) / scale, (centre + half) / scale


def clustered_rate(events: NDArray[np.int64], n: NDArray[np.int64]) -> RateInterval:
    """Wilson interval with n_eff = N / deff, deff = CR2^2 / (p (1-p) / N), and t_df in place of z.

    Args:
        events: int64 [G], pivots with the event, by problem.
        n: int64 [G], eligible pivots by problem.
    """
    estimate = pooled(events, n)
    rate = estimate.value
    if rate is None or estimate.se is None or estimate.df is None:
        return RateInterval(rate, None, None, estimate.why)
    n_effective = rate * (1 - rate) / estimate.se**2
    return RateInterval(rate, wilson(n_effective, rate, t_quantile(estimate.df, 0.975)), n_effective)


def nothing_seen(n: int, clusters: int, alpha: float = 0.05) -> NothingSeen | None:
    """Upper bounds at level 1 - alpha after no event in `n` pivots of `clusters` problems; None without pivots."""
    if n == 0 or clusters == 0:
        return None
    return NothingSeen(n, clusters, 1 - alpha, 1 - alpha ** (1 / n), 1 - alpha ** (1 / clusters))
