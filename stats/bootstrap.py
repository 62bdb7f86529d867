"""BCa bootstrap over problems (Efron 1987) for ratios of per-problem sums.

The resampled unit is the problem with all its pivots. All ratios share the same draws, so their intervals belong
together. A problem without eligible pivots is measured and is resampled like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from stats.clustered import ONE_PROBLEM, Interval, all_ratios_equal, informative
from stats.distributions import normal_cdf, normal_quantile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

DRAWS: Final = 20_000
LEVELS: Final = (0.025, 0.975)

# cells of one chunk of draws x problems: 32 MB of indices, whatever the number of problems
_CELLS: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """A BCa interval, or the reason that there is none."""

    ci95: Interval | None
    why: str | None = None


def bootstrap_ratios(
    ratios: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]], *, draws: int = DRAWS, seed: int = 0
) -> list[Bootstrap]:
    """BCa 95% intervals of sum(top) / sum(low) for several (top, low) pairs on common draws.

    Args:
        ratios: pairs of int64 [G] arrays over the same G problems.
        draws: bootstrap samples of G problems.
        seed: of numpy's default generator.

    Raises:
        ValueError: draws is not positive.
    """
    if draws < 1:
        message = f"draws must be positive, not {draws}"
        raise ValueError(message)
    if not ratios:
        return []
    tops, lows = (np.stack([pair[side] for pair in ratios], axis=1).astype(np.float64) for side in (0, 1))
    sums = [(weights @ tops, weights @ lows) for weights in _weights(len(tops), draws, seed)]
    resampled = [_ratio(*(np.concatenate([chunk[side][:, at] for chunk in sums]) for side in (0, 1)))
                 for at in range(len(ratios))]  # fmt: skip
    return [_bca(top, low, values) for (top, low), values in zip(ratios, resampled, strict=True)]


def _weights(problems: int, draws: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """How often each problem is in each draw, float64 [chunk, G], chunk by chunk."""
    rng = np.random.default_rng(seed)
    size = max(1, _CELLS // max(1, problems))
    for start in range(0, draws, size):
        rows = min(size, draws - start)
        cells = rng.integers(0, problems, (rows, problems)) if problems > 0 else np.zeros((rows, 0), dtype=np.int64)
        cells += np.arange(rows)[:, None] * problems
        yield np.bincount(cells.ravel(), minlength=rows * problems).reshape(rows, problems).astype(np.float64)


def _ratio(top: NDArray[np.float64], low: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ratios of the draws whose denominator is not empty."""
    kept = low > 0
    return top[kept] / low[kept]


def _bca(top: NDArray[np.int64], low: NDArray[np.int64], resampled: NDArray[np.float64]) -> Bootstrap:
    """Bias-corrected and accelerated percentile interval of one ratio."""
    used_top, used_low = informative(top, low)
    groups = len(used_low)
    if groups == 0:
        return Bootstrap(None, "nothing to divide by")
    if groups == 1:
        return Bootstrap(None, ONE_PROBLEM)
    if all_ratios_equal(used_top, used_low):
        return Bootstrap(None, f"undefined: all {groups} problems have the same ratio")
    estimate = used_top.sum() / used_low.sum()
    # ties count half: the ratios of few problems are lumpy
    below = (np.mean(resampled < estimate) + np.mean(resampled <= estimate)) / 2
    if not 0 < below < 1:
        return Bootstrap(None, "every draw lies on one side of the estimate")
    shift = normal_quantile(below)
    shifted = shift + normal_quantile(np.array(LEVELS))
    levels = normal_cdf(shift + shifted / (1 - _acceleration(used_top, used_low) * shifted))
    low_end, high_end = np.quantile(resampled, levels)
    return Bootstrap((float(low_end), float(high_end)))


def _acceleration(top: NDArray[np.int64], low: NDArray[np.int64]) -> float:
    """Skewness of the leave-one-problem-out estimates, over six."""
    left = _ratio((top.sum() - top).astype(np.float64), (low.sum() - low).astype(np.float64))
    spread = left.mean() - left
    return float(np.sum(spread**3) / (6 * np.sum(spread**2) ** 1.5))
