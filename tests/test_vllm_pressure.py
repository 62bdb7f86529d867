"""A KV cache that is too small: lost trunks and preemptions are seen, in this process and across processes."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from engine.protocol.pivots import expected_hit
from sessions.errors import RefeedError
from tests.helpers.embedded_checkpoints import Recorder, prompt_of, request
from tests.helpers.vllm_engines import BLOCK, checkpoint, started

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.backend import Completion, FirstToken
    from engine.backends.vllm.backend import VllmBackend

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

BLOCKS = 24


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint."""
    return checkpoint(tmp_path_factory.mktemp("vllm") / "model")


@pytest.fixture(scope="module", params=["in-process", "multiprocess"])
def engine(model: Path, request: pytest.FixtureRequest) -> Iterator[VllmBackend]:
    """An engine of 24 blocks, of which vLLM keeps one."""
    with started(model, multiprocess=request.param == "multiprocess", kv_blocks=BLOCKS) as backend:
        yield backend


@pytest.fixture
def vllm(engine: VllmBackend) -> VllmBackend:
    """The engine with an empty cache."""
    assert engine.reset_prefix_cache() is True
    return engine


def crowd(vllm: VllmBackend, watch: Recorder) -> tuple[Completion, ...]:
    """Six requests that need 54 blocks between them."""
    requests = [request(f"c{n}", prompt_of(60, n), salt=f"c{n}", max_tokens=220) for n in range(6)]
    return vllm.run(requests, watch)


def test_the_engine_is_what_was_asked_for(vllm: VllmBackend) -> None:
    """The number of blocks is read back; a core in its own process proves hits by counts alone, and says so."""
    assert vllm.info.num_blocks == BLOCKS
    assert vllm.info.proof == ("counts" if vllm.ledger is None else "ledger")
    assert any("counts alone" in text for text in vllm.info.machine.values()) == (vllm.ledger is None)


def test_a_batch_starts_whole_in_either_process_mode(vllm: VllmBackend) -> None:
    """A core apart that began with what had arrived would batch each pass by chance, and the floor would be noise."""
    for turn in range(2):
        watch = Recorder()
        vllm.run([request(f"w{turn}/{n}", prompt_of(20, n), salt=f"w{n}") for n in range(12)], watch)
        assert next(step.tokens for step in watch.steps if step.tokens > 0) == 12


def test_hits_are_exact_in_either_process_mode(vllm: VllmBackend) -> None:
    """Cached counts arrive with the first token and equal b*floor((L-1)/b)."""
    prompt = prompt_of(3 * BLOCK + 5)
    vllm.run([request("store", prompt, max_tokens=1)], Recorder())
    watch = Recorder()
    vllm.run([request(f"h{n}", prompt[:n], max_tokens=2) for n in (BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 1)], watch)
    assert [first.cached_tokens for first in watch.firsts] == [
        expected_hit(n, BLOCK) for n in (BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 1)
    ]


def test_preempted_requests_are_named_and_counted(vllm: VllmBackend) -> None:
    """Every preemption shows in its request's completion and in the step that made it; cached counts do not show it."""
    watch = Recorder()
    done = crowd(vllm, watch)
    assert {completion.finish for completion in done} <= {"length", "stop"}
    preempted = [completion for completion in done if completion.preemptions > 0]
    assert preempted
    assert watch.steps[-1].preemptions == sum(completion.preemptions for completion in done)
    assert [completion.cached_tokens for completion in preempted] == [0] * len(preempted)


