"""The newest pivots, a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.plaintext import one_line
from tui.views.cache import CACHE_WORDS
from tui.views.words import (
    change,
    signed,
    width_of,
)

if TYPE_CHECKING:
    from sessions.campaign import CampaignState
    from tui.widgets.ink import Line, Span


def recent_title(width: int) -> Line:
    """Heads of the columns of `recent`."""
    text = f"{'Recent pivots':<19}ex-1 ex-2 re-f of K re-feed  floor    cache  actual / alternative"
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
        (f"{signed(first):>4}{signed(second):>5}{signed(third):>5} /{cell(row, 'k'):<2} ", "plain"),
        (f" {again:<8} ", "refeed" if again != "same" else "muted"),
        (f"{replica:<8} ", "floor" if replica != "same" else "muted"),
        CACHE_WORDS[cell(row, "cache")],
    ]
    room = width - width_of(lead) - 4
    actual, alternative = pivots.texts[row]
    if room >= 12 and (actual or alternative):  # noqa: PLR2004  (cells)
        each = max(5, min(40, (room - 7) // 2))
        lead.append((f'   "{one_line(actual, each)}" / "{one_line(alternative, each)}"', "plain"))
    return tuple(lead)
