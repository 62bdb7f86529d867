"""Size of the change in credit, and how far one problem carries the excess."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stats.clustered import informative
from stats.disagreement import eligible
from stats.table import EXACT1, EXACT2, REFEED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stats.clustered import Interval
    from stats.counts import Condition
    from stats.table import PivotTable


@dataclass(frozen=True, slots=True)
class CreditChange:
    """Mean |A - A_exact1| over the eligible pivots, in units of credit; None without eligible pivots.

    Attributes:
        refeed, floor: under re-feed and under the replica.
        ratio: re-feed over floor; None where the floor is zero.
    """

    refeed: float | None
    floor: float | None
    ratio: float | None


def credit_change(table: PivotTable, condition: Condition = "common") -> CreditChange:
    """How much the credit itself changes, where its sign may stay."""
    mask = eligible(table.net, condition)
    if not np.any(mask):
        return CreditChange(None, None, None)
    net, k = table.net[mask], table.k[mask]
    refeed, floor = (float(np.mean(np.abs(net[:, by] - net[:, EXACT1]) / k)) for by in (REFEED, EXACT2))
    return CreditChange(refeed, floor, refeed / floor if floor > 0 else None)


def leave_one_out(d: NDArray[np.int64], n: NDArray[np.int64]) -> Interval | None:
    """Smallest and largest pooled excess with one informative problem left out; None below two of them."""
    d, n = informative(d, n)
    if len(n) <= 1:
        return None
    left = (d.sum() - d) / (n.sum() - n)
    return float(left.min()), float(left.max())
