"""How often the sign of a credit estimate changes against exact pass 1 (paper, section 3.2).

Two comparisons, always in this order: the floor (exact pass 2) and the re-feed pass. Two conditionings, never mixed:

- "common": any of the three passes is nonzero. The pre-specified metric, one denominator for both comparisons; the
  re-feed pass can create its own eligibility there.
- "exact1": exact pass 1 is nonzero. Independent of the treatment.

A change is a zero crossing (one side is zero) or a reversal (positive against negative). Everything is decided on the
integers net = correct_actual - correct_alternative, so K and rounding play no part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from stats.counts import Comparison, Condition, Disagreement, Eligibility
from stats.table import EXACT1, EXACT2, REFEED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stats.table import PivotTable

FLOOR_CHANGE: Final = 0
REFEED_CHANGE: Final = 1


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed at each of P pivots; columns FLOOR_CHANGE and REFEED_CHANGE.

    Shapes:
        disagree, zero_crossing, reversal: bool [P, 2]; a disagreement is exactly one of the other two.
    """

    disagree: NDArray[np.bool_]
    zero_crossing: NDArray[np.bool_]
    reversal: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ProblemCounts:
    """Per problem, in registered order: eligible pivots and their disagreements, int64 [G] each."""

    n: NDArray[np.int64]
    refeed: NDArray[np.int64]
    floor: NDArray[np.int64]

    @property
    def excess(self) -> NDArray[np.int64]:
        """d_i = rf_i - fl_i, int64 [G]."""
        return self.refeed - self.floor

    @property
    def informative(self) -> int:
        """Problems with at least one eligible pivot."""
        return int(np.count_nonzero(self.n))


def changes(net: NDArray[np.int64]) -> Changes:
    """Classify each pivot's sign changes.

    Args:
        net: int64 [P, 3], columns EXACT1, EXACT2, REFEED.
    """
    sign = np.sign(net)
    reference, compared = sign[:, [EXACT1]], sign[:, [EXACT2, REFEED]]
    disagree = compared != reference
    reversal = compared * reference == -1
    return Changes(disagree=disagree, zero_crossing=disagree & ~reversal, reversal=reversal)


def eligible(net: NDArray[np.int64], condition: Condition = "common") -> NDArray[np.bool_]:
    """Mask, bool [P], of the pivots that `condition` counts.

    Args:
        net: int64 [P, 3].
        condition: "common" (any pass nonzero) or "exact1" (exact pass 1 nonzero).
    """
    nonzero: NDArray[np.bool_] = net != 0
    columns = [EXACT1] if condition == "exact1" else [EXACT1, EXACT2, REFEED]
    mask: NDArray[np.bool_] = np.any(nonzero[:, columns], axis=1)
    return mask


def disagreement(net: NDArray[np.int64], condition: Condition = "common") -> Disagreement:
    """Count both comparisons under one conditioning.

    Args:
        net: int64 [P, 3].
        condition: which pivots count.
    """
    mask = eligible(net, condition)
    found = changes(net[mask])
    n = int(np.count_nonzero(mask))
    floor, refeed = (
        Comparison(
            n=n,
            disagree=int(found.disagree[:, column].sum()),
            zero_crossings=int(found.zero_crossing[:, column].sum()),
            reversals=int(found.reversal[:, column].sum()),
        )
        for column in (FLOOR_CHANGE, REFEED_CHANGE)
    )
    return Disagreement(condition=condition, n=n, refeed=refeed, floor=floor)


def eligibility(net: NDArray[np.int64]) -> Eligibility:
    """Where eligibility comes from (section 3.2: 77 of 636 only under re-feed, 18 only under the replica).

    Args:
        net: int64 [P, 3].
    """
    exact1, exact2, refeed = (net[:, column] != 0 for column in (EXACT1, EXACT2, REFEED))
    return Eligibility(
        exact1=int(np.count_nonzero(exact1)),
        only_refeed=int(np.count_nonzero(refeed & ~exact1 & ~exact2)),
        only_floor=int(np.count_nonzero(exact2 & ~exact1 & ~refeed)),
    )


def problem_counts(table: PivotTable, condition: Condition = "common") -> ProblemCounts:
    """Eligible pivots and disagreements of each problem, problems without pivots included as zeros.

    Args:
        table: P pivots of G problems.
        condition: which pivots count.
    """
    mask = eligible(table.net, condition)
    found = changes(table.net[mask]).disagree
    group, problems = table.group[mask], len(table.problems)

    def count(rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.bincount(rows, minlength=problems).astype(np.int64)

    return ProblemCounts(
        n=count(group), refeed=count(group[found[:, REFEED_CHANGE]]), floor=count(group[found[:, FLOOR_CHANGE]])
    )
