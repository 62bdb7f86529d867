"""Will trunk blocks last: the worst-case plan of a wave."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from engine.backend import EngineInfo
from engine.protocol.capacity import (
    DEFAULT_SCREEN_WAVE,
    DEFAULT_WAVE,
    PassCost,
    fit,
    fit_screen,
    group_width,
    wave_width,
    worst_cost,
)
from sessions.spec import CampaignSpec

INFO = EngineInfo(
    engine="embedded",
    model="m",
    block_size=16,
    num_blocks=1000,
    max_model_len=512,
    max_num_seqs=64,
    vocab_size=512,
    proof="ledger",
    special_ids=frozenset(),
    stop_ids=frozenset({0}),
)
COST = PassCost(trunks=10, resume=50, refeed=60)


def test_worst_cost_counts_every_block_a_pass_may_allocate() -> None:
    """2 trunks of 33 tokens are 6 blocks; 2 pivots x 2 arms x (2 x 4 + 1) = 36 blocks a resuming pass."""
    spec = CampaignSpec(k=2, max_pivots=1, boundary_slack=2, max_cont_tokens=50, probe_tokens=8, rollouts=2)
    assert worst_cost(spec, 16, [33, 33]) == PassCost(trunks=6, resume=36, refeed=42)
    assert worst_cost(spec, 16, [33, 33], pivots=1) == PassCost(trunks=6, resume=18, refeed=24)
    assert worst_cost(spec, 16, [33, 33], pivots=0) == PassCost(trunks=6, resume=0, refeed=6)


def test_a_continuation_begins_behind_the_boundary() -> None:
    """Up to slack tokens of prefix and the forced one share its first block: 3 + 14 tokens need two of 16."""
    spec = CampaignSpec(k=1, max_pivots=1, boundary_slack=2, max_cont_tokens=14, probe_tokens=13, rollouts=1)
    assert worst_cost(spec, 16, [33]).resume == 2 * (2 + 1)


def test_all_wanted_fit_in_a_large_cache() -> None:
    """With room for everything the reason is the one given."""
    capacity = fit([COST] * 4, INFO, 4, "wave = 4", group=1)
    assert (capacity.width, capacity.needed, capacity.allocated) == (4, 40, 3 * 160 + 50)
    assert capacity.reason == "wave = 4"
    assert fit([COST, PassCost(trunks=10, resume=7, refeed=17)], INFO, 2, "x", group=1).allocated == 160 + 7


def test_a_small_cache_narrows_the_wave_and_says_so() -> None:
    """Blocks that may be allocated between two touches must stay below what is free beside the trunks."""
    capacity = fit([COST] * 4, replace(INFO, num_blocks=250), 4, "wave = 4", group=1)
    assert capacity.width == 2
    assert "more than 2 might not last" in capacity.reason


def test_the_plan_of_one_problem_warns_from_the_first_block_that_is_missing() -> None:
    """10 blocks of trunks and 50 of a pass need 61 others than the null block: one more than is allocated."""
    enough, short = (
        fit([COST], replace(INFO, num_blocks=62), 1, "all", group=1),
        fit([COST], replace(INFO, num_blocks=61), 1, "all", group=1),
    )
    assert (enough.width, enough.reason) == (1, "all")
    assert (short.width, short.reason) == (1, "even one problem's trunks might not last")


def test_one_problem_is_measured_even_where_it_might_not_last() -> None:
    """The ledger will tell if it did not; the plan warns."""
    capacity = fit([COST] * 4, replace(INFO, num_blocks=40), 4, "wave = 4", group=1)
    assert capacity.width == 1
    assert capacity.reason == "even one problem's trunks might not last"
    assert not capacity.lasts


def test_the_registered_wave_wins_over_the_default() -> None:
    """0 means the default, which is wider for a screen."""
    assert wave_width(CampaignSpec()) == DEFAULT_WAVE
    assert wave_width(CampaignSpec(screen="mixed")) == DEFAULT_SCREEN_WAVE
    assert wave_width(CampaignSpec(screen="mixed", wave=2)) == 2


def test_a_group_is_never_wider_than_its_wave() -> None:
    """0 means four; a wave of one problem has groups of one."""
    assert group_width(CampaignSpec()) == DEFAULT_WAVE
    assert group_width(CampaignSpec(screen="mixed")) == DEFAULT_WAVE
    assert group_width(CampaignSpec(screen="mixed", group=8)) == 8
    assert group_width(CampaignSpec(wave=1)) == group_width(CampaignSpec(wave=1, group=4)) == 1


def test_a_group_waits_for_groups_before_it_and_shares_its_own_passes() -> None:
    """Between two touches of a trunk lie all passes of earlier groups and one exact pass of its own group."""
    assert fit([COST] * 4, INFO, 4, "all", group=4).allocated == 4 * 50
    assert fit([COST] * 4, INFO, 4, "all", group=2).allocated == 2 * 160 + 2 * 50
    assert fit([COST] * 3, INFO, 3, "all", group=2).allocated == 2 * 160 + 50
    # 20 blocks of trunks, 100 allocated: 121 others than the null block are one too few for a group of two.
    assert fit([COST] * 2, replace(INFO, num_blocks=122), 2, "all", group=2).width == 2
    assert fit([COST] * 2, replace(INFO, num_blocks=121), 2, "all", group=2).width == 1
    # Candidates of a screen: the passes of any two of them together.
    assert fit_screen([COST] * 3, replace(INFO, num_blocks=132), 3, "all", group=2).width == 3
    assert fit_screen([COST] * 3, replace(INFO, num_blocks=131), 3, "all", group=2).width == 2


costs = st.builds(PassCost, st.integers(1, 50), st.integers(1, 400), st.integers(1, 500))


@given(st.lists(costs, min_size=1, max_size=8), st.integers(2, 4000), st.integers(1, 10))
def test_a_planned_wave_keeps_the_safe_rule(problems: list[PassCost], blocks: int, wanted: int) -> None:
    """Whatever the costs, a width above 1 leaves fewer allocations than free blocks, and one more would not."""
    info = replace(INFO, num_blocks=blocks)
    capacity = fit(problems, info, wanted, "all", group=1)
    assert 1 <= capacity.width <= min(wanted, len(problems))
    if capacity.width > 1:
        assert capacity.allocated < blocks - 1 - capacity.needed
    if capacity.width < min(wanted, len(problems)):
        wider = problems[: capacity.width + 1]
        needed = sum(cost.trunks for cost in wider)
        allocated = sum(2 * cost.resume + cost.refeed for cost in wider[:-1]) + wider[-1].resume
        assert allocated >= blocks - 1 - needed


def test_trunks_that_nobody_measures_lie_in_the_way_too() -> None:
    """Blocks stored after a trunk are evicted after it: a screen's dropped candidates take room from the kept ones."""
    roomy = fit([COST] * 2, replace(INFO, num_blocks=240), 2, "all", group=1)
    assert (roomy.width, roomy.needed) == (2, 20)
    crowded = fit([COST] * 2, replace(INFO, num_blocks=240), 2, "all", group=1, resident=120)
    assert (crowded.width, crowded.needed) == (1, 120)


@given(st.lists(costs, min_size=1, max_size=8), st.integers(2, 2000), st.integers(1, 10))
def test_a_screen_leaves_room_for_the_passes_of_any_candidate(
    problems: list[PassCost], blocks: int, wanted: int
) -> None:
    """All candidates' trunks and one problem's pass fit together, and one candidate more would not."""
    info = replace(INFO, num_blocks=blocks)
    capacity = fit_screen(problems, info, wanted, "all", group=1)
    assert 1 <= capacity.width <= min(wanted, len(problems))

    def lasts(width: int) -> bool:
        some = problems[:width]
        return max(cost.resume for cost in some) < blocks - 1 - sum(cost.trunks for cost in some)

    assert capacity.width == 1 or lasts(capacity.width)
    assert capacity.width == min(wanted, len(problems)) or not lasts(capacity.width + 1)
