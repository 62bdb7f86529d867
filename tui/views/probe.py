"""Figure 3: how far the first probed logprob moves, as an empirical distribution."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sessions.words import nats, percent
from stats.probes import ecdf, probes
from stats.table import REFEED_PROBE, REPLICA_PROBE
from tui.views.curves import POINTS_PER_COLUMN, thinned
from tui.widgets.plot import Figure, Series

if TYPE_CHECKING:
    from sessions.campaign import CampaignState
    from stats.probes import Probes
    from stats.table import PivotTable
    from tui.widgets.ink import Ink, Line

COMPARISONS: Final[tuple[tuple[int, str, Ink], ...]] = (
    (REPLICA_PROBE, "replica", "floor"),
    (REFEED_PROBE, "re-feed", "refeed"),
)

NAMED_AT: Final = {"replica": 0.8, "re-feed": 0.4}
"""Share at which each curve is named."""


def numbers(state: CampaignState) -> tuple[Line, ...]:
    """Both comparisons in numbers."""
    head = f"{'against exact-1':<16}{'pivots':>8}{'bit-exact':>11}{'diverged':>10}{'p90':>11}{'median > 0':>12}"
    table = state.table()
    return (
        ((head, "title"),),
        *(((_row(name, probes(table, place)), ink),) for place, name, ink in COMPARISONS),
        (("bit-exact: both arms equal to the last bit; p90 and median in nats", "muted"),),
    )


def _row(name: str, found: Probes) -> str:
    return (
        f"{name:<16}{found.pivots:>8,}{percent(found.bit_exact):>11}{percent(found.diverged):>10}"
        f"{nats(found.p90):>11}{nats(found.median_nonzero):>12}"
    )


def figure(state: CampaignState, width: int) -> Figure:
    """Share of pivots at or below each |first-logprob difference|; log axis, with exact zeros at the left edge."""
    table = state.table()
    drawn = [(name, ink, _steps(table, place)) for place, name, ink in COMPARISONS]
    positive = [x for _, _, points in drawn for x, _ in points if x > 0]
    if not any(points for _, _, points in drawn):
        return Figure(empty="no probes in the evidence yet")
    low = math.floor(math.log10(min(positive))) if positive else -6
    high = max(low + 1, math.ceil(math.log10(max(positive)))) if positive else 0
    series = []
    for name, ink, points in drawn:
        placed = [(math.log10(x) if x > 0 else low - 1.0, share) for x, share in points]
        if placed and placed[0][0] > low - 1.0:
            placed.insert(0, (low - 1.0, 0.0))
        if placed:
            placed.append((float(high), placed[-1][1]))
        kept = thinned(placed, POINTS_PER_COLUMN * max(8, width))
        at = _riser(placed, NAMED_AT[name]) if placed else None
        series.append(Series(tuple(x for x, _ in kept), tuple(y for _, y in kept), ink, "steps", name, "right", at))
    if len({one.label_at for one in series}) < len(series):  # one name would hide the other
        label = ", ".join(one.label for one in series)
        series = [replace(one, label=label if one is series[-1] else "") for one in series]
    step = max(1, (high - low) // 6)
    ticks = ((low - 1.0, "0"), *((float(power), f"1e{power}") for power in range(low, high + 1, step)))
    shares = tuple((part / 4, f"{25 * part}%") for part in range(5))
    return Figure(tuple(series), (low - 1.0, float(high)), (0.0, 1.0), ticks, shares)


def _riser(placed: list[tuple[float, float]], share: float) -> tuple[float, float]:
    """Where a curve first reaches a share: every one ends at 100%, where names would hide each other."""
    x, reached = next(point for point in placed if point[1] >= share)
    return x, max(share, reached if x == placed[0][0] else share)


def _steps(table: PivotTable, comparison: int) -> list[tuple[float, float]]:
    found = ecdf(table, comparison)
    return list(zip(found.delta.tolist(), found.share.tolist(), strict=True))
