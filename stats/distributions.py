"""Distribution functions from scipy.special, loaded when first needed.

scipy.stats would cost most of a second at import, and scipy.special costs about as much as numpy: the first is never
imported, the second only when a number asks for it.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any


@cache
def _special() -> Any:
    from scipy import special  # noqa: PLC0415  (a command that prints no statistic must not pay for scipy)

    return special


def t_cdf(df: float, t: float) -> float:
    """Student's cumulative distribution with `df` degrees of freedom."""
    return float(_special().stdtr(df, t))


def t_quantile(df: float, level: float) -> float:
    """The `level` quantile of Student's distribution with `df` degrees of freedom."""
    return float(_special().stdtrit(df, level))


def two_sided_p(df: float, t: float) -> float:
    """Two-sided p value of `t` with `df` degrees of freedom."""
    return 2.0 * t_cdf(df, -abs(t))


def normal_cdf(z: Any) -> Any:
    """Standard normal distribution function, elementwise."""
    return _special().ndtr(z)


def normal_quantile(level: Any) -> Any:
    """Standard normal quantile, elementwise."""
    return _special().ndtri(level)


def log_beta(a: float, b: float) -> float:
    """Logarithm of the beta function."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta function I_x(a, b)."""
    return float(_special().betainc(a, b, x))


def t_cdfs(df: Any, t: Any) -> Any:
    """Student's cumulative distribution, elementwise over arrays."""
    return _special().stdtr(df, t)


def t_quantiles(df: Any, level: float) -> Any:
    """The `level` quantiles of Student's distribution for an array of degrees of freedom."""
    return _special().stdtrit(df, level)
