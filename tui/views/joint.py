"""Figure 1 as a heat map with counts: the credit estimate under exact-1 against a compared pass."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from stats.joint import joint
from stats.table import EXACT2, REFEED
from tui.views.disagreement import CONDITIONS
from tui.views.words import heading, signed

if TYPE_CHECKING:
    from sessions.campaign import CampaignState
    from stats.disagreement import Condition
    from stats.joint import Joint
    from tui.views.glyphs import Glyphs
    from tui.widgets.ink import Ink, Line, Span

COMPARED: Final[dict[int, tuple[str, Ink]]] = {REFEED: ("re-feed", "refeed"), EXACT2: ("exact-2 (floor)", "floor")}
HEAT: Final[tuple[Ink, ...]] = ("muted", "heat1", "heat2", "heat3", "heat4")
LABEL: Final = 5
GAP: Final = 4
FRAME: Final = 8


def heat_map(state: CampaignState, condition: Condition, width: int, height: int, glyphs: Glyphs) -> tuple[Line, ...]:
    """Both maps, beside each other where they fit, else one below the other; cells grow with the room."""
    table = state.table()
    ks = [int(k) for k in np.unique(table.k)]
    if not ks:
        why = "no problem has closed measured" if not state.measured else "no measured problem had a pivot that counts"
        return (((f"no evidence: {why}", "muted"),),)
    lines: list[Line] = [
        (("Pivots by estimate: rows exact-1, columns the compared pass.", "muted"),),
        ((f"{CONDITIONS[condition].capitalize()}; [n] has the same estimate in both.", "muted"),),
    ]
    for k in ks:
        cell = _cell_width(k, width)
        deep = max(1, min(3, (height - FRAME) // (len(ks) * (2 * k + 1))))
        maps = [
            (name, _map(joint(table, compared, k, condition), name, ink, cell, deep, glyphs))
            for compared, (name, ink) in COMPARED.items()
        ]
        one = LABEL + cell * (2 * k + 1)
        if 2 * one + GAP <= width:
            lines += _beside(maps[0][1], maps[1][1], one)
        else:
            lines += [*maps[0][1], (), *maps[1][1]]
        lines.append(())
    legend: list[Span] = [("shades, by count: ", "muted")]
    for name, ink in zip(("few", "some", "many", "most"), HEAT[1:], strict=True):
        legend += [(f" {name} ", ink), (" ", "plain")]
    lines.append((*legend, ("zero: to or from zero", "muted")))
    return tuple(lines)


def _cell_width(k: int, width: int) -> int:
    side = 2 * k + 1
    return max(3, min(8, ((width - GAP) // 2 - LABEL) // side))


def _map(found: Joint, name: str, ink: Ink, cell: int, deep: int, glyphs: Glyphs) -> list[Line]:
    counts, k = found.counts, found.k
    side = 2 * k + 1
    one = LABEL + cell * side
    total = int(counts.sum())
    first = np.sign(np.arange(-k, k + 1))
    same = int(counts[first[:, None] == first[None, :]].sum())
    opposite = int(counts[first[:, None] * first[None, :] < 0].sum())
    top = int(counts.max()) if total > 0 else 0
    lines: list[Line] = [
        ((f"{name}, K = {k}, n = {total:,}", ink),),
        (("ex-1 ", "muted"), ("".join(f"{signed(j - k):^{cell}}" for j in range(side)), "muted")),
    ]
    for i in range(side - 1, -1, -1):
        spans: list[Span] = []
        blank: list[Span] = []
        for j in range(side):
            count = int(counts[i, j])
            shade = _heat(count, top)
            spans.append((_cell(count, cell, diagonal=i == j), shade))
            blank.append((" " * cell, shade))
        middle = (deep - 1) // 2
        for row in range(deep):
            label = f"{signed(i - k):>4} " if row == middle else " " * LABEL
            lines.append(((label, "muted"), *(spans if row == middle else blank)))
    said = f"same {same:,}, zero {total - same - opposite:,}, reversed {opposite:,}"
    lines += [heading("", one, glyphs), ((said, "plain"),)]
    return lines


def _cell(count: int, width: int, *, diagonal: bool) -> str:
    """A count in the middle of its cell; brackets on the diagonal where they fit, a point for nothing elsewhere."""
    text = str(count) if count > 0 or diagonal else "."
    if diagonal and len(text) + 2 <= width:
        text = f"[{text}]"
    left = max(0, (width - len(text) + 1) // 2)
    return f"{' ' * left}{text}".ljust(width)


def _heat(count: int, top: int) -> Ink:
    """A shade for a count, on a log scale up to the largest count."""
    if count == 0 or top == 0:
        return HEAT[0]
    share = math.log1p(count) / math.log1p(top)
    return HEAT[min(4, 1 + int(share * 3.999))]


def _beside(left: list[Line], right: list[Line], width: int) -> list[Line]:
    lines: list[Line] = []
    for one, other in zip(left, right, strict=True):
        pad = width + GAP - sum(len(text) for text, _ in one)
        lines.append((*one, (" " * max(1, pad), "plain"), *other))
    return lines
