"""One small chart as inline SVG: the e-processes of a campaign over its informative problems, on a log scale."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from sessions.words import e_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stats.sequential import PathPoint

_WIDTH: Final = 640
_HEIGHT: Final = 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 12, 32
_FLOOR: Final = 1e-12  # of e on the log scale
_LABELS: Final = 6
# Okabe and Ito's blue and vermilion; the dashes tell them apart without colour.
_LINES: Final = (("symmetry", "#0072B2", ""), ("betting", "#D55E00", "6 4"))


def eprocess_chart(path: Sequence[PathPoint], level: float) -> str:
    """Both e-processes that a stop rule may use, and the level at which they reject.

    Args:
        path: a point an informative problem.
        level: 1/alpha.
    """
    if not path:
        return '<p class="small">No informative problem yet: there is nothing to draw.</p>\n'
    series = {"symmetry": [point.symmetry for point in path], "betting": [point.betting for point in path]}
    logs = {name: [math.log10(max(e, _FLOOR)) for e in values] for name, values in series.items()}
    values = [value for one in logs.values() for value in one]
    low, high = math.floor(min(*values, 0.0)), math.ceil(max(*values, math.log10(level)) + 0.1)

    def x(at: int) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (at / max(1, len(path)))

    def y(value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - value) / (high - low)

    said = ", ".join(f"{name} ends at {e_value(values[-1])}" for name, values in series.items())
    label = f"e-processes over {len(path)} informative problems: {said}; level {level:g}"
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}"'
    parts = [f'<svg {size} role="img" aria-label="{label}">']
    step = max(1, math.ceil((high - low) / _LABELS))
    for power in range(low, high + 1, step):
        parts.append(_line(_LEFT, y(power), _WIDTH - _RIGHT, y(power), "#8886", ""))
        parts.append(f'<text x="{_LEFT - 6}" y="{y(power) + 4:.1f}" text-anchor="end">1e{power}</text>')
    parts.append(_line(_LEFT, y(math.log10(level)), _WIDTH - _RIGHT, y(math.log10(level)), "currentColor", "2 3"))
    parts.append(f'<text x="{_LEFT + 4}" y="{y(math.log10(level)) - 5:.1f}">1/alpha</text>')
    for number, (name, colour, dashes) in enumerate(_LINES):
        points = [f"{x(0):.1f},{y(0.0):.1f}", *(f"{x(at):.1f},{y(v):.1f}" for at, v in enumerate(logs[name], 1))]
        parts.append(
            f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2" '
            f'stroke-dasharray="{dashes}"/>'
        )
        at = _LEFT + 20 + 110 * number
        parts.append(_line(at, _HEIGHT - 8, at + 24, _HEIGHT - 8, colour, dashes, 2))
        parts.append(f'<text x="{at + 30}" y="{_HEIGHT - 4}">{name}</text>')
    seen = f"{len(path)} informative problems"
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 4}" text-anchor="end">{seen}</text></svg>\n')
    return "\n".join(parts)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, dashes: str, width: int = 1) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}" '
        f'stroke-dasharray="{dashes}"/>'
    )
