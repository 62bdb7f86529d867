"""Will the trunks' blocks last until their passes have read them?

The safe rule: the blocks that are allocated between two touches of a trunk must be fewer than the blocks there are,
less one (the engine's null block), less the trunks' own. Worst cases are taken: every continuation at its limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.backend import EngineInfo
    from sessions.spec import CampaignSpec

DEFAULT_WAVE: Final = 4
# A screen drops most candidates, and trunks are latency-bound: look at more of them together.
DEFAULT_SCREEN_WAVE: Final = 12


@dataclass(frozen=True, slots=True)
class PassCost:
    """KV blocks that one problem's passes allocate at worst.

    Attributes:
        trunks: blocks of its trunks.
        resume: blocks that one exact pass allocates.
        refeed: blocks that the re-feed pass allocates.
    """

    trunks: int
    resume: int
    refeed: int


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many problems' trunks the cache can hold until they are measured.

    Attributes:
        width: problems, at least 1.
        needed: KV blocks that their trunks must keep.
        allocated: KV blocks that may be allocated between two touches of a trunk.
        there: KV blocks in all.
        reason: why the width is what it is.
    """

    width: int
    needed: int
    allocated: int
    there: int
    reason: str


def worst_cost(spec: CampaignSpec, block: int, trunk_lengths: Sequence[int], pivots: int | None = None) -> PassCost:
    """Blocks that one problem needs at worst.

    Args:
        spec: the registered settings.
        block: KV block size, tokens.
        trunk_lengths: tokens of each trunk with its prompt, real or longest possible.
        pivots: of the problem; None while they are not known.
    """
    trunks = sum(math.ceil(length / block) for length in trunk_lengths)
    tail = spec.boundary_slack + 1
    continuation = math.ceil((tail + spec.max_cont_tokens) / block)
    probe = math.ceil((tail + spec.probe_tokens) / block)
    most = len(trunk_lengths) * spec.max_pivots if pivots is None else pivots
    resume = most * 2 * (spec.k * continuation + probe)
    return PassCost(trunks=trunks, resume=resume, refeed=resume + trunks)


def fit(costs: Sequence[PassCost], info: EngineInfo, wanted: int, why: str, resident: int = 0) -> Capacity:
    """Return how many of the problems, in order, the cache can hold; at least one.

    Args:
        costs: worst cost of each problem, in the order they will be measured.
        info: the engine's blocks.
        wanted: at most so many.
        why: the reason given when all wanted fit.
        resident: blocks of all trunks that are there, also of problems that will not be measured: what was stored
            after a trunk is evicted after it.
    """
    best: Capacity | None = None
    for width in range(1, min(wanted, len(costs)) + 1):
        chosen = costs[:width]
        needed = max(resident, sum(cost.trunks for cost in chosen))
        waiting = sum(2 * cost.resume + cost.refeed for cost in chosen[:-1])
        allocated = waiting + chosen[-1].resume
        if best is not None and allocated >= info.num_blocks - 1 - needed:
            return Capacity(
                best.width, best.needed, best.allocated, best.there, f"more than {best.width} might not last"
            )
        reason = why if allocated < info.num_blocks - 1 - needed else "even one problem's trunks might not last"
        best = Capacity(width, needed, allocated, info.num_blocks, reason)
    assert best is not None
    return best


def fit_screen(costs: Sequence[PassCost], info: EngineInfo, wanted: int, why: str) -> Capacity:
    """Return how many candidates' trunks, in order, the cache can hold beside one problem's passes; at least one.

    Args:
        costs: worst cost of each candidate, in order.
        info: the engine's blocks.
        wanted: at most so many.
        why: the reason given when all wanted fit.
    """
    best = fit(costs, info, 1, why)
    for width in range(2, min(wanted, len(costs)) + 1):
        needed = sum(cost.trunks for cost in costs[:width])
        allocated = max(cost.resume for cost in costs[:width])
        if allocated >= info.num_blocks - 1 - needed:
            return replace(best, reason=f"trunks of more than {width - 1} candidates might not last")
        best = Capacity(width, needed, allocated, info.num_blocks, why)
    return best


def wave_width(spec: CampaignSpec) -> tuple[int, str]:
    """Return how many problems' trunks the spec wants generated together, and why."""
    if spec.wave > 0:
        return spec.wave, f"wave = {spec.wave}"
    if spec.screen == "mixed":
        return DEFAULT_SCREEN_WAVE, f"default of {DEFAULT_SCREEN_WAVE} candidates for a screen"
    return DEFAULT_WAVE, f"default wave of {DEFAULT_WAVE}"
