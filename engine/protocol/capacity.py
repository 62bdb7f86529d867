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

    @property
    def lasts(self) -> bool:
        """Whether no trunk block can be evicted before its passes have read it."""
        return self.allocated < self.there - 1 - self.needed


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


def fit(
    costs: Sequence[PassCost], info: EngineInfo, wanted: int, why: str, *, group: int, resident: int = 0
) -> Capacity:
    """Return how many of the problems, in order, the cache can hold; at least one.

    Args:
        costs: worst cost of each problem, in the order they will be measured.
        info: the engine's blocks.
        wanted: at most so many.
        why: the reason given when all wanted fit.
        group: problems whose passes are one batch; between two touches of a trunk lies at most a pass of all of them.
        resident: blocks of all trunks that are there, also of problems that will not be measured: what was stored
            after a trunk is evicted after it.
    """
    best = _held(costs[:1], info, why, group, resident)
    if not best.lasts:
        return replace(best, reason="even one problem's trunks might not last")
    for width in range(2, min(wanted, len(costs)) + 1):
        wider = _held(costs[:width], info, why, group, resident)
        if not wider.lasts:
            return replace(best, reason=f"more than {best.width} might not last")
        best = wider
    return best


def _held(costs: Sequence[PassCost], info: EngineInfo, why: str, group: int, resident: int) -> Capacity:
    """What it takes to hold all of these until the last group of them is measured."""
    last = (len(costs) - 1) // group * group
    waiting = sum(2 * cost.resume + cost.refeed for cost in costs[:last])
    return Capacity(
        width=len(costs),
        needed=max(resident, sum(cost.trunks for cost in costs)),
        allocated=waiting + sum(cost.resume for cost in costs[last:]),
        there=info.num_blocks,
        reason=why,
    )


def fit_screen(costs: Sequence[PassCost], info: EngineInfo, wanted: int, why: str, *, group: int) -> Capacity:
    """Return how many candidates' trunks, in order, the cache can hold beside one group's passes; at least one.

    Args:
        costs: worst cost of each candidate, in order.
        info: the engine's blocks.
        wanted: at most so many.
        why: the reason given when all wanted fit.
        group: problems whose passes are one batch.
    """
    best = fit(costs, info, 1, why, group=group)
    if not best.lasts:
        return best
    for width in range(2, min(wanted, len(costs)) + 1):
        needed = sum(cost.trunks for cost in costs[:width])
        allocated = sum(sorted((cost.resume for cost in costs[:width]), reverse=True)[:group])
        wider = Capacity(width, needed, allocated, info.num_blocks, why)
        if not wider.lasts:
            return replace(best, reason=f"trunks of more than {best.width} candidates might not last")
        best = wider
    return best


def wave_width(spec: CampaignSpec) -> int:
    """Return how many problems' trunks the spec wants generated together."""
    if spec.wave > 0:
        return spec.wave
    return DEFAULT_SCREEN_WAVE if spec.screen == "mixed" else DEFAULT_WAVE


def group_width(spec: CampaignSpec) -> int:
    """Return how many problems' passes the spec wants served as one batch; never more than a wave has."""
    return min(wave_width(spec), spec.group if spec.group > 0 else DEFAULT_WAVE)
