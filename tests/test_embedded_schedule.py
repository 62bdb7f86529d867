"""Batching, chunks, preemption, limits and aborts of the embedded engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sessions.errors import RefeedError
from tests.helpers.embedded_checkpoints import EOS, QWEN2, Recorder, open_engine, prompt_of, request, write_checkpoint

if TYPE_CHECKING:
    from pathlib import Path

    from engine.backend import Completion, FirstToken, Request, StepStats
    from engine.backends.embedded.backend import EmbeddedBackend


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One Qwen2-shaped checkpoint."""
    return write_checkpoint(tmp_path_factory.mktemp("model"), QWEN2)


def texts(out: tuple[Completion, ...]) -> list[tuple[int, ...]]:
    """Tokens of each completion."""
    return [done.tokens for done in out]


def many(count: int, **changes: Any) -> list[Request]:
    """Sampled requests of different lengths, each under its own salt."""
    return [
        request(f"r{i}", prompt_of(20 + 5 * i, i), salt=f"s{i}", seed=i, temperature=1.0, **changes)
        for i in range(count)
    ]


def test_completions_come_in_request_order_and_stats_add_up(folder: Path) -> None:
    """Order, token counts and finished counts hold while more wait than fit."""
    engine = open_engine(folder, max_model_len=256, max_num_seqs=3)
    watcher = Recorder()
    out = engine.run(many(8, max_tokens=9), watcher)
    assert [done.id for done in out] == [f"r{i}" for i in range(8)]
    assert watcher.steps[-1].tokens == sum(len(done.tokens) for done in out)
    assert watcher.steps[-1].finished == 8
    assert max(stats.running for stats in watcher.steps) <= 3
    assert watcher.steps[0].waiting == 5
    assert [first.id for first in watcher.firsts] == [f"r{i}" for i in range(8)]
    assert all((stats.kv_use > 0) == (stats.running > 0) for stats in watcher.steps)
    assert any(stats.running > 0 for stats in watcher.steps)


def test_an_id_is_used_once_in_the_life_of_an_engine(folder: Path) -> None:
    """The ledger names owners by id: a second call with one of them is refused before any work."""
    engine = open_engine(folder, max_model_len=64)
    engine.run([request("r", prompt_of(8), max_tokens=1)], Recorder())
    with pytest.raises(RefeedError, match="used before"):
        engine.run([request("other", prompt_of(8), max_tokens=1), request("r", prompt_of(9), max_tokens=1)], Recorder())
    assert engine.run([request("other", prompt_of(8), max_tokens=1)], Recorder())[0].id == "other"


def test_results_do_not_depend_on_chunks_or_batch_limits_in_invariant_mode(folder: Path) -> None:
    """Chunk sizes and batch sizes change no token and no logprob."""
    runs = [
        open_engine(folder, numerics="invariant", max_model_len=256, max_num_seqs=seqs, max_num_batched_tokens=tokens)
        for seqs, tokens in ((8, 2048), (3, 17), (8, 40))
    ]
    outs = [engine.run(many(8, max_tokens=20, logprobs=3), Recorder()) for engine in runs]
    assert outs[0] == outs[1] == outs[2]


def test_preemption_is_counted_and_changes_no_token(folder: Path) -> None:
    """With too few blocks some requests are recomputed; they say so, and in invariant mode results stay the same."""
    wide = open_engine(folder, numerics="invariant", max_model_len=128, num_blocks=200, max_num_seqs=8)
    tight = open_engine(folder, numerics="invariant", max_model_len=128, num_blocks=14, max_num_seqs=8)
    watcher = Recorder()
    expected = wide.run(many(6, max_tokens=60), Recorder())
    out = tight.run(many(6, max_tokens=60), watcher)
    assert texts(out) == texts(expected)
    assert sum(done.preemptions for done in out) == watcher.steps[-1].preemptions > 0
    assert all(done.preemptions == 0 for done in expected)
    assert out[0].preemptions == 0  # the oldest is never the victim
    assert all(
        done.cached_tokens == 0 for done in out
    )  # what was known at first admission, not the recomputation's hits
    assert len(watcher.firsts) == 6
    tight.check_integrity()
    assert tight.reset_prefix_cache() is True


