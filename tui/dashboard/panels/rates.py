"""Re-feed against the floor, and the cache checks that the rates rest on."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Final

from sessions.numbers import interval, percent, points
from sessions.report.limits import unfinished
from sessions.report.reasons import failed_check
from sessions.text import one_line
from stats.decision import decide, doubt
from stats.rates import nothing_seen
from stats.words import count
from tui.dashboard.words import (
    heading,
    joined,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessions.state.campaign import CampaignState
    from stats.cache import CacheTally
    from stats.clustered import Interval
    from stats.counts import Condition
    from stats.live import TrendPoint
    from stats.rates import RateInterval
    from tui.dashboard.style import Glyphs, Ink, Line, Span
    from tui.viewer.session import LiveSession

CONDITIONS: Final[dict[Condition, str]] = {
    "common": "eligible where any pass is nonzero",
    "exact1": "eligible where exact-1 is nonzero",
}


def disagreement(
    session: LiveSession, condition: Condition, width: int, glyphs: Glyphs, *, titled: bool
) -> tuple[Line, ...]:
    """Re-feed against the floor with intervals on one scale, and the pooled excess with the registered verdict."""
    live = session.state.live
    counts = live.common if condition == "common" else live.exact1
    trend = live.trend(condition)
    lines: list[Line] = []
    if titled:
        note = f"{CONDITIONS[condition]}, n = {counts.n:,}"
        lines.append(heading("Sign disagreement with exact-1", width, glyphs, note))
    if not trend or counts.n == 0:
        return (*lines, (("no eligible pivot of a closed problem yet", "muted"),), (), ())
    last = trend[-1]
    scale = _scale(last)
    rows: tuple[tuple[str, Ink, RateInterval, int], ...] = (
        ("re-feed", "refeed", last.refeed, counts.refeed.disagree),
        ("floor", "floor", last.floor, counts.floor.disagree),
    )
    lines += [
        rate_line(name, ink, rate, (changed, counts.n), live.informative, scale, width, glyphs)
        for name, ink, rate, changed in rows
    ]
    lines.append(_excess(session, condition, width, glyphs))
    return tuple(lines)


def rate_line(
    name: str,
    ink: Ink,
    rate: RateInterval,
    events: tuple[int, int],
    clusters: int,
    scale: float,
    width: int,
    glyphs: Glyphs,
) -> Line:
    """A rate with its interval in numbers and as a bar; "none seen" with an upper bound where there is no event.

    Args:
        name: of the comparison.
        ink: of it.
        rate: and its interval.
        events: changed pivots, and eligible ones.
        clusters: informative problems.
        scale: rate at the right end.
        width: cells.
        glyphs: marks of this terminal.
    """
    changed, n = events
    spread = interval(rate.ci95) if rate.ci95 is not None else ""
    lead = f"{name:8}{percent(rate.rate):>6} {spread:<13} {changed:,}/{n:,} "
    bound = nothing_seen(n, clusters) if changed == 0 else None
    if bound is not None:
        top = percent(bound.independent)
        seen = f"none seen: below {top} (95%) if "
        said = (
            f"{seen}pivots were independent",
            f"{seen}independent",
            f"none seen: < {top} if independent",
            "none seen",
            "",
        )
        return ((lead, ink), (next(text for text in said if not text or len(text) <= width - len(lead)), "muted"))
    return ((lead, ink), *whisker(rate.rate, rate.ci95, scale, max(0, width - len(lead) - 1), glyphs, ink))


def _scale(last: TrendPoint) -> float:
    ends = [rate.ci95[1] if rate.ci95 is not None else rate.rate for rate in (last.refeed, last.floor)]
    top = max((end for end in ends if end is not None), default=1.0)
    return min(1.0, max(0.1, math.ceil(top * 10) / 10))


def whisker(
    rate: float | None, ci95: Interval | None, scale: float, cells: int, glyphs: Glyphs, ink: Ink
) -> tuple[Span, ...]:
    """A bar from 0 to the rate with its interval drawn over it, in `cells` cells for 0 to `scale`."""
    if rate is None or cells < 8:  # noqa: PLR2004  (cells)
        return ()

    def cell(value: float) -> int:
        return max(0, min(cells - 1, round(value / scale * (cells - 1))))

    at = cell(rate) if rate > 0 else -1
    low, high = (at, at) if ci95 is None else (cell(ci95[0]), cell(ci95[1]))
    solid, shaded = min(low, at), at
    text = glyphs.full * (solid + 1) + glyphs.part * (shaded - solid)
    if high > at:
        text += glyphs.span * (high - at - 1) + glyphs.high
    return ((text.ljust(cells), ink),)


def _excess(session: LiveSession, condition: Condition, width: int, glyphs: Glyphs) -> Line:
    live, spec = session.state.live, session.spec
    pooled = live.pooled_excess(condition)
    spread = f" {interval(pooled.ci95, signed=True)}" if pooled.ci95 is not None else ""
    why: tuple[Span, ...] = (("(", "muted"), (f"{pooled.why})", "muted")) if pooled.ci95 is None else ()
    counts = live.common
    ruled = decide(
        counts.refeed.disagree - counts.floor.disagree,
        counts.n,
        negligible=spec.decision[0],
        load_bearing=spec.decision[1],
    )
    so_far = " so far" if unfinished(session.state) else ""
    rule = f"<{100 * spec.decision[0]:.3g}pp negligible, >{100 * spec.decision[1]:.3g}pp load-bearing"
    verdict: Sequence[Span] = ()
    if condition == "common" and ruled.verdict is not None:
        but = doubt(ruled, pooled.ci95)
        verdict = ((f"{ruled.verdict.upper()}{so_far}{', ' + but if but else ''}", "strong"),)
    return joined(
        (
            (("excess  ", "plain"), (f"{points(pooled.value):>6}{spread}", "strong")),
            tuple(verdict),
            why,
            (("rule: ", "muted"), (rule, "muted")),
        ),
        width,
        glyphs,
    )


CACHE_WORDS: Final[dict[int, tuple[str, Ink]]] = {0: ("ok  ", "good"), 1: ("MISS", "bad"), 2: ("n/a ", "muted")}


def cache(session: LiveSession, width: int, glyphs: Glyphs) -> tuple[Line, ...]:
    """Cache verification: the verdict and its counts; then the first failure in words, or the decode-time share."""
    tally = session.state.cache_tally()
    decode = _decode_share(session.state)
    if tally.failures:
        counts = f" CACHE FAILED {len(tally.failures)} of {tally.checked:,} pivots "
        first: tuple[Span, ...] = ((counts, "bad"), (f" verified {percent(tally.rate)}", "plain"), _proof(tally))
        text = f"first: {one_line(failed_check(tally.failures[0]), 400)}"
        told = textwrap.wrap(text, width, max_lines=2, placeholder=glyphs.ellipsis)
        return first, *(((part, "strong"),) for part in told)
    if tally.checked == 0 and tally.not_instrumented > 0:
        text = f"CACHE NOT INSTRUMENTED: {tally.not_instrumented:,} imported pivots carry no cache counts"
        return ((text, "warn"),), ((decode, "muted"),)
    if tally.checked == 0:
        return (("CACHE: no pivot checked yet", "muted"),), ((decode, "muted"),)
    verdict: tuple[Span, ...] = (
        (f"CACHE OK {percent(tally.rate)}", "good"),
        (f" verified {tally.verified:,} of {tally.checked:,} pivots, 0 failed", "plain"),
        _proof(tally),
    )
    return verdict, joined((((decode, "muted"),),), width, glyphs)


def _proof(tally: CacheTally) -> Span:
    ledger, counts = tally.ledger, tally.counts
    if ledger > 0 and counts > 0:
        return f" (proof: {ledger:,} by block ledger, {counts:,} by counts)", "muted"
    if ledger > 0:
        return " (proof: block ledger)", "muted"
    return (" (proof: cached-token counts)", "muted") if counts > 0 else ("", "muted")


def _decode_share(state: CampaignState) -> str:
    table = state.table()
    known = table.decode_tokens >= 0
    hit = int(table.hit_tokens[known].sum())
    if hit == 0:
        return "decode-time share of the hits: not known"
    share = int(table.decode_tokens[known].sum()) / hit
    without = int((table.decode_tokens[known] == 0).sum())
    text = f"decode-time share of the hits {percent(share)}"
    return text + (f"; {count(without, 'pivot')} without any" if without > 0 else "")
