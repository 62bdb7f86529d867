"""What each numerics mode promises, bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from engine.backends.embedded import selfcheck
from engine.backends.embedded.numerics import SHAPES
from sessions.errors import RefeedError
from tests.helpers.embedded_checkpoints import LLAMA, QWEN2, Recorder, open_engine, prompt_of, request, write_checkpoint

if TYPE_CHECKING:
    from pathlib import Path

    from engine.backend import Completion, Request
    from engine.backends.embedded.backend import EmbeddedBackend


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A checkpoint of each architecture."""
    root = tmp_path_factory.mktemp("models")
    return {name: write_checkpoint(root / name, config) for name, config in (("qwen2", QWEN2), ("llama", LLAMA))}


def sampled(count: int, prefix: str = "r", **changes: Any) -> list[Request]:
    """Requests of different lengths with seeds of their own, greedy ones among them."""
    return [
        request(
            f"{prefix}{i}",
            prompt_of(12 + 9 * i, i),
            salt=f"{prefix}{i}",
            seed=i,
            temperature=0.8 * (i % 3 > 0),
            top_p=0.95,
            logprobs=4,
            max_tokens=24,
            **changes,
        )
        for i in range(count)
    ]


def evidence(out: tuple[Completion, ...]) -> list[tuple[Any, ...]]:
    """Everything of a completion that the audit compares, but the id."""
    return [(done.tokens, done.finish, done.logprobs) for done in out]


def alone_and_together(engine: EmbeddedBackend) -> tuple[list[Any], list[Any]]:
    """The same requests in one batch and one at a time."""
    together = evidence(engine.run(sampled(10, "t"), Recorder()))
    alone = [evidence(engine.run([one], Recorder()))[0] for one in sampled(10, "a")]
    return together, alone


@pytest.mark.parametrize("architecture", ["qwen2", "llama"])
@pytest.mark.parametrize(
    ("numerics", "dtype"), [("split", "bfloat16"), ("invariant", "bfloat16"), ("invariant", "float32")]
)
def test_a_request_gives_the_same_alone_and_in_a_batch(
    folders: dict[str, Path], architecture: str, numerics: Any, dtype: str
) -> None:
    """Tokens and logprobs are equal to the last bit where the mode claims independence of the batch."""
    engine = open_engine(folders[architecture], numerics=numerics, dtype=dtype, max_model_len=256)
    together, alone = alone_and_together(engine)
    assert together == alone


def test_natural_mode_depends_on_the_batch(folders: dict[str, Path]) -> None:
    """At the batch's own shapes some logprob differs between alone and together: it is no other mode in disguise."""
    engine = open_engine(folders["llama"], numerics="natural", max_model_len=256)
    together, alone = alone_and_together(engine)
    assert together != alone


@pytest.mark.parametrize("numerics", ["split", "natural", "invariant"])
def test_a_replica_of_an_identical_batch_is_bit_exact(folders: dict[str, Path], numerics: Any) -> None:
    """Running one batch twice on resident decode-time blocks gives equal tokens and logprobs in every mode."""
    engine = open_engine(folders["llama"], numerics=numerics, max_model_len=256)
    trunks = engine.run(sampled(6, "trunk"), Recorder())

    def resume(name: str) -> list[Request]:
        prompts = [(*one.prompt, *done.tokens[:20]) for one, done in zip(sampled(6), trunks, strict=True)]
        return [
            request(f"{name}{i}", prompt, salt=f"trunk{i}", seed=i, temperature=0.9, logprobs=3)
            for i, prompt in enumerate(prompts)
        ]

    first, second = (engine.run(resume(name), Recorder()) for name in ("one", "two"))
    assert evidence(first) == evidence(second)
    assert any(done.cached_tokens for done in first)


