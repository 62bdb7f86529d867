"""Do two pooled ratios differ: of one campaign's pivots, or of two campaigns, with problems as clusters?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stats.disagreement import problem_counts
from stats.distributions import t_quantile, two_sided_p

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stats.clustered import Interval
    from stats.counts import Condition
    from stats.disagreement import ProblemCounts
    from stats.table import PivotTable


@dataclass(frozen=True, slots=True)
class Contrast:
    """Pooled ratio of the second column minus that of the first, with CR2 error; None with `why` where undefined."""

    difference: float | None = None
    se: float | None = None
    t: float | None = None
    df: float | None = None
    p: float | None = None
    ci95: Interval | None = None
    why: str | None = None


def contrast(d: NDArray[np.int64], n: NDArray[np.int64]) -> Contrast:
    """CR2 test of sum d_g1 / sum n_g1 = sum d_g0 / sum n_g0.

    Args:
        d: int64 [G, 2], sums by problem and side.
        n: int64 [G, 2], pivots by problem and side.
    """
    kept = n.sum(axis=1) > 0
    d, n = d[kept], n[kept]
    weight = n.sum(axis=0)
    if np.any(weight == 0):
        return Contrast(why="undefined: one of the two sides has no eligible pivots")
    if np.any(n == weight):
        return Contrast(why="undefined: one problem holds a whole side")
    rate = d.sum(axis=0) / weight
    difference = float(rate[1] - rate[0])
    if not np.any(d * weight - n * d.sum(axis=0)):
        return Contrast(difference, why="undefined: no variation between problems")
    adjust = 1.0 / np.sqrt(1.0 - n / weight)
    score = (d - n * rate) * adjust / weight
    se = math.sqrt(float(np.sum((score[:, 1] - score[:, 0]) ** 2)))
    if se == 0:
        return Contrast(difference, why="undefined: both sides vary alike in every problem")
    df = _contrast_df(n, weight, adjust)
    t = difference / se
    half = t_quantile(df, 0.975) * se
    return Contrast(difference, se, t, df, two_sided_p(df, t), (difference - half, difference + half))


def _contrast_df(n: NDArray[np.int64], weight: NDArray[np.int64], adjust: NDArray[np.float64]) -> float:
    """Satterthwaite degrees of freedom; the G x G matrix is never formed."""
    own = np.sum(n * adjust**2 / weight**2, axis=1)
    column = n * adjust / weight**1.5
    diagonal = own - np.sum(column**2, axis=1)
    gram = column.T @ column
    off_diagonal = float(np.sum(gram**2)) - float(np.sum(np.sum(column**2, axis=1) ** 2))
    return float(diagonal.sum()) ** 2 / (float(np.sum(diagonal**2)) + off_diagonal)


@dataclass(frozen=True, slots=True)
class Difference:
    """A table's rates minus those of the one it is held against.

    Attributes:
        refeed, floor, excess: CR2 contrasts of the pooled ratios.
        shared_problems: task indices measured in both.
    """

    refeed: Contrast
    floor: Contrast
    excess: Contrast
    shared_problems: int


def difference(table: PivotTable, against: PivotTable, condition: Condition = "common") -> Difference:
    """Contrast two tables of one task, `table` minus `against`."""
    tables = (against, table)
    order = dict.fromkeys(int(task) for each in tables for task in each.problems)
    row = {task: at for at, task in enumerate(order)}
    counts = [problem_counts(each, condition) for each in tables]

    def side_by_side(column: str) -> NDArray[np.int64]:
        joined = np.zeros((len(row), 2), dtype=np.int64)
        for side, (each, count) in enumerate(zip(tables, counts, strict=True)):
            joined[[row[int(task)] for task in each.problems], side] = _column(count, column)
        return joined

    n = side_by_side("n")
    return Difference(
        refeed=contrast(side_by_side("refeed"), n),
        floor=contrast(side_by_side("floor"), n),
        excess=contrast(side_by_side("excess"), n),
        shared_problems=len(set(table.problems.tolist()) & set(against.problems.tolist())),
    )


def _column(counts: ProblemCounts, name: str) -> NDArray[np.int64]:
    columns = {"n": counts.n, "refeed": counts.refeed, "floor": counts.floor, "excess": counts.excess}
    return columns[name]
