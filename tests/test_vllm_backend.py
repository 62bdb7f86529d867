"""Stock vLLM on this CPU: what the cache serves, what the ledger says, and what a watcher can stop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.protocol.passes import PASSES, Cut, check_first_token, plan_pass
from engine.protocol.pivots import PivotRule, Site, expected_hit, select
from tests.helpers.embedded_checkpoints import EOS, SPECIAL, VOCAB, Recorder, prompt_of, request
from tests.helpers.vllm_engines import BLOCK, checkpoint, spec_of, started

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.backend import Completion, FirstToken
    from engine.backends.vllm.backend import VllmBackend

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

SAMPLED = {"temperature": 1.0, "top_p": 0.95}
HOT = {"temperature": 2.0, "top_p": 0.95}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint."""
    return checkpoint(tmp_path_factory.mktemp("vllm") / "model")


@pytest.fixture(scope="module")
def engine(model: Path) -> Iterator[VllmBackend]:
    """One engine for the whole file; starting one takes half a minute."""
    with started(model) as backend:
        yield backend


@pytest.fixture
def vllm(engine: VllmBackend) -> VllmBackend:
    """The engine with an empty cache."""
    assert engine.reset_prefix_cache() is True
    return engine


def one(backend: VllmBackend, name: str, prompt: tuple[int, ...], **changes: object) -> Completion:
    """Serve one request."""
    return backend.run([request(name, prompt, **changes)], Recorder())[0]


def grown(backend: VllmBackend, salt: str, tokens: int = 150) -> tuple[str, tuple[int, ...]]:
    """A trunk under exactly this salt; returns its request id and all of its tokens."""
    prompt = prompt_of(40)
    for seed in range(50):
        name = f"trunk-{salt}-{seed}"
        made = one(backend, name, prompt, salt=f"{salt}-{seed}", seed=seed, max_tokens=tokens, **SAMPLED)
        if len(made.tokens) >= 100:
            return f"{salt}-{seed}", prompt + made.tokens
    pytest.fail("no seed of 50 gave a trunk of 100 tokens; the random checkpoint has changed")


def test_a_request_hits_all_whole_blocks_before_its_last_token_and_no_more(vllm: VllmBackend) -> None:
    """Hits are b*floor((L-1)/b) for every length around two block boundaries, the multiples of b included."""
    salt, tokens = grown(vllm, "exact")
    lengths = [BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 1, 2 * BLOCK, 2 * BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 3]
    cached = [one(vllm, f"L{length}", tokens[:length], salt=salt, max_tokens=1).cached_tokens for length in lengths]
    assert cached == [expected_hit(length, BLOCK) for length in lengths]


def test_the_ledger_names_the_owner_start_and_decoded_share_of_each_hit_block(vllm: VllmBackend) -> None:
    """A trunk with a prompt of 40 tokens decoded 24 of its second block's 32 tokens and all of its third's."""
    salt, tokens = grown(vllm, "origin")
    found = one(vllm, "resume", tokens[: 3 * BLOCK + 2], salt=salt, max_tokens=1).origins
    assert found is not None
    assert [(origin.start, origin.decode_tokens) for origin in found] == [(0, 0), (BLOCK, 24), (2 * BLOCK, BLOCK)]
    assert {origin.owner for origin in found} == {f"trunk-{salt}"}


def test_prefilled_blocks_have_no_decoded_tokens(vllm: VllmBackend) -> None:
    """The same tokens under a fresh salt are prefilled, and the ledger says so."""
    _, tokens = grown(vllm, "source")
    one(vllm, "first", tokens[:100], salt="fed", max_tokens=1)
    found = one(vllm, "second", tokens[:100], salt="fed", max_tokens=1).origins
    assert found is not None
    assert [(origin.owner, origin.decode_tokens) for origin in found] == [("first", 0)] * 3


