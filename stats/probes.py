"""The grading-free channel: greedy probes against exact pass 1 (paper, section 5.3).

A delta is the absolute difference of the first token's logprob, in nats; a pivot's delta is the larger of its arms'.
The published order statistics are kept: p90 is sorted[int(0.9 n)], and the median of the nonzero deltas takes the upper
middle. Absent probes (NaN, UNKNOWN) are left out of every count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stats.table import REFEED_PROBE, REPLICA_PROBE, UNKNOWN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stats.table import PivotTable


@dataclass(frozen=True, slots=True)
class Probes:
    """One comparison over the pivots that have a probe; None where none has.

    Attributes:
        pivots: pivots with a delta.
        exact: of those, with delta exactly 0.0.
        bit_exact, bit_exact_arms: share of pivots, and of single arms, with delta exactly 0.0.
        diverged_pivots, diverged: pivots whose probe tokens left exact-1's, and their share of those recorded.
        p90, median_nonzero: nats.
    """

    pivots: int
    exact: int
    bit_exact: float | None
    bit_exact_arms: float | None
    diverged_pivots: int
    diverged: float | None
    p90: float | None
    median_nonzero: float | None


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """Both comparisons; `pivots` have at least one of them."""

    pivots: int
    refeed: Probes
    replica: Probes


@dataclass(frozen=True, slots=True)
class Ecdf:
    """Steps of an empirical distribution: share of deltas at or below each distinct value, float64 [S] each."""

    delta: NDArray[np.float64]
    share: NDArray[np.float64]


def probe_report(table: PivotTable) -> ProbeReport:
    """Both comparisons of one table."""
    seen = ~np.isnan(table.probe_delta)
    return ProbeReport(
        pivots=int(seen.any(axis=1).sum()), refeed=probes(table, REFEED_PROBE), replica=probes(table, REPLICA_PROBE)
    )


def probes(table: PivotTable, comparison: int) -> Probes:
    """One comparison (REPLICA_PROBE or REFEED_PROBE)."""
    delta = _present(table.probe_delta[:, comparison])
    arms = _present(table.probe_arm_delta[:, comparison].ravel())
    diverged = table.probe_diverged[:, comparison]
    recorded = diverged[diverged != UNKNOWN]
    nonzero = np.sort(delta[delta != 0])
    return Probes(
        pivots=len(delta),
        exact=int(np.sum(delta == 0)),
        bit_exact=_share(delta == 0),
        bit_exact_arms=_share(arms == 0),
        diverged_pivots=int(np.sum(recorded)),
        diverged=_share(recorded == 1),
        p90=float(np.sort(delta)[9 * len(delta) // 10]) if len(delta) > 0 else None,
        median_nonzero=float(nonzero[len(nonzero) // 2]) if len(nonzero) > 0 else None,
    )


def ecdf(table: PivotTable, comparison: int) -> Ecdf:
    """Empirical distribution of one comparison's deltas (figure 3); empty arrays without probes."""
    value, count = np.unique(_present(table.probe_delta[:, comparison]), return_counts=True)
    return Ecdf(value, np.cumsum(count) / max(1, count.sum()))


def _present(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values[~np.isnan(values)]


def _share(mask: NDArray[np.bool_]) -> float | None:
    return int(mask.sum()) / len(mask) if len(mask) > 0 else None
