"""A pass's requests and what each must prove."""

from __future__ import annotations

import msgspec
import pytest

from engine.backend import BlockOrigin, FirstToken
from engine.protocol.passes import PASSES, Cut, PassPlan, check_first_token, cold_salt, plan_pass
from engine.protocol.pivots import Site
from sessions.spec import CampaignSpec

BLOCK = 16
PROMPT = 20
SPEC = CampaignSpec(k=2, rollouts=2, max_cont_tokens=50, probe_tokens=8)
TRUNKS = ("7.0/trunk/w0/r0", "7.0/trunk/w0/r1")


def cut(rollout: int, position: int) -> Cut:
    """A pivot at this position of this rollout's trunk, token 1 against token 2."""
    site = Site(position, position - PROMPT, 0.1, 1, 2, -0.6, -0.7, 1)
    return Cut(rollout, tuple(range(100, 100 + position)), TRUNKS[rollout], site)


CUTS = (cut(0, 33), cut(0, 49), cut(1, 34))


def plan(number: int, cold_by: str = "") -> PassPlan:
    """The numbered pass over the three cuts."""
    return plan_pass(SPEC, PASSES[number], 7, 0, CUTS, BLOCK, cold_by)  # type: ignore[arg-type] # parametrised


def origins(owner: str, blocks: int, prompt: int = PROMPT) -> tuple[BlockOrigin, ...]:
    """A hit of this many whole blocks stored by one request, whose prompt has this many tokens."""
    starts = range(0, blocks * BLOCK, BLOCK)
    return tuple(BlockOrigin(owner, start, min(max(start + BLOCK - prompt, 0), BLOCK)) for start in starts)


