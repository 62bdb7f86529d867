"""Pooling of several tables of one model, task and settings into one.

Order is argument order. A pivot is one (task index, rollout, position); where two tables hold the same one, the first
keeps it and the later one is dropped and counted, because the same pivot twice is not more evidence. Whether the tables
may be pooled at all (same model, task and settings) is for the caller to check: indices of different settings collide.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from stats.table import PivotTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Dropped:
    """One pivot that a table repeated: which table (argument order), task index, rollout, position."""

    source: int
    problem: int
    rollout: int
    position: int


@dataclass(frozen=True, slots=True)
class Pool:
    """The pooled table, and what deduplication took out."""

    table: PivotTable
    dropped: tuple[Dropped, ...]


def pool(tables: Sequence[PivotTable]) -> Pool:
    """Concatenate tables, merging problems of one task index and dropping repeated pivots.

    Raises:
        ValueError: no table is given.
    """
    if not tables:
        message = "pool needs at least one table"
        raise ValueError(message)
    task = np.concatenate([table.problems[table.group] for table in tables])
    rollout = np.concatenate([table.rollout for table in tables])
    position = np.concatenate([table.position for table in tables])
    source = np.concatenate([np.full(len(table.group), index) for index, table in enumerate(tables)])
    kept = _first_of_each(task, rollout, position)
    row = {int(index): place for place, index in enumerate(dict.fromkeys(np.concatenate([t.problems for t in tables])))}
    group = np.array([row[int(index)] for index in task], dtype=np.int64)
    # stable: pivots of one problem stay in argument order, and in their table's order within
    order = kept[np.argsort(group[kept], kind="stable")]
    columns = {
        field.name: np.concatenate([getattr(table, field.name) for table in tables])[order]
        for field in fields(PivotTable)
        if field.name not in {"problems", "group"}
    }
    repeated = np.setdiff1d(np.arange(len(task)), kept)
    dropped = tuple(Dropped(int(source[i]), int(task[i]), int(rollout[i]), int(position[i])) for i in repeated)
    return Pool(PivotTable(problems=np.array(list(row), dtype=np.int64), group=group[order], **columns), dropped)


def _first_of_each(*keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ascending indices of the first row of each distinct key."""
    _, first = np.unique(np.stack(keys, axis=1), axis=0, return_index=True)
    return np.sort(first)
