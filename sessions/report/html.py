"""A report as one HTML file that needs nothing else: a document laid out, with a chart of its e-processes.

It loads nothing and runs nothing (its own policy says so), and everything from the session is escaped text.
"""

from __future__ import annotations

import math
import re
from html import escape
from typing import TYPE_CHECKING, Final

from sessions.numbers import e_value
from sessions.report.document import LONGEST, Chart, Facts, Grid
from sessions.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sessions.report.document import Document, Part
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


_POWER: Final = re.compile(r"\d+(\.\d+)?e-\d+")  # browsers break lines after its hyphen
_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.35rem; } h2 { font-size: 1.05rem; margin: 1.8rem 0 .4rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem .2rem 0; text-align: right; border-bottom: 1px solid #8884; white-space: nowrap; }
th { font-weight: 600; } .w { text-align: left; } .n { white-space: nowrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; } dd { margin: 0; }
.scroll { overflow-x: auto; } footer, .small { color: #767676; font-size: .85rem; overflow-wrap: anywhere; }
svg { max-width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
@media (max-width: 36rem) { body { padding: 0 .4rem; }
table { font-size: .7rem; } th, td { white-space: normal; padding-right: .3rem; }
dl { display: block; } dt { font-weight: 600; margin-top: .4rem; } ul { padding-left: 1.2rem; }
svg text { font-size: 16px; }
}
"""


def page(written: Document) -> Iterator[str]:
    """The file, piece by piece."""
    title = f"Replay audit {_text(written.subject)}"
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    yield '<meta name="viewport" content="width=device-width">\n'
    yield f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    yield f"<p>{'<br>'.join(map(_text, written.opening))}</p>\n"
    yield f"<p><strong>{_prose(written.headline)}</strong></p>\n"
    for section in written.sections:
        yield f"<h2>{_text(section.title)}</h2>\n"
        for part in section.body:
            yield from _part(part)
    if written.notes:
        yield "<h2>Notes</h2>\n<ul>\n"
        yield from (f"<li>{_prose(note)}</li>\n" for note in written.notes)
        yield "</ul>\n"
    yield f"<footer>{_text(written.closing)}</footer>\n</body>\n</html>\n"


def _text(text: str) -> str:
    """Text from a session, safe in HTML: escaped, on one line, invisible characters shown."""
    return escape(printable(text, LONGEST))


def _prose(text: str) -> str:
    """A sentence, safe in HTML, whose numbers stay on one line."""
    return _POWER.sub(r'<span class="n">\g<0></span>', _text(text))


def _part(part: Part) -> Iterator[str]:
    match part:
        case Grid():
            yield '<div class="scroll"><table>\n'
            yield _row("th", part.columns, part.words)
            yield from (_row("td", row, part.words) for row in part.rows)
            yield "</table></div>\n"
        case Facts():
            yield "<dl>\n"
            yield from (f"<dt>{_text(name)}</dt><dd>{_prose(fact)}</dd>\n" for name, fact in part.rows)
            yield "</dl>\n"
        case Chart():
            yield eprocess_chart(part.path, part.level)
        case _:
            yield f"<p>{_prose(part)}</p>\n"


def _row(tag: str, cells: Iterable[str], words: int) -> str:
    """A row of a table; its first cells are words."""
    kinds = (f'{tag} class="w"' if at < words else tag for at, _ in enumerate(cells))
    return f"<tr>{''.join(f'<{kind}>{_text(cell)}</{tag}>' for kind, cell in zip(kinds, cells, strict=True))}</tr>\n"
