"""Pooling: argument order, one problem one cluster, repeated pivots dropped and named."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from stats.pool import Dropped, pool
from stats.table import PivotTable
from tests.helpers.published import load, pooled_main
from tests.helpers.tables import table


def test_pooling_keeps_argument_order() -> None:
    """Problems of the first table, then those that only the second has."""
    first, second = table([[(1, 0, 0)], [(2, 0, 0)]], tasks=[7, 3]), table([[(3, 0, 0)]], tasks=[5])
    assert pool([first, second]).table.problems.tolist() == [7, 3, 5]
    assert pool([second, first]).table.problems.tolist() == [5, 7, 3]


def test_repeated_pivots_are_dropped_once_and_named() -> None:
    """The first table keeps a pivot; new pivots of a known problem join its cluster."""
    first = table([[(1, 0, 0)], [(2, 0, 0)]], tasks=[7, 3])
    second = table([[(4, 0, 0), (3, 0, 0)]], tasks=[7])
    found = pool([first, second])
    assert found.table.problems.tolist() == [7, 3]
    assert found.table.group.tolist() == [0, 0, 1]
    assert found.table.net[:, 0].tolist() == [1, 3, 2]
    assert found.dropped == (Dropped(source=1, problem=7, rollout=0, position=0),)


def test_pooling_one_table_changes_nothing() -> None:
    """Also not the order of its pivots."""
    alone = load("primary")
    found = pool([alone])
    assert found.dropped == ()
    for field in fields(PivotTable):
        np.testing.assert_array_equal(getattr(found.table, field.name), getattr(alone, field.name))


def test_pooling_a_run_with_itself_adds_nothing() -> None:
    """The same pivots twice are not more evidence."""
    found = pool([load("k8"), load("k8")])
    assert (len(found.table.group), len(found.dropped)) == (783, 783)


def test_published_cohorts_do_not_overlap() -> None:
    """784 + 783 pivots of 40 problems, none dropped, by construction of the second campaign."""
    assert (len(pooled_main().group), len(pooled_main().problems)) == (1567, 40)
    assert pool([load("primary"), load("screened")]).dropped == ()


def test_problems_without_pivots_stay_measured() -> None:
    """They are counted in the pool as well."""
    assert pool([table([[]], tasks=[1]), table([[]], tasks=[2])]).table.problems.tolist() == [1, 2]


def test_nothing_to_pool_is_an_error() -> None:
    """An empty list of tables has no meaning."""
    with pytest.raises(ValueError, match="pool needs at least one table"):
        pool([])


def test_pivots_keep_the_order_of_their_table() -> None:
    """Not the order of their positions: seeds and texts follow the order in which pivots were measured."""
    backwards = replace(table([[(1, 0, 0), (2, 0, 0), (3, 0, 0)]]), position=np.array([9, 5, 7]))
    assert pool([backwards]).table.position.tolist() == [9, 5, 7]


def test_a_problem_measured_in_two_runs_keeps_argument_order() -> None:
    """Every other pivot in one table, the rest in another: within each problem the first table's come first."""
    whole = load("primary")
    halves = []
    for side in (0, 1):
        kept = np.arange(len(whole.group)) % 2 == side
        columns = {field.name: getattr(whole, field.name) for field in fields(PivotTable)}
        halves.append(
            PivotTable(problems=columns.pop("problems"), **{name: value[kept] for name, value in columns.items()})
        )
    found = pool(halves).table
    for row in (0, 7, 19):
        expected = [half.position[half.group == row].tolist() for half in halves]
        assert found.position[found.group == row].tolist() == expected[0] + expected[1]
