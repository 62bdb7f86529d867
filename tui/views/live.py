"""The live screen in lines and figures: what a person must not miss."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from stats.decision import decide
from stats.rates import nothing_seen
from tui.numbers import count, e_value, interval, number, percent, points
from tui.plaintext import one_line
from tui.views.words import (
    bar,
    block,
    change,
    duration,
    elapsed,
    heading,
    joined,
    machine,
    machine_word,
    model_name,
    money,
    seconds_left,
    signed,
    status,
    width_of,
)
from tui.widgets.plot import Figure, Level, Series

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessions.campaign import CampaignState
    from stats.clustered import Interval
    from stats.disagreement import Condition
    from stats.live import TrendPoint
    from stats.rates import RateInterval
    from tui.views.glyphs import Glyphs
    from tui.watched import Watched
    from tui.widgets.ink import Ink, Line, Span

_T = TypeVar("_T")

PASS_NUMBER: Final = {"exact-1": 1, "exact-2": 2, "re-feed": 3}
CONDITIONS: Final[dict[Condition, str]] = {
    "common": "eligible where any pass is nonzero",
    "exact1": "eligible where exact-1 is nonzero",
}
SECONDS_PER_HOUR: Final = 3600
POINTS_PER_COLUMN: Final = 2
TALL_PLOT: Final = 14
BAND_FROM: Final = 8
LATE_SHARE: Final = 0.6


def header(watched: Watched, width: int, glyphs: Glyphs) -> tuple[Line, Line]:
    """State, session, time and money; then how many problems, model, digest and machine."""
    state, registration = watched.state, watched.registration
    name = watched.folder.name or watched.folder.id
    counts: tuple[Span, ...] = (
        (f"{len(state.measured)}/{watched.spec.problems} problems", "strong"),
        (f", {state.live.informative} of {len(state.measured)} informative", "plain"),
    )
    first = joined(
        (
            (block(status(watched.status), glyphs),),
            ((f"{state.events:,} events read", "warn"),) if not watched.opened and watched.mode == "attach" else (),
            ((one_line(name, 32), "strong"),),
            *_time_and_money(watched),
        ),
        width,
        glyphs,
    )
    second = joined(
        (
            counts,
            ((model_name(state, watched.spec.model), "plain"),),
            ((f"digest {registration.digest[:8]}", "muted"),),
            ((_place(state), "muted"),) if _place(state) else (),
        ),
        width,
        glyphs,
    )
    return first, second


def _place(state: CampaignState) -> str:
    engine = "" if state.engine is None else f"({state.engine.engine})"
    return " ".join(part for part in (machine(state), engine) if part)


def _time_and_money(watched: Watched) -> tuple[tuple[Span, ...], ...]:
    state = watched.state
    if state.imported:
        return (((f"imported from {one_line(state.source, 40)}", "accent"),),)
    ran, left = elapsed(watched), seconds_left(watched)
    time: list[Span] = [(f"elapsed {duration(ran)}", "plain")]
    if left is not None:
        time.append((f", ~{duration(left)} left", "plain"))
    elif watched.status == "running":
        time.append((", time left: after 2 problems", "muted"))
    return tuple(time), *_cost(watched, ran, left), _last(watched)


def _cost(watched: Watched, ran: float, left: float | None) -> tuple[tuple[Span, ...], ...]:
    price = watched.registration.price_per_hour
    if price is None:
        return ()
    text = f"cost {money(price * ran / SECONDS_PER_HOUR)}"
    if left is not None:
        text += f" of ~{money(price * (ran + left) / SECONDS_PER_HOUR)}"
    return ((text, "plain"),), ((f"{money(price)}/h", "muted"),)


def _last(watched: Watched) -> tuple[Span, ...]:
    """How long the worker has been silent, once that is worth saying."""
    waited = watched.waited
    return ((f"silent for {duration(waited)}", "warn"),) if waited >= 10 else ()  # noqa: PLR2004  (seconds)


def progress(watched: Watched, width: int, glyphs: Glyphs) -> tuple[Line, Line]:
    """What is going on now, with a bar; then the engine's load. Always two lines."""
    state, current = watched.state, watched.state.current
    standing = _standing(watched, width)
    if standing is not None:
        return standing
    if state.paused:
        text = f"PAUSED: the {machine_word(state)} stays held and billed; P goes on"
        return ((text, "warn"),), _load(state, width, glyphs)
    what = _doing(watched)
    if current.total <= 0:
        return ((what, "plain"),), _load(state, width, glyphs)
    counts = f" {current.done}/{current.total}"
    cells = max(4, min(60, width - len(what) - len(counts) - 2))
    filled, rest = bar(current.done / current.total, cells, glyphs, "accent")
    return ((what, "strong"), (" ", "plain"), filled, rest, (counts, "plain")), _load(state, width, glyphs)


