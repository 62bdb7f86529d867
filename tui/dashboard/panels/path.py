"""Evidence over the problems: the curves of the live screen, and what they say in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from sessions.numbers import e_value, number, points
from sessions.report.limits import looked
from tui.dashboard.widgets.plot import Figure, Level, Series
from tui.dashboard.words import joined
from tui.viewer.session import at_planned_end, process, process_name

if TYPE_CHECKING:
    from stats.counts import Condition
    from stats.rates import RateInterval
    from tui.dashboard.style import Glyphs, Line, Span
    from tui.viewer.session import LiveSession

_T = TypeVar("_T")

POINTS_PER_COLUMN: Final = 2
TALL_PLOT: Final = 14
BAND_FROM: Final = 8
LATE_SHARE: Final = 0.6


def trend(session: LiveSession, condition: Condition, width: int, height: int) -> Figure:
    """Both pooled rates after each closed problem, with their intervals as dots."""
    found = [point for point in session.state.live.trend(condition) if point.refeed.rate is not None]
    if not found:
        return Figure(empty="after the first informative problem")
    numbered = thinned(list(enumerate(found, start=1)), POINTS_PER_COLUMN * width)
    xs = tuple(float(number) for number, _ in numbered)
    thin: list[Series] = []
    lines: list[Series] = []
    tops: list[float] = [0.1]
    over = found[-1].refeed.rate == found[-1].floor.rate  # one label would hide the other
    pairs: tuple[tuple[Literal["refeed", "floor"], str], ...] = (
        ("refeed", "" if over else "re-feed"),
        ("floor", "re-feed, floor" if over else "floor"),
    )
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
        lines.append(Series(xs, ys, ink, _line_for(height), name, "left" if len(xs) > 1 else "right"))
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


def e_path(session: LiveSession, width: int, height: int, glyphs: Glyphs) -> Figure:
    """log10 of the stop rule's e-value after each informative problem, with the line that it has to cross once."""
    monitor = session.state.live.monitor
    if not monitor.path:
        return Figure(empty="after the first informative problem")
    values = e_values(session)
    numbered = thinned(list(enumerate(values, start=1)), POINTS_PER_COLUMN * width)
    xs = tuple(float(number) for number, _ in numbered)
    ys = tuple(math.log10(max(value, 1e-12)) for _, value in numbered)
    line = -math.log10(monitor.alpha)
    low = min(0.0, math.floor(min(ys)))
    high = max(math.ceil(line), math.ceil(max(ys)))
    stride = max(1, math.ceil((high - low) / max(1, (height - 2) // 2)))
    apart = (high - low) / max(1, height - 2)
    decades = range(int(low), int(high) + 1, stride)
    ticks = [(float(power), _decade(power)) for power in decades if abs(power - line) > apart]
    ticks.append((line, f"1/{glyphs.alpha}={1 / monitor.alpha:g}"))
    series = [Series(xs, ys, "accent", _line_for(height), "")]
    crossing = process(session.state).crossing
    if crossing is not None:
        at = float(crossing.informative)
        reached = math.log10(max(values[crossing.informative - 1], 1e-12))
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


def e_values(session: LiveSession) -> list[float]:
    """The e-value of the registered stop rule's process after each informative problem."""
    path = session.state.live.monitor.path
    betting = process_name(session.spec) == "betting"
    return [point.betting if betting else point.symmetry for point in path]


def _line_for(height: int) -> Literal["line", "fine"]:
    """Fat lines where there is room; in a low plot two of them would hide each other."""
    return "line" if height >= BAND_FROM else "fine"


def _decade(power: int) -> str:
    if 0 <= power <= 3:  # noqa: PLR2004  (written out up to a thousand)
        return str(10**power)
    return f"1e{power}"


def sequential(session: LiveSession, width: int, glyphs: Glyphs) -> tuple[Line, Line]:
    """Two lines: the e-value that the stop rule follows, with its crossing; then its lower bound, and the plain t."""
    monitor = session.state.live.monitor
    if monitor.informative == 0:
        nothing = "sequential test: no informative problem yet"
        return ((nothing, "muted"),), (("plain t: valid only at the planned end", "muted"),)
    name, followed = process_name(session.spec), process(session.state)
    beside = ("symmetry", monitor.symmetry) if name == "betting" else ("betting", monitor.betting)
    level = 1 / monitor.alpha
    crossed: tuple[Span, ...] = ((f"below 1/{glyphs.alpha} = {level:g}", "muted"),)
    if followed.crossing is not None:
        where = f" 1/{glyphs.alpha} = {level:g} at informative problem {followed.crossing.informative}"
        crossed = (("CROSSED", "good"), (where, "plain"))
    lower = session.lower_bound()
    bound = f"lower bound by e {points(lower)}" if lower is not None else "no lower bound yet"
    first = joined(
        (
            (
                (f"{name} e ", "plain"),
                (e_value(followed.e), "strong"),
                (f", max {e_value(followed.e_max)}", "plain"),
            ),
            crossed,
            ((f"{beside[0]} e {e_value(beside[1].e)}", "muted"), (f", t e {e_value(monitor.t_e.e)}", "muted")),
        ),
        width,
        glyphs,
    )
    plain = monitor.plain
    t: tuple[Span, ...] = ((f"plain t {number(plain.t)} ", "plain"), _validity(session))
    if plain.t is None:
        t = ((f"plain t undefined: {f'all {plain.n} equal' if plain.n > 1 else 'one informative problem'}", "plain"),)
    second = joined(
        (
            ((bound, "plain"),),
            t,
            _stop_rule(session),
        ),
        width,
        glyphs,
    )
    return first, second


def _validity(session: LiveSession) -> Span:
    """When the plain t may be read: once, at the planned end; the words stay when it is reached.

    Never where looks at the data could end the campaign: no end of it was planned.
    """
    if looked(session.state):
        return "fixed-n only: nobody fixed n", "warn"
    if at_planned_end(session.state):
        return "valid only at the planned end (reached)", "plain"
    return "valid only at the planned end", "warn"


def _stop_rule(session: LiveSession) -> tuple[Span, Span]:
    spec = session.spec
    rule = "none" if spec.stop == "none" else f"{spec.stop} e after {spec.min_problems} informative"
    return ("stop rule: ", "muted"), (rule, "muted")
