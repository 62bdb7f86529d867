"""Pure pivot selection: which generated tokens of a trunk are decision tokens at a block boundary.

Source: paper, section 3.1; the published filter's fault is known-faults 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.backend import TokenLogprobs

Filter = Literal["margin", "published"]

LAST_PLACE = -1e30


@dataclass(frozen=True, slots=True)
class Site:
    """One place where a trunk is cut.

    Attributes:
        position: absolute; the prefix has this many tokens and the forced token makes the request one longer.
        index: position minus prompt length.
        margin: gap of the two likeliest tokens by the filter's ranking, nats.
        actual: sampled token id.
        alternative: likeliest other token id.
        actual_logprob: raw, nats.
        alternative_logprob: raw, nats.
        rank: 1 plus the number of recorded tokens strictly likelier than the sampled one.
    """

    position: int
    index: int
    margin: float
    actual: int
    alternative: int
    actual_logprob: float
    alternative_logprob: float
    rank: int


@dataclass(frozen=True, slots=True)
class Selection:
    """Pivots of one trunk.

    Attributes:
        sites: kept, earliest first.
        candidates: how many passed the filter before the cap.
    """

    sites: tuple[Site, ...]
    candidates: int


@dataclass(frozen=True, slots=True)
class PivotRule:
    """How pivots are selected.

    Attributes:
        margin: the gap must be below this, nats.
        slack: largest distance past a block boundary, tokens.
        cap: most pivots per trunk.
        block: KV block size, tokens.
        special_ids: tokens that may stand on neither arm.
        filter: "margin" ranks by logprob; "published" ranks a logprob of exactly 0.0 last, as the published one.
    """

    margin: float
    slack: int
    cap: int
    block: int
    special_ids: frozenset[int]
    filter: Filter = "margin"


def _ranked(token: int, logprobs: TokenLogprobs, how: Filter) -> list[tuple[int, float]]:
    """Recorded tokens at one position, likeliest first, ties by lowest id, the sampled token once."""
    recorded = dict(logprobs.top)
    recorded.setdefault(token, logprobs.sampled)

    def key(item: tuple[int, float]) -> tuple[float, int]:
        value = item[1]
        if how == "published" and value == 0.0:
            value = LAST_PLACE
        return (-value, item[0])

    return sorted(recorded.items(), key=key)


def site_at(index: int, prompt_length: int, token: int, logprobs: TokenLogprobs, how: Filter = "margin") -> Site:
    """Describe the cut at one generated index, whether or not it qualifies.

    Raises:
        ValueError: fewer than two tokens were recorded, so that no margin exists.
    """
    ranked = _ranked(token, logprobs, how)
    if len(ranked) < 2:  # noqa: PLR2004 - a gap needs two
        message = f"generated index {index} has {len(ranked)} recorded logprob; a margin needs two"
        raise ValueError(message)
    alternative, alternative_logprob = next(item for item in ranked if item[0] != token)
    return Site(
        position=prompt_length + index,
        index=index,
        margin=ranked[0][1] - ranked[1][1],
        actual=token,
        alternative=alternative,
        actual_logprob=logprobs.sampled,
        alternative_logprob=alternative_logprob,
        rank=1 + sum(value > logprobs.sampled for _, value in logprobs.top),
    )


def _may_be_pivot(site: Site, rule: PivotRule) -> bool:
    return (
        site.margin < rule.margin and site.actual not in rule.special_ids and site.alternative not in rule.special_ids
    )


def select(prompt_length: int, tokens: Sequence[int], logprobs: Sequence[TokenLogprobs], rule: PivotRule) -> Selection:
    """Return the pivots of one trunk, earliest first.

    A position p qualifies when p mod block is within the slack, at least one whole block lies before it (without one
    there is no cached state to resume), the gap is below the margin and neither arm is special.

    Args:
        prompt_length: tokens of the prompt.
        tokens: generated token ids.
        logprobs: raw top-k logprobs, one per generated token.
        rule: the registered filter.

    Raises:
        ValueError: tokens and logprobs differ in length, or a position has fewer than two logprobs.
    """
    sites = [
        site_at(index, prompt_length, token, entry, rule.filter)
        for index, (token, entry) in enumerate(zip(tokens, logprobs, strict=True))
        if (prompt_length + index) % rule.block <= rule.slack and prompt_length + index >= rule.block
    ]
    found = [site for site in sites if _may_be_pivot(site, rule)]
    return Selection(sites=tuple(found[: rule.cap]), candidates=len(found))


def expected_hit(length: int, block: int) -> int:
    """Cached tokens that a request of this length must report: hits are whole blocks and never the last token."""
    return block * ((length - 1) // block)