def _standing(watched: Watched, width: int) -> tuple[Line, Line] | None:
    """What there is to say when no worker works; None when one does."""
    state = watched.state
    if watched.broken:
        text = f" JOURNAL BROKEN: {one_line(watched.broken, 300)} "
        return ((text[:width], "bad"),), (("what is shown is what came before that line", "warn"),)
    if state.ended is not None:
        ink: Ink = "bad" if status(watched.status).ink == "bad" else "plain"
        reason = f" {state.ended.state}: {one_line(state.ended.reason, 300)} "
        hint = _hint(watched)
        if not hint[0][0] and state.tokens > 0:
            hint = ((f"{state.tokens:,} tokens generated in {duration(elapsed(watched))}", "muted"),)
        return ((reason[:width] if ink == "bad" else reason.strip()[:width], ink),), hint
    if watched.status == "interrupted":
        text = f" worker died; `refeed-tui resume {watched.folder.id}` continues it "
        return ((text[:width], "bad"),), _hint(watched)
    if not state.runs:
        return (("nothing is recorded yet", "muted"),), _hint(watched)
    return None


def _doing(watched: Watched) -> str:
    state, current = watched.state, watched.state.current
    if current.stage == "loading":
        notice = state.notices[-1] if state.notices and state.notices[-1].kind == "loading" else None
        if notice is None:
            return "starting the engine"
        share = "" if notice.fraction is None else f" {100 * notice.fraction:.0f}%"
        return f"{one_line(notice.text, 60)}{share}"
    nth = f"problem {min(len(state.measured) + 1, watched.spec.problems)}/{watched.spec.problems}"
    if current.stage in PASS_NUMBER:
        return f"{nth} (task {current.problem}) {current.stage} [{PASS_NUMBER[current.stage]} of 3]"
    if current.stage == "trunks":
        wave = "" if state.wave is None else f" of {count(len(state.wave.problems), 'problem')}"
        return f"trunks{wave}"
    return f"{nth}: preparing"


def _hint(watched: Watched) -> Line:
    irregular = watched.state.irregular
    if irregular:
        return ((f"irregular: {one_line(irregular[-1], 200)}", "warn"),)
    return (("", "plain"),)


def _load(state: CampaignState, width: int, glyphs: Glyphs) -> Line:
    current = state.current
    preempted = sum(ended.preemptions for row in state.problems.values() for ended in row.passes) + current.preemptions
    checks: tuple[Span, ...] = ()
    if current.stage in PASS_NUMBER:
        bad: Ink = "bad" if current.failed > 0 else "muted"
        checks = ((f"requests verified {current.verified:,}, ", "muted"), (f"failed {current.failed}", bad))
    return joined(
        (
            ((f"{current.tokens_per_s:,.0f} tokens/s", "plain"),),
            ((f"KV {100 * current.kv_use:.0f}%", "warn" if current.kv_use > 0.95 else "plain"),),  # noqa: PLR2004
            ((f"{preempted} preempted", "bad" if preempted > 0 else "muted"),),
            checks,
            ((f"{state.tokens:,} tokens", "muted"),),
        ),
        width,
        glyphs,
    )