def resumed(pass_plan: PassPlan, number: int = 0) -> FirstToken:
    """The first token of a request that resumed its trunk as it must."""
    request = pass_plan.requests[number]
    want = pass_plan.expectations[request.id]
    return FirstToken(request.id, want.hit, origins(want.trunk_request, want.hit // BLOCK))


def test_requests_come_in_registered_order() -> None:
    """Rollout, pivot, actual then alternative, continuations then the probe."""
    names = [request.id.split("/", 2)[2] for request in plan(0).requests]
    assert names[:6] == [
        "r0/p33/actual/k0",
        "r0/p33/actual/k1",
        "r0/p33/actual/probe",
        "r0/p33/alternative/k0",
        "r0/p33/alternative/k1",
        "r0/p33/alternative/probe",
    ]
    assert [name.rsplit("/", 2)[0] for name in names[::6]] == ["r0/p33", "r0/p49", "r1/p34"]


def test_all_passes_ask_the_same_but_for_ids_and_salts() -> None:
    """Prompt, seed and sampling of a request are one and the same in every pass."""

    def asked(number: int) -> list[tuple[object, ...]]:
        requests = plan(number, "salt" if number == 2 else "").requests
        return [(r.prompt, r.seed, r.temperature, r.top_p, r.max_tokens, r.logprobs) for r in requests]

    assert asked(0) == asked(1) == asked(2)
    ids = [request.id for number in range(3) for request in plan(number).requests]
    assert len(set(ids)) == len(ids)


def test_a_salted_refeed_uses_salts_that_no_trunk_has() -> None:
    """Fresh salts per trunk make the pass cold without a reset; a reset keeps the trunk's own."""
    assert {request.salt for request in plan(2, "salt").requests} == {cold_salt(7, 0, 0), cold_salt(7, 0, 1)}
    assert {request.salt for request in plan(2, "reset").requests} == set(TRUNKS)


def test_probes_are_greedy_and_continuations_seeded() -> None:
    """A probe has no noise to seed; a continuation always has."""
    requests = plan(0).requests
    probes = [request for request in requests if request.id.endswith("probe")]
    assert {(probe.seed, probe.temperature, probe.max_tokens, probe.logprobs) for probe in probes} == {
        (None, 0.0, 8, 1)
    }
    seeds = [request.seed for request in requests if not request.id.endswith("probe")]
    assert None not in seeds
    assert len(set(seeds)) == len(seeds)


def test_continuations_sample_as_registered() -> None:
    """Their own temperature, the registered nucleus and the arm, pivot, problem and campaign in the seed."""
    hot = msgspec.structs.replace(SPEC, cont_temperature=0.9, top_p=0.8)
    asked = plan_pass(hot, PASSES[0], 7, 0, CUTS, BLOCK, "").requests[0]
    assert (asked.temperature, asked.top_p, asked.max_tokens, asked.logprobs) == (0.9, 0.8, 50, 0)
    others = [
        plan_pass(msgspec.structs.replace(SPEC, seed=1), PASSES[0], 7, 0, CUTS, BLOCK, "").requests[0],
        plan_pass(SPEC, PASSES[0], 8, 0, CUTS, BLOCK, "").requests[0],
        *(request for request in plan(0).requests if request.seed is not None),
    ]
    assert len({request.seed for request in others}) == len(others)
    later = plan_pass(SPEC, PASSES[0], 7, 3, CUTS, BLOCK, "").requests[0]
    assert later.seed == plan(0).requests[0].seed, "an attempt changes no noise"


def test_a_greedy_continuation_has_no_seed_and_no_nucleus() -> None:
    """The published greedy campaign: continuation temperature 0."""
    greedy = msgspec.structs.replace(SPEC, cont_temperature=0.0)
    asked = plan_pass(greedy, PASSES[0], 7, 0, CUTS, BLOCK, "").requests[0]
    assert (asked.seed, asked.temperature, asked.top_p) == (None, 0.0, 1.0)


def test_each_arm_forces_its_own_token() -> None:
    """The prompt is the prefix and then the arm's token."""
    requests = plan(0).requests
    assert [request.prompt[-1] for request in requests[:6]] == [1, 1, 1, 2, 2, 2]
    assert requests[0].prompt[:-1] == CUTS[0].prefix


def test_a_request_that_resumes_its_trunk_passes() -> None:
    """The exact hit, from its own trunk's blocks, proves an exact request."""
    exact = plan(0)
    assert all(
        check_first_token(exact, resumed(exact, number), BLOCK, ledger=True) is None
        for number in range(len(exact.requests))
    )


@pytest.mark.parametrize(
    ("cached", "scope", "words"),
    [(None, "pivot", "no cached-token count"), (16, "problem", "evicted"), (48, "pivot", "cannot be right")],
)
def test_a_missing_lower_or_higher_count_fails(cached: int | None, scope: str, words: str) -> None:
    """The expected hit is an equality, and a missing count is a failure (known-faults 2 and 3)."""
    exact = plan(0)
    blocks = 0 if cached is None else cached // BLOCK
    first = FirstToken(exact.requests[0].id, cached, origins(TRUNKS[0], blocks))
    failure = check_first_token(exact, first, BLOCK, ledger=True)
    assert failure is not None
    assert (failure.scope, failure.expected, failure.found) == (scope, 32, cached)
    assert words in failure.reason


def test_a_block_of_another_owner_fails_an_exact_request() -> None:
    """A right count served by a block that a sibling stored again is not the trunk's decode-time state."""
    exact = plan(0)
    first = FirstToken(exact.requests[0].id, 32, (BlockOrigin(TRUNKS[0], 0, 0), BlockOrigin("7.0/exact-1/x", 16, 0)))
    failure = check_first_token(exact, first, BLOCK, ledger=True)
    assert failure is not None
    assert failure.scope == "problem"
    assert "7.0/exact-1/x" in failure.reason


@pytest.mark.parametrize(
    ("number", "origin", "words"),
    [
        (1, BlockOrigin(TRUNKS[0], 0, 0), "token 16, but starts at 0"),
        (0, BlockOrigin(TRUNKS[0], 16, 0), "token 0, but starts at 16"),
        (1, BlockOrigin(TRUNKS[0], 16, 0), "12 tokens that were written in decode, but has 0"),
        (0, BlockOrigin(TRUNKS[0], 0, 4), "0 tokens that were written in decode, but has 4"),
    ],
)
def test_the_right_owners_wrong_block_fails_an_exact_request(number: int, origin: BlockOrigin, words: str) -> None:
    """Block i starts at i*b and has exactly the decode-time tokens that lie behind the prompt."""
    exact = plan(0)
    blocks = list(origins(TRUNKS[0], 2))
    blocks[number] = origin
    failure = check_first_token(exact, FirstToken(exact.requests[0].id, 32, tuple(blocks)), BLOCK, ledger=True)
    assert failure is not None
    assert (failure.scope, failure.check, failure.request) == ("problem", "origin", exact.requests[0].id)
    assert f"block {number} " in failure.reason
    assert words in failure.reason


def test_a_ledger_that_lost_track_fails() -> None:
    """A backend that promises origins and gives none, or too few, proves nothing."""
    exact = plan(0)
    for known in (None, origins(TRUNKS[0], 1)):
        failure = check_first_token(exact, FirstToken(exact.requests[0].id, 32, known), BLOCK, ledger=True)
        assert failure is not None
        assert "ledger" in failure.reason
    assert check_first_token(exact, FirstToken(exact.requests[0].id, 32, None), BLOCK, ledger=False) is None


def test_a_refeed_leader_must_find_nothing() -> None:
    """The first request of each trunk reports 0 cached tokens, or the pass was not cold."""
    cold = plan(2, "salt")
    leaders = [cold.requests[number].id for number in (0, 12)]
    assert ["/r0/p33/" in leaders[0], "/r1/p34/" in leaders[1]] == [True, True]
    for leader in leaders:
        assert check_first_token(cold, FirstToken(leader, 0, ()), BLOCK, ledger=True) is None
        failure = check_first_token(cold, FirstToken(leader, 32, None), BLOCK, ledger=False)
        assert failure is not None
        assert "not cold" in failure.reason


def test_a_refeed_follower_may_hit_this_pass_but_nothing_older() -> None:
    """Followers hit their leader's fresh prefill, as pipelines run it; a block from before the pass is a failure."""
    cold = plan(2, "salt")
    leader, follower = cold.requests[0].id, cold.requests[1].id
    assert check_first_token(cold, FirstToken(follower, 32, origins(leader, 2, 33)), BLOCK, ledger=True) is None
    stale = check_first_token(cold, FirstToken(follower, 32, origins(TRUNKS[0], 2)), BLOCK, ledger=True)
    assert stale is not None
    assert (stale.scope, stale.expected) == ("problem", None)
    over = check_first_token(cold, FirstToken(follower, 48, None), BLOCK, ledger=False)
    assert over is not None
