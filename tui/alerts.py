"""What is worth waking somebody for: a bell, and a line that terminals show as a notification (OSC 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions.events import CacheFailure, Ended
from tui.plaintext import one_line
from tui.stopping import process, process_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessions.campaign import CampaignState
    from sessions.events import AnyEvent

LONGEST = 200


def crossed(state: CampaignState) -> bool:
    """Whether the e-process of the registered stop rule ever reached 1/alpha; without a rule, the primary one."""
    return process(state).crossing is not None


def alert(events: Sequence[AnyEvent], state: CampaignState, *, had_crossed: bool) -> str:
    """Return the most serious thing that a batch brought, in one plain line; empty when nothing is worth a bell.

    Args:
        events: just folded, newest last.
        state: after them.
        had_crossed: `crossed` before them.
    """
    for event in reversed(events):
        if isinstance(event, Ended):
            return one_line(f"refeed-tui: {event.state}: {event.reason}")[:LONGEST]
    for event in events:
        if isinstance(event, CacheFailure):
            return one_line(f"refeed-tui: cache check failed in problem {event.problem}: {event.reason}")[:LONGEST]
    if crossed(state) and not had_crossed:
        return f"refeed-tui: the {process_name(state.spec)} e-value crossed 1/alpha = {1 / state.spec.alpha:g}"
    return ""


def notification(text: str) -> str:
    """Bell and OSC 9 for a line that `alert` made; terminals without OSC 9 ignore it."""
    return f"\x07\x1b]9;{text}\x07"