def cache(watched: Watched, width: int, glyphs: Glyphs) -> tuple[Line, ...]:
    """Cache verification: the verdict and its counts; then the first failure in words, or the decode-time share."""
    tally = watched.state.cache_tally()
    decode = _decode_share(watched.state)
    if tally.failures:
        counts = f" CACHE FAILED {len(tally.failures)} of {tally.checked:,} pivots "
        first: tuple[Span, ...] = ((counts, "bad"), (f" verified {percent(tally.rate)}", "plain"), _proof(tally))
        text = f"first: {one_line(tally.failures[0], 400)}"
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


def _proof(tally: object) -> Span:
    ledger, counts = getattr(tally, "ledger", 0), getattr(tally, "counts", 0)
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


def disagreement(
    watched: Watched, condition: Condition, width: int, glyphs: Glyphs, *, titled: bool
) -> tuple[Line, ...]:
    """Re-feed against the floor with intervals on one scale, and the pooled excess with the registered verdict."""
    live = watched.state.live
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
    lines.append(_excess(watched, condition, width, glyphs))
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
        text = f"none seen: below {percent(bound.independent)} (95%) if pivots were independent"
        return ((lead, ink), (text[: max(0, width - len(lead))], "muted"))
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


def _excess(watched: Watched, condition: Condition, width: int, glyphs: Glyphs) -> Line:
    live, spec = watched.state.live, watched.spec
    pooled = live.pooled_excess(condition)
    spread = interval(pooled.ci95, signed=True) if pooled.ci95 is not None else f"({pooled.why})"
    counts = live.common
    ruled = decide(
        counts.refeed.disagree - counts.floor.disagree,
        counts.n,
        negligible=spec.decision[0],
        load_bearing=spec.decision[1],
    )
    so_far = "" if watched.state.ended is not None or watched.state.imported else " so far"
    rule = f"rule: <{spec.decision[0]:.3g} negligible, >{spec.decision[1]:.3g} load-bearing"
    verdict: Sequence[Span] = ()
    if condition == "common" and ruled.verdict is not None:
        verdict = ((f"{ruled.verdict.upper()}{so_far}", "strong"),)
    return joined(
        (
            (("excess  ", "plain"), (f"{points(pooled.value):>6} {spread}", "strong")),
            tuple(verdict),
            ((rule, "muted"),),
        ),
        width,
        glyphs,
    )


def sequential(watched: Watched, width: int, glyphs: Glyphs) -> tuple[Line, Line]:
    """The symmetry e-value with its crossing and lower bound; then the plain t with its limit. Always two lines."""
    monitor = watched.state.live.monitor
    if monitor.informative == 0:
        nothing = "sequential test: no informative problem yet"
        return ((nothing, "muted"),), (("plain t: valid only at the planned end", "muted"),)
    symmetry = monitor.symmetry
    level = 1 / monitor.alpha
    crossed: tuple[Span, ...] = ((f"below 1/{glyphs.alpha} = {level:g}", "muted"),)
    if symmetry.crossing is not None:
        where = f" 1/{glyphs.alpha} = {level:g} at informative problem {symmetry.crossing.informative}"
        crossed = (("CROSSED", "good"), (where, "plain"))
    lower = watched.lower_bound()
    bound = f"lower bound by e {points(lower)}" if lower is not None else "no lower bound yet"
    first = joined(
        (
            (
                ("symmetry e ", "plain"),
                (e_value(symmetry.e), "strong"),
                (f", max {e_value(symmetry.e_max)}", "plain"),
            ),
            crossed,
        ),
        width,
        glyphs,
    )
    plain = monitor.plain
    t = f"plain t {number(plain.t)}" if plain.t is not None else "plain t undefined"
    if plain.t is None and plain.n > 1:
        t = f"plain t undefined: all {plain.n} equal"
    stop = _stop_rule(watched)
    second = joined(
        (
            ((bound, "plain"),),
            ((f"{t} ", "plain"), _validity(watched)),
            ((stop, "muted"),) if stop else (),
            ((f"betting e {e_value(monitor.betting.e)}, t e {e_value(monitor.t_e.e)}", "muted"),),
        ),
        width,
        glyphs,
    )
    return first, second


