"""Prefix hits, owners, salts, twins, eviction and resets of the running embedded engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.backend import BlockOrigin
from tests.helpers.embedded_checkpoints import QWEN2, Recorder, open_engine, prompt_of, request, write_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.backend import Completion, Request, StepStats
    from engine.backends.embedded.backend import EmbeddedBackend

BLOCK = 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One Qwen2-shaped checkpoint."""
    return write_checkpoint(tmp_path_factory.mktemp("model"), QWEN2)


@pytest.fixture
def engine(folder: Path) -> Iterator[EmbeddedBackend]:
    """A fresh engine; its books must balance at the end, with nothing in use."""
    backend = open_engine(folder, max_model_len=256, num_blocks=200, max_num_seqs=16)
    yield backend
    backend.check_integrity()
    assert backend.reset_prefix_cache() is True
    backend.close()


def serve(engine: EmbeddedBackend, *requests: Request) -> tuple[Completion, ...]:
    """Run without stopping."""
    return engine.run(requests, Recorder())


@pytest.mark.parametrize("length", [2, 15, 16, 17, 31, 32, 33, 64, 65, 100])
def test_a_resident_prompt_hits_exactly_all_blocks_before_its_last_token(engine: EmbeddedBackend, length: int) -> None:
    """The second request of a prompt reads b * floor((L-1)/b) tokens, also when b divides L."""
    prompt = prompt_of(length)
    first, second = (serve(engine, request(name, prompt, max_tokens=1))[0] for name in ("a", "b"))
    assert first.cached_tokens == 0
    assert second.cached_tokens == BLOCK * ((length - 1) // BLOCK)
    assert second.origins == tuple(BlockOrigin("a", start, 0) for start in range(0, second.cached_tokens, BLOCK))
    assert engine.resident_origins(prompt, "s") == second.origins


def test_salts_isolate(engine: EmbeddedBackend) -> None:
    """A prompt under another salt hits nothing, and its blocks stay its own."""
    prompt = prompt_of(50)
    serve(engine, request("a", prompt, salt="one"))
    (other,) = serve(engine, request("b", prompt, salt="two"))
    (again,) = serve(engine, request("c", prompt, salt="one"))
    assert (other.cached_tokens, other.origins) == (0, ())
    assert again.origins is not None
    assert {origin.owner for origin in again.origins} == {"a"}
    assert engine.resident_origins(prompt, "three") == ()


def test_the_ledger_says_which_tokens_were_written_in_decode(engine: EmbeddedBackend) -> None:
    """Of a transcript's blocks the prompt's tokens are prefilled, the generated ones decoded, a mixed block both."""
    prompt = prompt_of(40)
    (trunk,) = serve(engine, request("trunk", prompt, max_tokens=60, temperature=1.0))
    assert trunk.finish == "length"
    transcript = (*prompt, *trunk.tokens)  # 100 tokens; the last was sampled and never computed
    (resumed,) = serve(engine, request("resumed", transcript, max_tokens=1))
    assert resumed.cached_tokens == 96
    assert resumed.origins is not None
    assert [origin.decode_tokens for origin in resumed.origins] == [0, 0, 8, 16, 16, 16]
    assert [origin.start for origin in resumed.origins] == [0, 16, 32, 48, 64, 80]
    assert {origin.owner for origin in resumed.origins} == {"trunk"}
    engine.reset_prefix_cache()
    serve(engine, request("refeed", transcript, max_tokens=1))
    origins = engine.resident_origins(transcript, "s")
    assert [(o.owner, o.decode_tokens) for o in origins] == [("refeed", 0)] * 6


def test_followers_in_one_batch_hit_their_leaders_prefill(engine: EmbeddedBackend) -> None:
    """After a reset the first of a batch prefills and those admitted in the same step read its blocks."""
    prompt = prompt_of(70)
    watcher = Recorder()
    out = engine.run([request(f"r{i}", prompt, temperature=1.0, seed=i) for i in range(3)], watcher)
    assert [done.cached_tokens for done in out] == [0, 64, 64]
    assert [first.id for first in watcher.firsts] == ["r0", "r1", "r2"]
    assert out[2].origins == tuple(BlockOrigin("r0", start, 0) for start in range(0, 64, 16))


def test_a_siblings_decode_is_found_as_a_twin_hit(engine: EmbeddedBackend) -> None:
    """A request whose prompt a sibling continuation decoded hits the sibling's block, and the ledger names it."""
    prompt = prompt_of(30)
    (sibling,) = serve(engine, request("sibling", prompt, max_tokens=20))
    longer = (*prompt, *sibling.tokens[:4])  # its second block ends with two tokens that the sibling decoded
    (twin,) = serve(engine, request("twin", longer, max_tokens=1))
    assert twin.origins == (BlockOrigin("sibling", 0, 0), BlockOrigin("sibling", 16, 2))


def test_equal_blocks_are_served_by_the_first_stored(engine: EmbeddedBackend) -> None:
    """A prompt of b tokens is recomputed by each request, and its first owner keeps serving."""
    prompt = prompt_of(16)
    serve(engine, request("a", prompt, max_tokens=1))
    serve(engine, request("b", prompt, max_tokens=1))
    assert engine.resident_origins((*prompt, 9), "s") == (BlockOrigin("a", 0, 0),)


def test_eviction_removes_hits_from_the_tail(folder: Path) -> None:
    """When later requests need the blocks, an old prefix shrinks from its end and the count says so."""
    engine = open_engine(folder, max_model_len=128, num_blocks=8, max_num_seqs=4)
    old = prompt_of(97, seed=1)
    serve(engine, request("old", old, max_tokens=1))
    assert len(engine.resident_origins(old, "s")) == 6
    serve(engine, request("new", prompt_of(60, seed=2), max_tokens=1))
    assert len(engine.resident_origins(old, "s")) == 4
    (again,) = serve(engine, request("again", old, max_tokens=1))
    assert again.cached_tokens == 64
    engine.check_integrity()


def test_looking_at_resident_blocks_touches_nothing(folder: Path) -> None:
    """`resident_origins` does not save a block from eviction."""
    engine = open_engine(folder, max_model_len=128, num_blocks=8, max_num_seqs=4)
    old, newer = prompt_of(33, seed=1), prompt_of(33, seed=2)
    serve(engine, request("old", old, max_tokens=1))
    serve(engine, request("newer", newer, max_tokens=1))
    engine.resident_origins(old, "s")
    serve(engine, request("filler", prompt_of(64, seed=3), max_tokens=1))
    assert len(engine.resident_origins(old, "s")) < len(engine.resident_origins(newer, "s"))


class Resetting(Recorder):
    """Tries to reset the cache while requests run."""

    engine: EmbeddedBackend

    def step(self, stats: StepStats) -> bool:
        """Try, and look at what is resident."""
        super().step(stats)
        self.answers = [*getattr(self, "answers", []), self.engine.reset_prefix_cache()]
        self.resident = self.engine.resident_origins(prompt_of(40), "s")
        return len(self.answers) < 3


def test_a_reset_fails_while_blocks_are_in_use_and_loses_nothing(engine: EmbeddedBackend) -> None:
    """During a call the answer is False and the running request's blocks stay findable."""
    watcher = Resetting()
    watcher.engine = engine
    engine.run([request("a", prompt_of(40), max_tokens=50)], watcher)
    assert watcher.answers == [False, False, False]
    assert len(watcher.resident) == 2
    assert engine.reset_prefix_cache() is True
    assert engine.resident_origins(prompt_of(40), "s") == ()