def test_a_twin_hit_on_a_siblings_decoded_block_is_seen(vllm: VllmBackend) -> None:
    """A request that reads what a sibling continuation decoded names that sibling as the owner."""
    prompt = prompt_of(60, seed=3)
    for seed in range(50):
        sibling = one(vllm, f"sibling{seed}", prompt, salt=f"twin{seed}", seed=seed, max_tokens=60, **SAMPLED)
        if len(sibling.tokens) == 60:
            break
    found = one(vllm, "twin", prompt + sibling.tokens[:40], salt=f"twin{seed}", max_tokens=1).origins
    assert found is not None
    assert [(origin.owner, origin.decode_tokens) for origin in found] == [
        (sibling.id, 0),
        (sibling.id, 4),
        (sibling.id, 32),
    ]


def test_salts_share_nothing_and_survive_each_other(vllm: VllmBackend) -> None:
    """Salts a, b, a, c, b give 0, 0, full, 0, full hits: a pass under a fresh salt is cold and costs no trunk."""
    prompt = prompt_of(100)
    cached = [
        one(vllm, f"{number}{salt}", prompt, salt=salt, max_tokens=1).cached_tokens
        for number, salt in enumerate("abacb")
    ]
    assert cached == [0, 0, 96, 0, 96]


def test_a_hit_with_one_block_of_unknown_origin_has_no_origins(vllm: VllmBackend) -> None:
    """The blocks that are known are not told as if they were all: the check fails on None."""
    salt, tokens = grown(vllm, "lost")
    known = one(vllm, "before", tokens[:100], salt=salt, max_tokens=1).origins
    assert known is not None
    assert len(known) > 1
    assert vllm.ledger is not None
    lost = next(block for block, origin in vllm.ledger._origins.items() if origin == known[-1])
    del vllm.ledger._origins[lost]
    after = one(vllm, "after", tokens[:100], salt=salt, max_tokens=1)
    assert (after.cached_tokens, after.origins) == (len(known) * BLOCK, None)


def test_reset_fails_while_a_request_runs_and_holds_afterwards(vllm: VllmBackend) -> None:
    """A reset in the middle of a batch answers False; afterwards True, and the next request finds nothing."""
    answers: list[bool] = []

    class Resetting(Recorder):
        def first_token(self, first: FirstToken) -> bool:
            answers.append(vllm.reset_prefix_cache())
            return super().first_token(first)

    prompt = prompt_of(100)
    vllm.run([request("running", prompt, max_tokens=20, temperature=1.0)], Resetting())
    assert answers == [False]
    assert one(vllm, "warm", prompt, max_tokens=1).cached_tokens == 96
    assert vllm.reset_prefix_cache() is True
    assert one(vllm, "cold", prompt, max_tokens=1).cached_tokens == 0


def test_a_seed_gives_the_same_tokens_alone_and_in_any_batch(vllm: VllmBackend) -> None:
    """Noise follows the request's seed, not its neighbours; both batches resume the same cached prefix."""
    prompt = prompt_of(70)
    one(vllm, "store", prompt, salt="seeds", max_tokens=1)
    mine = {"salt": "seeds", "seed": 2**62 + 5, "max_tokens": 12, **HOT}
    alone = one(vllm, "alone", prompt, **mine).tokens
    crowd = [request(f"n{n}", prompt_of(30, n), salt="x", seed=n, max_tokens=12, **HOT) for n in range(9)]
    crowded = vllm.run([*crowd[:4], request("mine", prompt, **mine), *crowd[4:]], Recorder())
    assert crowded[4].tokens == alone
    other = one(vllm, "other", prompt, **{**mine, "seed": 2**62 + 6}).tokens
    assert other != alone


def test_a_batch_repeats_itself_exactly(vllm: VllmBackend) -> None:
    """Two equal batches resuming the same trunk give equal tokens and equal logprobs."""
    salt, tokens = grown(vllm, "replica")

    def batch(name: str) -> tuple[Completion, ...]:
        requests = [
            request(f"{name}{n}", tokens[: 98 + n % 3], salt=salt, seed=n, max_tokens=15, logprobs=2, **SAMPLED)
            for n in range(12)
        ]
        return vllm.run(requests, Recorder())

    first, second = batch("a"), batch("b")
    assert [done.tokens for done in first] == [done.tokens for done in second]
    assert [done.logprobs for done in first] == [done.logprobs for done in second]


