"""Numbers in words: one way to print a rate, a difference, a p value, an interval, a duration."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from stats.clustered import Interval

NONE: Final = "-"
SMALLEST_P: Final = 1e-300
PLAIN_E: Final = 1e6
SMALL_E: Final = 0.1


def percent(rate: float | None, digits: int = 1) -> str:
    """A fraction as "33.8%"."""
    return NONE if rate is None else f"{100 * rate:.{digits}f}%"


def points(difference: float | None) -> str:
    """A difference of fractions as "+18.7pp"."""
    return NONE if difference is None else f"{100 * difference:+.1f}pp"


def interval(bounds: Interval | None, *, scale: float = 100, digits: int = 1, signed: bool = False) -> str:
    """An interval as "[28.1, 40.0]", in percent unless scaled otherwise."""
    if bounds is None:
        return NONE
    sign = "+" if signed else ""
    low, high = (f"{scale * bound:{sign}.{digits}f}" for bound in bounds)
    return f"[{low}, {high}]"


def least(lower: float | None, alpha: float) -> str:
    """A one-sided lower bound of the mean of x, the excess of a problem, as a clause with its level."""
    if lower is None:
        return "no lower bound of the mean per-problem excess yet"
    return f"mean per-problem excess at least {points(lower)} (one-sided, alpha = {alpha:.6g})"


def number(value: float | None, digits: int = 2) -> str:
    """A plain number with a fixed number of digits."""
    return NONE if value is None else f"{value:.{digits}f}"


def p_value(p: float | None) -> str:
    """A p value to two significant digits: "p = 3.2e-05"; one that underflows is below a bound, never 0."""
    if p is None:
        return f"p {NONE}"
    return f"p < {SMALLEST_P:.0e}" if p < SMALLEST_P else f"p = {p:.2g}"


def e_value(e: float) -> str:
    """An e-value: "22,243.2", or "1.4e+09" where digits stop to matter; a small one is "0.0012"."""
    return f"{e:,.1f}" if SMALL_E <= e < PLAIN_E or e == 0 else f"{e:.2g}"


def nats(delta: float | None) -> str:
    """A logprob difference to three significant digits."""
    return NONE if delta is None else f"{delta:.3g}"


def ordinal(position: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th."""
    teens = position % 100 in {11, 12, 13}
    return f"{position}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(position % 10, 'th')}"


def clock(seconds: float) -> str:
    """Seconds as mm:ss, or h:mm:ss from an hour on."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours > 0 else f"{minutes:02d}:{rest:02d}"


def rough(seconds: float) -> str:
    """An estimated duration, no finer than it can be known: "under a minute", "about 12 min", "about 2.4 h"."""
    minute, hour = 60, 3600
    if seconds < minute:
        return "under a minute"
    return f"about {seconds / minute:.0f} min" if seconds < hour else f"about {seconds / hour:.1f} h"


def moment(wall: float) -> dt.datetime | None:
    """Seconds since the epoch in UTC; None for a time that no calendar has (files can say anything)."""
    try:
        return dt.datetime.fromtimestamp(wall, tz=dt.UTC)
    except (OverflowError, OSError, ValueError):
        return None