def _validity(watched: Watched) -> Span:
    """When the plain t may be read: once, at the planned end; the words stay when it is reached."""
    state, spec = watched.state, watched.spec
    reached = state.imported or (
        spec.stop == "none" and state.ended is not None and len(state.measured) >= spec.problems
    )
    if reached and not state.imported:
        return "valid only at the planned end (reached)", "plain"
    return "valid only at the planned end", "warn"


def _stop_rule(watched: Watched) -> str:
    spec = watched.spec
    if spec.stop == "none":
        return "no stop rule registered"
    return f"stop rule: {spec.stop} e after {spec.min_problems} informative"


def trend(watched: Watched, condition: Condition, width: int, height: int) -> Figure:
    """Both pooled rates after each closed problem, with their intervals as dots."""
    found = [point for point in watched.state.live.trend(condition) if point.refeed.rate is not None]
    if not found:
        return Figure(empty="trend: after the first closed problem with an eligible pivot")
    numbered = thinned(list(enumerate(found, start=1)), POINTS_PER_COLUMN * width)
    xs = tuple(float(number) for number, _ in numbered)
    thin: list[Series] = []
    lines: list[Series] = []
    tops: list[float] = [0.1]
    pairs: tuple[tuple[Literal["refeed", "floor"], str], ...] = (("refeed", "re-feed"), ("floor", "floor"))
    for ink, name in pairs:
        rates: list[RateInterval] = [getattr(point, ink) for _, point in numbered]
        bounds = [(x, rate.ci95) for x, rate in zip(xs, rates, strict=True) if rate.ci95 is not None]
        if height >= BAND_FROM:
            for end in (0, 1):
                ys = tuple(ci95[end] for _, ci95 in bounds)
                thin.append(Series(tuple(x for x, _ in bounds), ys, ink, "thin"))
                tops += ys
        ys = tuple(rate.rate or 0.0 for rate in rates)
        tops += ys
        lines.append(Series(xs, ys, ink, _line_for(height), name))
    series = thin + lines  # the lines lie over the bands
    top = min(1.0, math.ceil(max(tops) * 10) / 10)
    parts = 2 if height < TALL_PLOT else round(top * 10)
    ticks = tuple((top * part / parts, f"{100 * top * part / parts:.0f}%") for part in range(parts + 1))
    return Figure(tuple(series), (1.0, max(2.0, xs[-1])), (0.0, top), _counts_axis(len(found)), ticks)


def _counts_axis(last: int) -> tuple[tuple[float, str], ...]:
    places = sorted({1, max(1, round(last / 2)), last})
    return tuple((float(place), str(place)) for place in places)


def thinned(items: list[_T], most: int) -> list[_T]:
    """At most `most` of the items, evenly spaced, the last among them."""
    if len(items) <= most or most < 2:  # noqa: PLR2004  (two ends)
        return items
    step = (len(items) - 1) / (most - 1)
    return [items[round(number * step)] for number in range(most)]