def test_logprobs_come_likeliest_first_with_the_sampled_apart(vllm: VllmBackend) -> None:
    """Per token: k logprobs, descending, ties by lowest id, as float32 values that sum to at most one."""
    made = one(vllm, "lp", prompt_of(50), seed=3, max_tokens=30, logprobs=5, **SAMPLED)
    assert len(made.logprobs) == len(made.tokens)
    for token, entry in zip(made.tokens, made.logprobs, strict=True):
        assert list(entry.top) == sorted(entry.top, key=lambda pair: (-pair[1], pair[0]))
        assert len(entry.top) == 5
        assert dict(entry.top).get(token, entry.sampled) == entry.sampled
        assert float(np.float32(entry.sampled)) == entry.sampled
        assert sum(np.exp(value) for _, value in entry.top) < 1 + 1e-5


def test_raw_logprobs_do_not_depend_on_the_temperature(vllm: VllmBackend) -> None:
    """A greedy and a hot request report the same distribution at their first position."""
    prompt = prompt_of(50, seed=4)
    cold = one(vllm, "t0", prompt, salt="lp", max_tokens=1, logprobs=5)
    one(vllm, "again", prompt, salt="lp", max_tokens=1)
    hot = one(vllm, "t2", prompt, salt="lp2", seed=1, temperature=2.0, max_tokens=1, logprobs=5)
    assert cold.logprobs[0].top == hot.logprobs[0].top


def test_a_watcher_that_objects_to_a_first_token_stops_the_batch_in_that_step(vllm: VllmBackend) -> None:
    """No request decodes a second step after the watcher said no, and the engine is idle at once."""
    watch = Recorder(stop_at_first="r2")
    requests = [request(f"r{n}", prompt_of(40, n), seed=n, max_tokens=64, temperature=1.0) for n in range(6)]
    done = vllm.run(requests, watch)
    assert {completion.finish for completion in done} == {"aborted"}
    assert len(watch.steps) == 1
    assert all(len(completion.tokens) <= 1 for completion in done)
    assert vllm.reset_prefix_cache() is True


def test_a_watcher_can_stop_after_any_step(vllm: VllmBackend) -> None:
    """Stopped after the fifth step, each request has the five tokens that it generated."""
    watch = Recorder(stop_at_step=5)
    done = vllm.run(
        [request(f"s{n}", prompt_of(40, n), seed=n, max_tokens=64, temperature=0.0) for n in range(3)], watch
    )
    aborted = [completion for completion in done if completion.finish == "aborted"]
    assert aborted
    assert {len(completion.tokens) for completion in aborted} == {5}
    assert watch.steps[-1].tokens == sum(len(completion.tokens) for completion in done)
    assert len(watch.steps) == 5


def test_first_tokens_are_told_before_anything_finishes(vllm: VllmBackend) -> None:
    """All cached counts of a batch are known after one step, long before its first completion."""
    watch = Recorder()
    vllm.run([request(f"e{n}", prompt_of(40, n), seed=n, max_tokens=20, temperature=1.0) for n in range(8)], watch)
    assert [first.id for first in watch.firsts] == [f"e{n}" for n in range(8)]
    assert watch.steps[0].running == 8
    assert 0 < watch.steps[0].kv_use < 1


def test_a_stop_token_ends_a_request_and_is_included(vllm: VllmBackend) -> None:
    """The end-of-sequence id of generation_config.json ends a request as "stop"; limits end it as "length"."""
    assert vllm.info.stop_ids == {EOS}
    done = vllm.run(
        [request(f"q{n}", prompt_of(30), seed=n, max_tokens=300, temperature=2.0) for n in range(24)], Recorder()
    )
    stopped = [completion for completion in done if completion.finish == "stop"]
    assert stopped
    assert all(completion.tokens[-1] == EOS and EOS not in completion.tokens[:-1] for completion in stopped)
    assert all(len(completion.tokens) == 300 for completion in done if completion.finish == "length")