def test_blocks_recomputed_after_preemption_count_as_prefilled(folder: Path) -> None:
    """Decoded tokens of a preempted request are prefilled again, and the ledger says so."""
    engine = open_engine(folder, max_model_len=128, num_blocks=9, max_num_seqs=2)
    first = request("first", prompt_of(40, 1), salt="a", max_tokens=50)
    second = request("second", prompt_of(40, 2), salt="b", max_tokens=50)
    out = engine.run([first, second], Recorder())
    assert [done.preemptions > 0 for done in out] == [False, True]
    origins = engine.resident_origins((*second.prompt, *out[1].tokens), "b")
    # Undisturbed it would be [0, 0, 8, 16, 16]. Preempted with 65 tokens, its third block was still resident.
    assert [origin.decode_tokens for origin in origins] == [0, 0, 8, 0, 15]


def test_a_step_that_preempts_admits_nobody(folder: Path) -> None:
    """A preempted request waits for the next step even where its blocks, hit in another's copies, would fit at once.

    Both prompts are the same two full blocks; the last token is always computed, so the second request holds a copy of
    its own of the second block. When it is preempted that copy is free, and both of its blocks are the first one's.
    """
    engine = open_engine(folder, max_model_len=64, num_blocks=4, max_num_seqs=2)
    first, second = (request(name, prompt_of(32), max_tokens=4) for name in ("first", "second"))
    watcher = Recorder()
    out = engine.run([first, second], watcher)
    assert [done.preemptions for done in out] == [0, 1]
    at = next(number for number, stats in enumerate(watcher.steps) if stats.preemptions == 1)
    assert [(stats.running, stats.waiting) for stats in watcher.steps[at : at + 2]] == [(1, 1), (2, 0)]


@pytest.mark.parametrize(("changes", "finish", "length"), [({"max_tokens": 5}, "length", 5), ({}, "length", 24)])
def test_length_limits_end_a_request(folder: Path, changes: dict[str, Any], finish: str, length: int) -> None:
    """max_tokens and max_model_len both end with "length"."""
    engine = open_engine(folder, max_model_len=64, max_num_seqs=2)
    (done,) = engine.run([request("a", prompt_of(40), **{"max_tokens": 100, **changes})], Recorder())
    assert (done.finish, len(done.tokens)) == (finish, length)


def test_a_stop_token_ends_a_request_and_is_kept(folder: Path) -> None:
    """Sampled requests that meet the stop id end there with it as the last token."""
    engine = open_engine(folder, max_model_len=512, max_num_seqs=64)
    prompts = [request(f"r{i}", prompt_of(10), seed=i, temperature=3.0, max_tokens=300) for i in range(40)]
    out = engine.run(prompts, Recorder())
    stopped = [done for done in out if done.finish == "stop"]
    assert len(stopped) > 5
    assert all(done.tokens[-1] == EOS and EOS not in done.tokens[:-1] for done in stopped)
    assert all(EOS not in done.tokens for done in out if done.finish == "length")


@pytest.mark.parametrize("stop", [{"stop_at_first": "r1"}, {"stop_at_step": 2}])
def test_a_false_answer_aborts_within_the_step_and_frees_everything(folder: Path, stop: dict[str, Any]) -> None:
    """No further step runs, unfinished and waiting requests are "aborted", blocks are free, the engine serves on."""
    engine = open_engine(folder, max_model_len=256, max_num_seqs=4)
    watcher = Recorder(**stop)
    out = engine.run(many(9, max_tokens=30), watcher)
    assert len(watcher.steps) == (1 if "stop_at_first" in stop else 2)
    assert {done.finish for done in out} == {"aborted"}
    assert [done.cached_tokens for done in out] == [0] * 4 + [None] * 5
    assert [len(done.tokens) for done in out] == [len(watcher.steps)] * 4 + [0] * 5
    engine.check_integrity()
    assert engine.reset_prefix_cache() is True
    (after,) = engine.run([request("after", prompt_of(10))], Recorder())
    assert after.finish == "length"


class Failing(Recorder):
    """Raises in its first step."""

    def step(self, stats: StepStats) -> bool:
        """Raise."""
        raise KeyError(stats.running)


