"""Evidence that survives being watched, beside the t that does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions.remarks import looked
from sessions.words import e_value, number, points
from tui.stopping import at_planned_end, process, process_name
from tui.views.words import joined

if TYPE_CHECKING:
    from tui.views.glyphs import Glyphs
    from tui.watched import Watched
    from tui.widgets.ink import Line, Span


def sequential(watched: Watched, width: int, glyphs: Glyphs) -> tuple[Line, Line]:
    """Two lines: the e-value that the stop rule follows, with its crossing; then its lower bound, and the plain t."""
    monitor = watched.state.live.monitor
    if monitor.informative == 0:
        nothing = "sequential test: no informative problem yet"
        return ((nothing, "muted"),), (("plain t: valid only at the planned end", "muted"),)
    name, followed = process_name(watched.spec), process(watched.state)
    beside = ("symmetry", monitor.symmetry) if name == "betting" else ("betting", monitor.betting)
    level = 1 / monitor.alpha
    crossed: tuple[Span, ...] = ((f"below 1/{glyphs.alpha} = {level:g}", "muted"),)
    if followed.crossing is not None:
        where = f" 1/{glyphs.alpha} = {level:g} at informative problem {followed.crossing.informative}"
        crossed = (("CROSSED", "good"), (where, "plain"))
    lower = watched.lower_bound()
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
    t: tuple[Span, ...] = ((f"plain t {number(plain.t)} ", "plain"), _validity(watched))
    if plain.t is None:
        t = ((f"plain t undefined: {f'all {plain.n} equal' if plain.n > 1 else 'one informative problem'}", "plain"),)
    second = joined(
        (
            ((bound, "plain"),),
            t,
            _stop_rule(watched),
        ),
        width,
        glyphs,
    )
    return first, second


def _validity(watched: Watched) -> Span:
    """When the plain t may be read: once, at the planned end; the words stay when it is reached.

    Never where looks at the data could end the campaign: no end of it was planned.
    """
    if looked(watched.state):
        return "fixed-n only: nobody fixed n", "warn"
    if at_planned_end(watched.state):
        return "valid only at the planned end (reached)", "plain"
    return "valid only at the planned end", "warn"


def _stop_rule(watched: Watched) -> tuple[Span, Span]:
    spec = watched.spec
    rule = "none" if spec.stop == "none" else f"{spec.stop} e after {spec.min_problems} informative"
    return ("stop rule: ", "muted"), (rule, "muted")
