"""What a table of pivots refuses: numbers of another table's pivots must not be counted."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from stats.table import PivotTable
from tests.helpers.tables import table

GOOD = table([[(1, 1, 0), (1, 0, 1)], [(0, 0, 0)]])
COLUMNS = [field.name for field in fields(PivotTable) if field.name not in {"problems", "group"}]


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_another_length_is_refused(name: str) -> None:
    """Its name and both shapes are said."""
    with pytest.raises(ValueError, match=rf"PivotTable.{name} has shape \(2,.*, but 3 pivots need \(3,"):
        replace(GOOD, **{name: getattr(GOOD, name)[:2]})


@pytest.mark.parametrize("group", [[0, 1, 0], [-1, 0, 1], [0, 1, 2], [1, 0, 0]])
def test_a_group_that_is_no_ordered_index_of_the_problems_is_refused(group: list[int]) -> None:
    """Decreasing, negative, or beyond the last problem."""
    with pytest.raises(ValueError, match="must be a nondecreasing index into 2 problems"):
        replace(GOOD, group=np.array(group))


def test_any_ordered_index_of_the_problems_is_taken() -> None:
    """Problems without pivots included, at either end."""
    for group in ([0, 0, 0], [0, 0, 1], [1, 1, 1]):
        assert replace(GOOD, group=np.array(group)).group.tolist() == group
    assert len(table([]).group) == 0
