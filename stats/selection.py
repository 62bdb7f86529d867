"""Critical-token selection: which pivots have |A| at or above a threshold, and how well two selections overlap.

Section 5.2 of the paper. Thresholds are fractions and everything is compared on integers, |net| * den >= num * K:
(7/10) - (2/10) < 0.5 in floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from stats.table import EXACT1, EXACT2, REFEED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stats.table import PivotTable


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two selected sets: sizes of intersection and union.

    Attributes:
        both, either: pivots in both sets, in at least one.
        differ: pivots in exactly one, the selection disagreements.
        within_quantum: of those, how many have an estimate within one grading quantum 1/K of the threshold.
    """

    both: int
    either: int
    within_quantum: int

    @property
    def differ(self) -> int:
        """Pivots that exactly one of the two passes selects."""
        return self.either - self.both

    @property
    def jaccard(self) -> float | None:
        """Intersection over union; None where both sets are empty."""
        return self.both / self.either if self.either > 0 else None

    @property
    def within_quantum_share(self) -> float | None:
        """Share of the selection disagreements within one quantum of the threshold; None without disagreements."""
        return self.within_quantum / self.differ if self.differ > 0 else None


@dataclass(frozen=True, slots=True)
class Selection:
    """Selection at one threshold: exact pass 1 against re-feed and, as the ceiling, against its replica."""

    threshold: Fraction
    selected_exact1: int
    refeed: Overlap
    replica: Overlap


@dataclass(frozen=True, slots=True)
class OverlapCounts:
    """Overlap by problem, int64 [G] each, for resampling problems."""

    both: NDArray[np.int64]
    either: NDArray[np.int64]


def as_threshold(value: str | Fraction) -> Fraction:
    """An exact threshold in (0, 1] from "0.5", "1/3" or a Fraction.

    Raises:
        ValueError: the text is no number, or the number is outside (0, 1].
    """
    threshold = Fraction(value)
    if not 0 < threshold <= 1:
        message = f"a selection threshold lies in (0, 1], not {value}"
        raise ValueError(message)
    return threshold


def critical(net: NDArray[np.int64], k: NDArray[np.int64], threshold: Fraction) -> NDArray[np.bool_]:
    """Mask, bool [P, 3], of the pivots that each pass selects: |net| / K >= threshold."""
    return np.abs(net) * threshold.denominator >= threshold.numerator * k[:, None]


def selection(table: PivotTable, threshold: str | Fraction = "0.5") -> Selection:
    """Selected sets over all pivots, and their overlaps."""
    cut = as_threshold(threshold)
    chosen = critical(table.net, table.k, cut)
    near = np.abs(np.abs(table.net) * cut.denominator - cut.numerator * table.k[:, None]) <= cut.denominator
    return Selection(
        threshold=cut,
        selected_exact1=int(chosen[:, EXACT1].sum()),
        refeed=_overlap(chosen, near, REFEED),
        replica=_overlap(chosen, near, EXACT2),
    )


def overlap_counts(table: PivotTable, threshold: str | Fraction, compared: int) -> OverlapCounts:
    """Intersection and union of exact pass 1's selection and `compared`'s (EXACT2 or REFEED), by problem."""
    chosen = critical(table.net, table.k, as_threshold(threshold))
    both = chosen[:, EXACT1] & chosen[:, compared]
    either = chosen[:, EXACT1] | chosen[:, compared]
    problems = len(table.problems)
    return OverlapCounts(
        both=np.bincount(table.group[both], minlength=problems).astype(np.int64),
        either=np.bincount(table.group[either], minlength=problems).astype(np.int64),
    )


def _overlap(chosen: NDArray[np.bool_], near: NDArray[np.bool_], compared: int) -> Overlap:
    differ = chosen[:, EXACT1] != chosen[:, compared]
    return Overlap(
        both=int(np.sum(chosen[:, EXACT1] & chosen[:, compared])),
        either=int(np.sum(chosen[:, EXACT1] | chosen[:, compared])),
        within_quantum=int(np.sum(differ & (near[:, EXACT1] | near[:, compared]))),
    )
