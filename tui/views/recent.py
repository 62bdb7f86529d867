"""The newest pivots, a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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


PLACE: Final = 18
FRAME: Final = 8  # cells around both texts
SHORTEST: Final = 5
LONGEST: Final = 40


def recent_title(width: int) -> Line:
    """Heads of the columns of `recent`."""
    text = f"{'Recent pivots':<19}ex-1 ex-2 re-f /K  re-feed  floor    cache"
    arms = "actual / alternative"
    room = width - len(text) - 1
    return ((f"{text} {arms if len(arms) <= room else 'arms'}", "title"),)


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
    if len(place) > PLACE:  # a number that is cut is another number
        place = place.removeprefix("task ")
    lead: list[Span] = [
        (f"{place:<{PLACE}} ", "muted"),
        (f"{signed(first):>4}{signed(second):>5}{signed(third):>5} /{cell(row, 'k'):<2} ", "plain"),
        (f"{again:<8} ", "refeed" if again != "same" else "muted"),
        (f"{replica:<8} ", "floor" if replica != "same" else "muted"),
        CACHE_WORDS[cell(row, "cache")],
    ]
    actual, alternative = pivots.texts[row]
    each = min(LONGEST, (width - width_of(lead) - FRAME) // 2)
    if each >= SHORTEST and (actual or alternative):
        lead.append((f' "{one_line(actual, each)}" / "{one_line(alternative, each)}"', "plain"))
    return tuple(lead)
