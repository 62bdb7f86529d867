"""Small PivotTables for tests: say what matters, the rest is filled in."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from stats.table import UNKNOWN, PivotTable

if TYPE_CHECKING:
    from collections.abc import Sequence

Net = tuple[int, int, int]


def table(
    problems: Sequence[Sequence[Net]],
    *,
    k: int | Sequence[int] = 4,
    tasks: Sequence[int] | None = None,
    margin: Sequence[float] | None = None,
    delta: Sequence[tuple[float, float]] | None = None,
    diverged: Sequence[tuple[int, int]] | None = None,
) -> PivotTable:
    """A table from each problem's list of (exact-1, exact-2, re-feed) nets; probes are absent unless given."""
    group = np.array([row for row, pivots in enumerate(problems) for _ in pivots], dtype=np.int64)
    count = len(group)
    probe_delta = np.full((count, 2), np.nan) if delta is None else np.array(delta, dtype=np.float64)
    return PivotTable(
        problems=np.array(range(len(problems)) if tasks is None else tasks, dtype=np.int64),
        group=group,
        rollout=np.zeros(count, dtype=np.int64),
        position=np.arange(count, dtype=np.int64),
        k=np.full(count, k, dtype=np.int64) if isinstance(k, int) else np.array(k, dtype=np.int64),
        net=np.array([net for pivots in problems for net in pivots], dtype=np.int64).reshape(-1, 3),
        margin=np.full(count, 0.5) if margin is None else np.array(margin, dtype=np.float64),
        hit_tokens=np.full(count, UNKNOWN, dtype=np.int64),
        decode_tokens=np.full(count, UNKNOWN, dtype=np.int64),
        probe_delta=probe_delta,
        probe_arm_delta=np.repeat(probe_delta[:, :, None], 2, axis=2),
        probe_diverged=np.full((count, 2), UNKNOWN, dtype=np.int8)
        if diverged is None
        else np.array(diverged, dtype=np.int8),
    )


def counted(refeed: int, floor: int, n: int) -> list[Net]:
    """A problem of n eligible pivots; `refeed` and `floor` of them disagree, on different pivots as far as possible."""
    return [(1, -1 if at >= n - floor else 1, 0 if at < refeed else 1) for at in range(n)]


def first(evidence: PivotTable, problems: int) -> PivotTable:
    """The table as it stood when that many problems had closed."""
    closed = evidence.group < problems
    columns = {
        field.name: getattr(evidence, field.name)[closed] for field in fields(evidence) if field.name != "problems"
    }
    return PivotTable(problems=evidence.problems[:problems], **columns)