def test_text_goes_through_the_models_own_template(vllm: VllmBackend) -> None:
    """A one-turn chat is rendered, encoded, and read back without its special tokens."""
    tokens = vllm.encode_chat("be brief", "3 + 4?")
    assert vllm.decode(tokens) == "be brief3 + 4?"
    assert {0, 1, 2, 3, 4} <= vllm.info.special_ids
    assert vllm.info.vocab_size == VOCAB
    assert len(SPECIAL) == 5


def test_the_engine_says_what_decides_its_numerics(vllm: VllmBackend) -> None:
    """Versions, device, kernels, limits and seeds stand in the numerics; nothing there changes from run to run."""
    told = vllm.info.numerics
    for name in (
        "vllm",
        "torch",
        "device",
        "attention_backend",
        "block_size",
        "dtype",
        "max_num_seqs",
        "runner",
        "seeds",
        "max_num_batched_tokens",
        "cudagraph_mode",
        "chunked_prefill",
        "sampler",
        "env:VLLM_BATCH_INVARIANT",
    ):
        assert told[name], name
    assert told["process"] == "in the worker's process"
    assert not [name for name, value in told.items() if "vllm_dist" in value or "vllm_mm" in value]
    assert vllm.info.proof == "ledger"


def cut_of(vllm: VllmBackend, problem: int) -> Cut:
    """A trunk's first boundary position as a pivot, whatever its margin."""
    prompt = prompt_of(40)
    for seed in range(50):
        name = f"{problem}.0/trunk/w0/r{seed}"
        made = one(vllm, name, prompt, salt=name, seed=seed, max_tokens=120, logprobs=5, **SAMPLED)
        rule = PivotRule(1e9, 2, 5, BLOCK, vllm.info.special_ids)
        sites: tuple[Site, ...] = select(len(prompt), made.tokens, made.logprobs, rule).sites
        if len(sites) >= 3:
            site = sites[-1]
            return Cut(seed, (*prompt, *made.tokens[: site.index]), name, site)
    pytest.fail("no trunk of 50 has three boundary positions")


def test_the_checks_of_the_protocol_pass_on_real_hits(vllm: VllmBackend) -> None:
    """Exact 1 and 2 resume the trunk's own blocks; a re-feed under a fresh salt is cold; every request verifies."""
    spec = spec_of(Path("m"), k=3, max_cont_tokens=8, probe_tokens=4)
    cut = cut_of(vllm, 11)
    for pass_ in PASSES:
        plan = plan_pass(spec, pass_, 11, 0, (cut,), BLOCK, "salt" if pass_.reads == "own" else "")
        watch = Recorder()
        vllm.run(plan.requests, watch)
        assert len(watch.firsts) == 2 * (spec.k + 1)
        assert [check_first_token(plan, first, BLOCK, ledger=True) for first in watch.firsts] == [None] * 8


@pytest.mark.parametrize(
    ("altered", "reason"),
    [
        ("uncounted", "no cached-token count"),
        ("fewer", "ledger knows"),
        ("unknown", "ledger knows no blocks"),
        ("stranger", "not by its trunk"),
    ],
)
def test_one_altered_field_of_a_real_first_token_fails_the_check(vllm: VllmBackend, altered: str, reason: str) -> None:
    """Fault injection: a real hit, with one field changed on its way, is refused with the reason."""
    spec = spec_of(Path("m"), k=1, max_cont_tokens=4, probe_tokens=4)
    cut = cut_of(vllm, 12)
    plan = plan_pass(spec, PASSES[0], 12, 0, (cut,), BLOCK, "")
    watch = Recorder()
    vllm.run(plan.requests[:1], watch)
    real = watch.firsts[0]
    assert check_first_token(plan, real, BLOCK, ledger=True) is None
    assert real.origins is not None
    bent = {
        "uncounted": replace(real, cached_tokens=None),
        "fewer": replace(real, cached_tokens=0),
        "unknown": replace(real, origins=None),
        "stranger": replace(real, origins=(replace(real.origins[0], owner="somebody"), *real.origins[1:])),
    }[altered]
    failure = check_first_token(plan, bent, BLOCK, ledger=True)
    assert failure is not None
    assert reason in failure.reason
