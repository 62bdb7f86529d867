"""E-processes over whole arrays, and the lower bounds that come from them.

The bounds are one-sided at level 1 - alpha and valid at every look: the largest m at which the same process, run on
x - m, stands at 1/alpha now. Each process falls as m rises, so bisection finds it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from stats.distributions import t_cdfs
from stats.eprocess import LAMBDAS, MIXTURE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

Process = Literal["symmetry", "betting", "t_e"]

_LN2: Final = math.log(2.0)
_BISECTIONS: Final = 60


def symmetry_path(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithm of E after each of the problems on the last axis, float64 of x's shape."""
    rates = np.array(LAMBDAS).reshape((-1,) + (1,) * x.ndim)
    total = np.cumsum(_LN2 - np.logaddexp(0.0, -2.0 * rates * x), axis=-1)
    top = total.max(axis=0)
    return np.asarray(top + np.log(np.mean(np.exp(total - top), axis=0)))


def betting_path(x: NDArray[np.float64], alpha: float = 0.05, m: float = 0.0) -> NDArray[np.float64]:
    """Logarithm of the betting process against E[x] <= m after each of the problems on the last axis.

    Args:
        x: float64 [..., T], in [-1, 1].
        alpha: level that tunes the bets.
        m: null mean, in (-1, 1).
    """
    y, null = (x + 1.0) / 2.0, (m + 1.0) / 2.0
    t = np.arange(1, x.shape[-1] + 1, dtype=np.float64)
    mean = (0.5 + np.cumsum(y, axis=-1)) / (t + 1)
    variance = (0.25 + np.cumsum((y - mean) ** 2, axis=-1)) / (t + 1)
    before = np.concatenate([np.full((*x.shape[:-1], 1), 0.25), variance[..., :-1]], axis=-1)
    bet = np.minimum(np.sqrt(2.0 * -math.log(alpha) / (before * t * np.log1p(t))), 0.9 / null)
    return np.asarray(np.cumsum(np.log1p(bet * (y - null)), axis=-1))


def t_path(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithm of the one-sided t e-process after each of the problems on the last axis, float64 of x's shape."""
    n = np.arange(1, x.shape[-1] + 1, dtype=np.float64)
    total, square = np.cumsum(x, axis=-1), np.cumsum(x * x, axis=-1)
    started = square > 0
    whole = np.where(started, (n + MIXTURE) * square, 1.0)
    rest = np.where(started, whole - total**2, 1.0)
    two_sided = 0.5 * np.log(MIXTURE / (n + MIXTURE)) + n / 2 * np.log(whole / rest)
    below = t_cdfs(n, total * np.sqrt(n / rest))
    logs = two_sided + _LN2 + np.log(below, out=np.full_like(below, -np.inf), where=below > 0)
    return np.where(started, logs, 0.0)


def plain_t_path(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The plain t after each of the problems on the last axis; NaN below two problems or while all x are equal.

    Equality is decided by the range of the floats here, which serves simulations; `PlainT` decides it on integers.
    """
    n = np.arange(1, x.shape[-1] + 1, dtype=np.float64)
    mean = np.cumsum(x, axis=-1) / n
    deviation = np.maximum(np.cumsum(x * x, axis=-1) - n * mean**2, 0.0)
    differ = np.maximum.accumulate(x, axis=-1) > np.minimum.accumulate(x, axis=-1)
    usable = differ & (deviation > 0)
    variance = np.where(usable, deviation, 1.0) / np.maximum(n - 1, 1)
    return np.where(usable, mean * np.sqrt(n / variance), np.nan)


def lower_bound(x: NDArray[np.float64], process: Process, alpha: float = 0.05) -> float | None:
    """Largest m at which the process on x - m stands at 1/alpha or more; None where no m in (-1, 1) does.

    Args:
        x: float64 [T], informative problems in order.
        process: which one.
        alpha: one-sided level.
    """
    if len(x) == 0:
        return None
    processes: dict[Process, Callable[[float], float]] = {
        "symmetry": lambda m: float(symmetry_path(x - m)[-1]),
        "betting": lambda m: float(betting_path(x, alpha, m)[-1]),
        "t_e": lambda m: float(t_path(x - m)[-1]),
    }
    log_e, need = processes[process], -math.log(alpha)
    # never above the mean: there every process is at most about 1
    low, high = -1.0 + 1e-9, min(float(x.mean()), 1.0 - 1e-9)
    if low >= high or log_e(low) < need:
        return None
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if log_e(middle) >= need else (low, middle)
    return low


def betting_sequence(x: NDArray[np.float64], alpha: float = 0.05) -> tuple[float | None, float | None]:
    """Bounds of the mean that hold at every look, each one-sided at 1 - alpha: at least, and at most.

    The bounds of all looks so far are intersected: the largest m at which the betting process on x ever stood at
    1/alpha is the running maximum of the lower bounds, and the upper one is the same on -x. No shape is assumed.

    Args:
        x: float64 [T] in [-1, 1], informative problems in order.
        alpha: one-sided level of each bound.
    """
    below = _running_lower(-x, alpha)
    return _running_lower(x, alpha), None if below is None else -below


def _running_lower(x: NDArray[np.float64], alpha: float) -> float | None:
    """Largest m in (-1, 1) that the betting process has ruled out as a mean at some look; None where there is none."""
    need = -math.log(alpha)
    low, high = -1.0 + 1e-9, 1.0 - 1e-9
    if len(x) == 0 or float(betting_path(x, alpha, low).max()) < need:
        return None
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if float(betting_path(x, alpha, middle).max()) >= need else (low, middle)
    return low
