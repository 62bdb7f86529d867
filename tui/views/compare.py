"""Figure 2 over any sessions: re-feed and floor with intervals on one scale, and the excess."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessions.words import NONE, interval, points
from tui.plaintext import one_line
from tui.views.disagreement import CONDITIONS, rate_line
from tui.views.words import heading, wrapped

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
        informative: problems with an eligible pivot.
        error: why there is nothing to show; empty otherwise.
    """

    label: str
    facts: str = ""
    counts: Disagreement | None = None
    refeed: RateInterval | None = None
    floor: RateInterval | None = None
    excess: Pooled | None = None
    informative: int = 0
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
        label, facts = one_line(one.label, 200), one_line(one.facts, 200)
        if len(label) + len(facts) + 2 <= width:
            out.append(((label, "strong"), (f"  {facts}", "muted")))
        else:
            out += wrapped(label, width, "strong")
            out += ((("  ", "plain"), *line) for line in wrapped(facts, width - 2, "muted"))
        if one.error or one.counts is None or one.refeed is None or one.floor is None:
            out += [*wrapped(one.error or "no evidence yet", width, "warn"), ()]
            continue
        rows: tuple[tuple[str, Ink, RateInterval, int], ...] = (
            ("re-feed", "refeed", one.refeed, one.counts.refeed.disagree),
            ("floor", "floor", one.floor, one.counts.floor.disagree),
        )
        for name, ink, rate, changed in rows:
            events = (changed, one.counts.n)
            drawn = rate_line(name, ink, rate, events, one.informative, scale, width - 2, glyphs)
            out.append((("  ", "plain"), *drawn))
        if one.excess is not None:
            without = f"({one.excess.why})" if one.excess.why is not None else NONE
            spread = without if one.excess.ci95 is None else interval(one.excess.ci95, signed=True)
            text = f"  excess  {points(one.excess.value):>6} {spread}"
            out.append(((text, "strong"),))
        out.append(())
    out.append(((f"bars from 0% to {100 * scale:.0f}%; intervals: 95%, clustered by problem", "muted"),))
    return tuple(out)