def test_a_watcher_that_raises_leaves_no_block_in_use(folder: Path) -> None:
    """The error passes through, and the engine is as after an abort."""
    engine = open_engine(folder, max_model_len=256, max_num_seqs=4)
    with pytest.raises(KeyError):
        engine.run(many(6), Failing())
    engine.check_integrity()
    assert engine.reset_prefix_cache() is True


def test_a_failed_step_closes_the_engine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks listed before their KV was written must never be hit: after a failure nothing is served."""
    engine = open_engine(folder, max_model_len=256, max_num_seqs=4)

    def fail(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr("engine.backends.embedded.model.Model.forward", fail)
    with pytest.raises(RefeedError, match="out of memory"):
        engine.run(many(2), Recorder())
    with pytest.raises(RefeedError, match="closed"):
        engine.run([request("later", prompt_of(5))], Recorder())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": ()}, "prompt is empty"),
        ({"prompt": (3, 96)}, "outside 0..95"),
        ({"prompt": (3,) * 128}, "max_model_len = 128"),
        ({"prompt": (3,) * 60, "max_tokens": 60}, "8 KV blocks, and there are 7"),
        ({"salt": ""}, "salt is empty"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"temperature": 1.0, "seed": None}, "seed is None"),
        ({"logprobs": 97}, "logprobs is 97"),
        ({"id": "fine"}, "used before"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused_before_any_work(
    folder: Path, changes: dict[str, Any], message: str
) -> None:
    """One clear error names request and value; the good request beside it was not started."""
    engine = open_engine(folder, max_model_len=128, num_blocks=7, max_num_seqs=2)
    fields = {"id": "bad", "prompt": (3, 4), **changes}
    bad = request(fields.pop("id"), fields.pop("prompt"), **fields)
    watcher = Recorder()
    with pytest.raises(RefeedError, match=message) as caught:
        engine.run([request("fine", prompt_of(20)), bad], watcher)
    assert caught.value.kind == "engine"
    assert watcher.steps == []


def test_a_closed_engine_says_so_and_closes_twice(folder: Path) -> None:
    """`close` is safe to repeat; serving afterwards is an error."""
    engine = open_engine(folder, max_model_len=128, max_num_seqs=2)
    engine.close()
    engine.close()
    with pytest.raises(RefeedError, match="closed"):
        engine.run([request("a", prompt_of(5))], Recorder())


class Auditor(Recorder):
    """Checks the ledger's books after every step, and aborts at random."""

    def __init__(self, engine: EmbeddedBackend, rng: np.random.Generator) -> None:
        """Audit `engine`."""
        super().__init__()
        self.engine = engine
        self.rng = rng

    def first_token(self, first: FirstToken) -> bool:
        """Stop once in a hundred."""
        return super().first_token(first) and self.rng.random() > 0.01

    def step(self, stats: StepStats) -> bool:
        """Check."""
        self.engine.check_integrity()
        return super().step(stats)


@pytest.mark.parametrize("numerics", ["split", "natural"])
def test_books_balance_through_random_workloads(folder: Path, numerics: Any) -> None:
    """Shared prefixes, preemption, tiny budgets and aborts leave a ledger that balances; hits are full blocks."""
    rng = np.random.default_rng(5)
    engine = open_engine(
        folder, numerics=numerics, max_model_len=160, num_blocks=24, max_num_seqs=6, max_num_batched_tokens=48
    )
    preemptions = 0
    for call in range(12):
        batch = []
        for i in range(int(rng.integers(1, 14))):
            prompt = prompt_of(int(rng.integers(1, 100)), seed=int(rng.integers(0, 3)))
            salt, temperature = f"s{rng.integers(0, 2)}", float(rng.integers(0, 2))
            batch.append(
                request(
                    f"{call}-{i}",
                    prompt,
                    salt=salt,
                    seed=i,
                    temperature=temperature,
                    max_tokens=int(rng.integers(1, 50)),
                )
            )
        watcher = Auditor(engine, rng)
        out = engine.run(batch, watcher)
        engine.check_integrity()
        preemptions += sum(done.preemptions for done in out)
        assert all(done.cached_tokens is None or done.cached_tokens % 16 == 0 for done in out)
        assert all(len(done.tokens) >= 1 for done in out if done.finish != "aborted")
    assert preemptions > 0
    assert engine.reset_prefix_cache() is True
