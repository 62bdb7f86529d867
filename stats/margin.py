"""Does the effect depend on the pivot's margin? Two buckets (section 5.1) and a clustered test of their difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from stats.contrast import Contrast, contrast
from stats.disagreement import FLOOR_CHANGE, REFEED_CHANGE, changes, eligible

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stats.counts import Condition
    from stats.table import PivotTable

__all__ = ["CUT", "Bucket", "Contrast", "Margin", "margin"]

CUT: Final = 0.3
"""Nats between the two buckets of the paper."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Disagreement rates of the eligible pivots of one margin bucket; None where it is empty."""

    n: int
    refeed: float | None
    floor: float | None


@dataclass(frozen=True, slots=True)
class Margin:
    """Both buckets, and tests that the re-feed rate and the excess are the same in both."""

    below: Bucket
    above: Bucket
    refeed_flat: Contrast
    excess_flat: Contrast


def margin(table: PivotTable, condition: Condition = "common", cut: float = CUT) -> Margin:
    """Split the eligible pivots at `cut` nats of margin; at the cut is upper, without a margin neither."""
    mask = eligible(table.net, condition) & ~np.isnan(table.margin)
    found = changes(table.net[mask]).disagree.astype(np.int64)
    upper = table.margin[mask] >= cut
    group, problems = table.group[mask], len(table.problems)

    def by_bucket(values: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.stack(
            [_sums(values[side], group[side], problems) for side in (~upper, upper)],
            axis=1,
        )

    n = by_bucket(np.ones(len(group), dtype=np.int64))
    refeed, floor = by_bucket(found[:, REFEED_CHANGE]), by_bucket(found[:, FLOOR_CHANGE])
    below, above = (_bucket(n[:, at], refeed[:, at], floor[:, at]) for at in (0, 1))
    return Margin(below, above, contrast(refeed, n), contrast(refeed - floor, n))


def _sums(values: NDArray[np.int64], group: NDArray[np.int64], problems: int) -> NDArray[np.int64]:
    total = np.zeros(problems, dtype=np.int64)
    np.add.at(total, group, values)
    return total


def _bucket(n: NDArray[np.int64], refeed: NDArray[np.int64], floor: NDArray[np.int64]) -> Bucket:
    count = int(n.sum())
    if count == 0:
        return Bucket(0, None, None)
    return Bucket(count, int(refeed.sum()) / count, int(floor.sum()) / count)
