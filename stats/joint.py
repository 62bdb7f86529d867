"""Joint distribution of the credit estimate under exact pass 1 and a compared pass (figure 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stats.disagreement import eligible
from stats.table import EXACT1

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stats.counts import Condition
    from stats.table import PivotTable


@dataclass(frozen=True, slots=True)
class Joint:
    """Counts of (exact-1, compared) estimates at one K.

    Attributes:
        k: continuations per arm; estimates are net / k.
        counts: int64 [2K+1, 2K+1]; row i is exact-1 net i - K, column j the compared pass's net j - K.
    """

    k: int
    counts: NDArray[np.int64]


def joint(table: PivotTable, compared: int, k: int, condition: Condition = "common") -> Joint:
    """Count the eligible pivots with `k` continuations per arm.

    Args:
        table: P pivots.
        compared: EXACT2 or REFEED.
        k: which K; pivots with another are left out, for their estimates lie on another grid.
        condition: which pivots count.
    """
    net = table.net[eligible(table.net, condition) & (table.k == k)]
    side = 2 * k + 1
    cell = (net[:, EXACT1] + k) * side + net[:, compared] + k
    return Joint(k, np.bincount(cell, minlength=side * side).reshape(side, side).astype(np.int64))