def kv_of(engine: EmbeddedBackend, prompt: tuple[int, ...], salt: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Keys and values of every full resident block of a prompt, by layer."""
    ledger, pages, size = engine._ledger, engine._pages, 16
    assert pages is not None
    from engine.backends.embedded.ledger import chain  # noqa: PLC0415 - beside its only use

    blocks = np.array(ledger.match(chain(prompt, salt, size), len(prompt) // size))
    assert len(blocks) == len(prompt) // size
    slots = torch.from_numpy((blocks[:, None] * size + np.arange(size)).reshape(-1))
    return [pages.read(layer, slots) for layer in range(len(pages.keys))]


def decoded_against_prefilled(engine: EmbeddedBackend) -> tuple[int, int]:
    """KV elements of transcripts that differ between decode and prefill, and all of them."""
    trunks = sampled(8, "trunk")
    out = engine.run(trunks, Recorder())
    differing = total = 0
    for number, (one, done) in enumerate(zip(trunks, out, strict=True)):
        transcript = (*one.prompt, *done.tokens)[:-1]
        decoded = kv_of(engine, transcript, one.salt)
        engine.run([request(f"refeed{number}", transcript, salt=f"cold{number}", max_tokens=1)], Recorder())
        prefilled = kv_of(engine, transcript, f"cold{number}")
        pairs = [
            (a, b) for mine, theirs in zip(decoded, prefilled, strict=True) for a, b in zip(mine, theirs, strict=True)
        ]
        differing += sum(int((a != b).sum()) for a, b in pairs)
        total += sum(a.numel() for a, _ in pairs)
    return differing, total


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float16"])
def test_invariant_mode_writes_the_same_kv_in_decode_and_in_prefill(folders: dict[str, Path], dtype: str) -> None:
    """Decode-written KV of batched trunks equals re-fed prefill bit for bit."""
    engine = open_engine(folders["qwen2"], numerics="invariant", dtype=dtype, max_model_len=256)
    differing, total = decoded_against_prefilled(engine)
    assert (differing, total > 10_000) == (0, True)


def test_split_mode_writes_other_kv_in_decode_than_in_prefill(folders: dict[str, Path]) -> None:
    """The treatment exists: with a decode kernel of its own, decode-written KV differs from prefilled KV."""
    engine = open_engine(folders["llama"], max_model_len=256)
    differing, total = decoded_against_prefilled(engine)
    assert 0 < differing < total


def test_the_number_of_threads_changes_no_bit_of_the_invariant_mode(folders: dict[str, Path]) -> None:
    """One thread or two: equal tokens and logprobs."""
    one, two = (
        evidence(
            open_engine(folders["llama"], numerics="invariant", max_model_len=256, threads=threads).run(
                sampled(8), Recorder()
            )
        )
        for threads in (1, 2)
    )
    torch.set_num_threads(1)
    assert one == two


@pytest.mark.parametrize("block_size", [1, 8, 16, 24, 128])
def test_block_size_changes_no_bit_of_the_invariant_mode(folders: dict[str, Path], block_size: int) -> None:
    """Any block size gives the evidence of block size 16 where padded lengths agree, and runs everywhere."""
    engine = open_engine(folders["qwen2"], numerics="invariant", block_size=block_size, max_model_len=256)
    out = evidence(engine.run(sampled(5), Recorder()))
    reference = evidence(
        open_engine(folders["qwen2"], numerics="invariant", max_model_len=256).run(sampled(5), Recorder())
    )
    assert [tokens for tokens, _, _ in out] == [tokens for tokens, _, _ in reference]
    assert 64 % block_size != 0 or out == reference


def test_the_invariant_self_check_covers_both_kinds_of_evidence(folders: dict[str, Path]) -> None:
    """The numerics record says how many logit rows and KV elements were found equal; other modes have no such line."""
    info = open_engine(folders["qwen2"], numerics="invariant", max_model_len=256).info
    words = info.numerics["self_check"].split()
    assert words[0] == "passed:"
    assert int(words[1]) > 1000
    assert int(words[4]) > 100_000
    assert "self_check" not in open_engine(folders["qwen2"], max_model_len=256).info.numerics


def test_the_self_check_refuses_the_name_where_the_batch_shows(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the natural mode's shapes behind the name, loading fails and gives the counts."""
    monkeypatch.setitem(SHAPES, "invariant", SHAPES["natural"])
    engine = open_engine(folders["llama"], numerics="natural", max_model_len=256)
    assert engine._model is not None
    checked = selfcheck.check_invariance(engine._model, 16, 256, lambda _what, _share: None)
    assert checked.logit_rows_differing > 0
    assert checked.kv_elements_differing > 0
    with pytest.raises(RefeedError, match=r"\d+ of \d+ logit rows") as caught:
        selfcheck.require_invariance(checked)
    assert caught.value.kind == "engine"


def test_numerics_record_every_choice(folders: dict[str, Path]) -> None:
    """What can change a logit is there as text, and the mode and dtype change the record."""
    info = open_engine(folders["qwen2"], max_model_len=256, max_num_seqs=4, threads=1).info
    for name in ("torch", "threads", "cpu_capability", "cpu_isa", "sampler", "kv_lengths", "linear_tiles", "head"):
        assert info.numerics[name]
    expected = {"numerics": "split", "dtype": "bfloat16", "block_size": "16", "max_num_seqs": "4", "threads": "1"}
    assert expected.items() <= dict(info.numerics).items()
    assert (
        info.numerics != open_engine(folders["qwen2"], dtype="float32", max_model_len=256, max_num_seqs=4).info.numerics
    )