def e_path(watched: Watched, width: int, height: int, glyphs: Glyphs) -> Figure:
    """log10 of the symmetry e-value after each informative problem, with the line that it has to cross once."""
    monitor = watched.state.live.monitor
    if not monitor.path:
        return Figure(empty="e-values: after the first informative problem")
    numbered = thinned(list(enumerate(monitor.path, start=1)), POINTS_PER_COLUMN * width)
    xs = tuple(float(number) for number, _ in numbered)
    ys = tuple(math.log10(max(point.symmetry, 1e-12)) for _, point in numbered)
    line = -math.log10(monitor.alpha)
    low = min(0.0, math.floor(min(ys)))
    high = max(math.ceil(line), math.ceil(max(ys)))
    stride = max(1, math.ceil((high - low) / max(1, (height - 2) // 2)))
    apart = (high - low) / max(1, height - 2)
    decades = range(int(low), int(high) + 1, stride)
    ticks = [(float(power), _decade(power)) for power in decades if abs(power - line) > apart]
    ticks.append((line, f"1/{glyphs.alpha}={1 / monitor.alpha:g}"))
    series = [Series(xs, ys, "accent", _line_for(height), "")]
    crossing = monitor.symmetry.crossing
    if crossing is not None:
        at = float(crossing.informative)
        reached = math.log10(max(monitor.path[crossing.informative - 1].symmetry, 1e-12))
        mark = "x" if glyphs.ascii_only else "◆"
        early = crossing.informative <= LATE_SHARE * len(monitor.path)
        label = f"{mark} crossed" if early else f"crossed {mark}"
        series.append(Series((at,), (reached,), "good", "dots", label, "right" if early else "left"))
    levels = (Level(line, "warn"),)
    return Figure(
        tuple(series),
        (1.0, max(2.0, xs[-1])),
        (low, float(high)),
        _counts_axis(len(monitor.path)),
        tuple(ticks),
        levels,
    )


def _line_for(height: int) -> Literal["line", "fine"]:
    """Fat lines where there is room; in a low plot two of them would hide each other."""
    return "line" if height >= BAND_FROM else "fine"


def _decade(power: int) -> str:
    if 0 <= power <= 3:  # noqa: PLR2004  (written out up to a thousand)
        return str(10**power)
    return f"1e{power}"


def recent_title(width: int) -> Line:
    """Heads of the columns of `recent`."""
    text = f"{'Recent pivots':<19}{'ex-1':>4}{'ex-2':>5}{'re-feed':>8} of K  re-feed floor cache  actual / alternative"
    return ((text[:width], "title"),)


def recent(state: CampaignState, lines: int, width: int) -> tuple[Line, ...]:
    """The newest pivots, newest first."""
    pivots = state.pivots
    rows = range(len(pivots) - 1, max(-1, len(pivots) - 1 - lines), -1)
    return tuple(_pivot_line(state, row, width) for row in rows)


def _pivot_line(state: CampaignState, row: int, width: int) -> Line:
    pivots = state.pivots
    cell = pivots.cell
    first, second, third = cell(row, "net_exact1"), cell(row, "net_exact2"), cell(row, "net_refeed")
    again, replica = change(first, third), change(first, second)
    place = f"task {cell(row, 'problem')} r{cell(row, 'rollout')} @{cell(row, 'position')}"
    lead: list[Span] = [
        (f"{place:<18.18} ", "muted"),
        (f"{signed(first):>4}{signed(second):>5}{signed(third):>8} /{cell(row, 'k'):<3} ", "plain"),
        (f" {again:<7} ", "refeed" if again != "same" else "muted"),
        (f"{replica:<5} ", "floor" if replica != "same" else "muted"),
        CACHE_WORDS[cell(row, "cache")],
    ]
    room = width - width_of(lead) - 4
    actual, alternative = pivots.texts[row]
    if room >= 12 and (actual or alternative):  # noqa: PLR2004  (cells)
        each = max(5, min(40, (room - 7) // 2))
        lead.append((f'   "{one_line(actual, each)}" / "{one_line(alternative, each)}"', "plain"))
    return tuple(lead)


CACHE_WORDS: Final[dict[int, tuple[str, Ink]]] = {0: ("ok  ", "good"), 1: ("MISS", "bad"), 2: ("n/a ", "muted")}