def test_an_evicted_trunk_is_a_short_hit(vllm: VllmBackend) -> None:
    """A trunk whose tail blocks were taken by later requests is hit for less than it should be."""
    trunk = prompt_of(5 * BLOCK + 1, seed=9)
    vllm.run([request("trunk", trunk, salt="t", max_tokens=1)], Recorder())
    for number in range(3):
        vllm.run([request(f"other{number}", prompt_of(8 * BLOCK, number), salt=f"o{number}", max_tokens=1)], Recorder())
    found = vllm.run([request("resume", trunk, salt="t", max_tokens=1)], Recorder())[0]
    assert found.cached_tokens is not None
    assert found.cached_tokens < expected_hit(len(trunk), BLOCK)
    if vllm.ledger is not None:
        stored = [origin for origin in vllm.ledger._origins.values() if origin.owner == "trunk"]
        assert len(stored) < 5, "what was evicted is forgotten"


def test_what_a_preempted_request_stores_again_was_prefilled(vllm: VllmBackend) -> None:
    """The hidden re-feed: generated tokens that were recomputed by prefill are not called decode-time state."""
    if vllm.ledger is None:
        assert vllm.info.proof == "counts"
        return
    done = crowd(vllm, Recorder())
    last = [completion for completion in done if completion.preemptions > 0][-1]
    tokens = prompt_of(60, int(last.id[1:])) + last.tokens
    origins = vllm.run([request("look", (*tokens, 1), salt=last.id, max_tokens=1)], Recorder())[0].origins
    assert origins
    recomputed = [origin for origin in origins if origin.start >= 2 * BLOCK and origin.decode_tokens == 0]
    decoded = [origin for origin in origins if origin.decode_tokens == BLOCK]
    assert recomputed
    assert all(origin.start > recomputed[-1].start for origin in decoded)


def test_aborting_frees_the_blocks(vllm: VllmBackend) -> None:
    """After a stop the whole cache can be reset and a full-size request served."""
    watch = Recorder(stop_at_first="c0")
    done = crowd(vllm, watch)
    assert {completion.finish for completion in done} == {"aborted"}
    assert vllm.reset_prefix_cache() is True
    assert crowd(vllm, Recorder())[0].finish in {"length", "stop"}


def test_a_request_that_can_never_fit_is_refused_before_anything_runs(vllm: VllmBackend) -> None:
    """Too long for the model, or for the whole cache: one line with the numbers."""
    with pytest.raises(RefeedError, match="512 in all"):
        vllm.run([request("long", prompt_of(512), max_tokens=1)], Recorder())


def test_an_engine_that_is_closed_says_so(model: Path) -> None:
    """Closing twice is safe; using a closed engine is an error that says what to do."""
    with started(model, kv_blocks=32) as backend:
        whole = backend.info
        backend._info = replace(whole, num_blocks=4)
        with pytest.raises(RefeedError, match="may need 13 KV blocks, but there are 3"):
            backend.run([request("big", prompt_of(200), max_tokens=200)], Recorder())
        backend._info = whole
        backend.close()
        backend.close()
        with pytest.raises(RefeedError, match="was closed"):
            backend.run([request("after", prompt_of(20))], Recorder())


def test_a_core_that_dies_ends_the_batch_and_any_other_call_with_an_error(model: Path) -> None:
    """In its own process the core can be killed: `run`, and a reset that waits, raise soon and do not wait for ever."""
    with started(model, multiprocess=True) as backend:
        refused: list[str] = []

        def reset() -> None:
            try:
                backend.reset_prefix_cache()
            except RefeedError as error:
                refused.append(error.message)

        waiting = threading.Thread(target=reset, daemon=True)

        class Killing(Recorder):
            def first_token(self, first: FirstToken) -> bool:
                (core,) = [process.pid for process in backend.engine.engine_core.resources.engine_manager.processes]
                os.kill(core, signal.SIGSTOP)
                waiting.start()
                waiting.join(0.5)
                os.kill(core, signal.SIGKILL)
                return super().first_token(first)

        with pytest.raises(RefeedError, match="died"):
            backend.run([request("last", prompt_of(60), max_tokens=400)], Killing())
        waiting.join(60)
        assert not waiting.is_alive()
        reset()
        waited, asked_too_late = refused
        assert "emptying the cache" in waited
        assert "died" in waited
        assert "EngineDead" in asked_too_late
