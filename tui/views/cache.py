"""Cache verification: rate, counts, proof, the first failure in words, and how much of the hits decode wrote."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from sessions.words import percent
from stats.words import count
from tui.plaintext import one_line
from tui.views.words import (
    joined,
)

if TYPE_CHECKING:
    from sessions.campaign import CampaignState
    from stats.cache import CacheTally
    from tui.views.glyphs import Glyphs
    from tui.watched import Watched
    from tui.widgets.ink import Ink, Line, Span

CACHE_WORDS: Final[dict[int, tuple[str, Ink]]] = {0: ("ok  ", "good"), 1: ("MISS", "bad"), 2: ("n/a ", "muted")}


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
