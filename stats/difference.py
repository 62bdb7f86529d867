"""One campaign against another: do their rates and their excess differ?

Problems are clusters across both tables, so two campaigns on the same problems are compared with the covariance that
sharing a question brings, and two on disjoint problems as independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stats.contrast import Contrast, contrast
from stats.disagreement import problem_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stats.disagreement import Condition, ProblemCounts
    from stats.table import PivotTable


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
