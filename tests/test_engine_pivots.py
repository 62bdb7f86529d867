"""Pivot selection: where a trunk is cut, and where the published filter differs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.backend import TokenLogprobs
from engine.protocol.pivots import PivotRule, expected_hit, select, site_at
from tests.helpers.shared import shared_path

RULE = PivotRule(margin=1.0, slack=2, cap=5, block=16, special_ids=frozenset({9}))
LOW = TokenLogprobs(-0.7, ((1, -0.7), (2, -0.9), (3, -3.0)))


def published_rollouts() -> list[tuple[int, list[int], list[TokenLogprobs]]]:
    """Prompt length, tokens and logprobs of the eight public rollouts."""
    rollouts = []
    for number in range(8):
        data = json.loads(Path(shared_path("data", "rollouts", f"rollout-{number}.json")).read_text())
        tokens = [entry["token_id"] for entry in data["tokens"]]
        logprobs = [
            TokenLogprobs(entry["logprob"], tuple((top["token_id"], top["logprob"]) for top in entry["topk"]))
            for entry in data["tokens"]
        ]
        rollouts.append((len(data["prompt_token_ids"]), tokens, logprobs))
    return rollouts


def test_pivots_lie_within_the_slack_past_a_block_boundary() -> None:
    """Of a trunk that is undecided everywhere, only positions 0 to 2 past a boundary are cut."""
    selection = select(20, [1] * 40, [LOW] * 40, replace(RULE, cap=100))
    assert [site.position for site in selection.sites] == [32, 33, 34, 48, 49, 50]
    assert selection.candidates == 6


def test_the_cap_keeps_the_earliest() -> None:
    """The cap drops the latest candidates and still counts them."""
    selection = select(20, [1] * 40, [LOW] * 40, replace(RULE, cap=2))
    assert [site.position for site in selection.sites] == [32, 33]
    assert selection.candidates == 6


def test_a_position_without_a_whole_block_before_it_is_no_pivot() -> None:
    """There is no cached state to resume before the first block is full."""
    assert [site.position for site in select(1, [1] * 16, [LOW] * 16, RULE).sites] == [16]


def test_the_alternative_is_the_likeliest_other_token() -> None:
    """A sampled runner-up is set against the likeliest token."""
    site = site_at(0, 32, 2, TokenLogprobs(-0.9, LOW.top))
    assert (site.actual, site.alternative, site.rank) == (2, 1, 2)
    assert site.margin == pytest.approx(0.2)


def test_a_sampled_token_outside_the_top_is_counted_once_and_ranked_last() -> None:
    """A token sampled from beyond the recorded ranks changes neither margin nor alternative."""
    site = site_at(0, 32, 77, TokenLogprobs(-5.0, LOW.top))
    assert (site.alternative, site.rank) == (1, 4)
    assert site.margin == pytest.approx(0.2)


def test_ties_go_to_the_lowest_token_id() -> None:
    """Exact ties, which bf16 logits make common, are broken by id on both arms."""
    tied = TokenLogprobs(-0.7, ((5, -0.7), (3, -0.7), (8, -0.7)))
    assert site_at(0, 32, 3, tied).alternative == 5
    assert site_at(0, 32, 5, tied).alternative == 3
    assert site_at(0, 32, 5, tied).margin == 0.0


@pytest.mark.parametrize("token", [9, 1])
def test_special_tokens_stand_on_neither_arm(token: int) -> None:
    """Neither a sampled nor a forced end-of-turn token makes a pivot."""
    entry = TokenLogprobs(-0.7, ((token, -0.7), (9 if token == 1 else 1, -0.8)))
    assert select(32, [token], [entry], RULE).sites == ()


def test_a_gap_of_exactly_the_margin_is_too_wide() -> None:
    """The filter is strict: below the margin, not at it."""
    assert select(32, [1], [TokenLogprobs(-0.5, ((1, -0.5), (2, -1.5)))], RULE).sites == ()


def test_a_certain_token_is_no_pivot_but_the_published_filter_takes_it() -> None:
    """A logprob of exactly 0 is the largest there is; the published filter ranked it last (known-faults 1)."""
    certain = TokenLogprobs(0.0, ((1, 0.0), (2, -17.0), (3, -17.5)))
    assert select(32, [1], [certain], RULE).sites == ()
    published = select(32, [1], [certain], replace(RULE, filter="published")).sites
    assert [(site.alternative, site.margin) for site in published] == [(2, 0.5)]


def test_one_recorded_logprob_is_an_error_not_an_infinite_margin() -> None:
    """A margin needs two ranks."""
    with pytest.raises(ValueError, match="needs two"):
        select(32, [1], [TokenLogprobs(-0.1, ((1, -0.1),))], RULE)


def test_published_rollouts_show_the_fault_of_the_published_filter() -> None:
    """12 of the 40 pivots that the published filter takes from eight real rollouts are not low-margin at all."""
    published = replace(RULE, filter="published", special_ids=frozenset({151643, 151644, 151645}))
    picked = wide = 0
    for prompt, tokens, logprobs in published_rollouts():
        for site in select(prompt, tokens, logprobs, published).sites:
            picked += 1
            wide += site_at(site.index, prompt, site.actual, logprobs[site.index]).margin >= 1.0
    assert (picked, wide) == (40, 12)


def test_published_rollouts_tie_and_sample_low_ranks_as_measured() -> None:
    """34 positions tie exactly, and 10 of 252 low-margin positions sampled rank 3 or lower."""
    sites = [
        site_at(index, prompt, token, entry)
        for prompt, tokens, logprobs in published_rollouts()
        for index, (token, entry) in enumerate(zip(tokens, logprobs, strict=True))
    ]
    low = [site for site in sites if site.margin < 1.0]
    assert sum(site.margin == 0.0 for site in sites) == 34
    assert (sum(site.rank > 2 for site in low), len(low)) == (10, 252)


@given(st.integers(1, 5000), st.sampled_from([1, 16, 32, 128]))
def test_a_hit_is_whole_blocks_and_never_the_last_token(length: int, block: int) -> None:
    """expected_hit is the largest multiple of the block below the length."""
    hit = expected_hit(length, block)
    assert hit % block == 0
    assert hit < length <= hit + block
