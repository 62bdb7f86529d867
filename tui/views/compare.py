"""Figure 2 over any sessions: re-feed and floor with intervals on one scale, and the excess."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.numbers import interval, percent, points
from tui.plaintext import one_line
from tui.views.live import CONDITIONS, whisker
from tui.views.words import heading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stats.clustered import Pooled
    from stats.disagreement import Condition, Disagreement
    from stats.rates import RateInterval
    from tui.views.glyphs import Glyphs
    from tui.widgets.ink import Ink, Line


@dataclass(frozen=True, slots=True)
class Compared:
    """One session's bars.

    Attributes:
        label: id and name.
        facts: model, engine, K, problems.
        counts: both comparisons.
        refeed, floor: rates with intervals.
        excess: pooled.
        error: why there is nothing to show; empty otherwise.
    """

    label: str
    facts: str = ""
    counts: Disagreement | None = None
    refeed: RateInterval | None = None
    floor: RateInterval | None = None
    excess: Pooled | None = None
    error: str = ""


def lines(found: Sequence[Compared], condition: Condition, width: int, glyphs: Glyphs) -> tuple[Line, ...]:
    """Bars of every session."""
    out: list[Line] = [
        heading("Sign disagreement with exact-1", width, glyphs, CONDITIONS[condition]),
        (),
    ]
    tops = [
        (rate.ci95[1] if rate.ci95 is not None else rate.rate) or 0.0
        for one in found
        for rate in (one.refeed, one.floor)
        if rate is not None
    ]
    scale = min(1.0, max(0.1, math.ceil(10 * max(tops, default=1.0)) / 10))
    for one in found:
        out.append(((one_line(one.label, 60), "strong"), (f"  {one_line(one.facts, 200)}", "muted")))
        if one.error or one.counts is None or one.refeed is None or one.floor is None:
            out += [((one_line(one.error or "no evidence yet", 200), "warn"),), ()]
            continue
        rows: tuple[tuple[str, Ink, RateInterval, int], ...] = (
            ("re-feed", "refeed", one.refeed, one.counts.refeed.disagree),
            ("floor", "floor", one.floor, one.counts.floor.disagree),
        )
        for name, ink, rate, changed in rows:
            spread = interval(rate.ci95)
            lead = f"  {name:8}{percent(rate.rate):>6} {spread:<13} {changed:,}/{one.counts.n:,} "
            out.append(((lead, ink), *whisker(rate.rate, rate.ci95, scale, max(0, width - len(lead) - 1), glyphs, ink)))
        if one.excess is not None:
            why = f" ({one.excess.why})" if one.excess.why is not None else ""
            text = f"  excess  {points(one.excess.value):>6} {interval(one.excess.ci95, signed=True)}{why}"
            out.append(((text, "strong"),))
        out.append(())
    out.append(((f"bars from 0% to {100 * scale:.0f}%; intervals: 95%, clustered by problem", "muted"),))
    return tuple(out)
