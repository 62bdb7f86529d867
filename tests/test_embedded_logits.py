"""Logits against transformers' own models."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from engine.backends.chat import Chat
from engine.backends.embedded.backend import BUNDLED
from engine.backends.embedded.batch import Piece, build
from engine.backends.embedded.checkpoint import load_weights
from engine.backends.embedded.config import read_config
from engine.backends.embedded.model import Model
from engine.backends.embedded.numerics import SHAPES, dtype_of
from engine.backends.embedded.pages import Pages
from tests.helpers.embedded_checkpoints import LLAMA, QWEN2, prompt_of, write_checkpoint

if TYPE_CHECKING:
    from pathlib import Path

LENGTH = 150
OLD_LLAMA = {
    "rope_parameters": None,
    "rope_theta": 5000.0,
    "rope_scaling": {**LLAMA["rope_parameters"], "rope_theta": None},
}
LINEAR = {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}}


def our_logits(folder: Path, dtype: str, mode: str, prompt: tuple[int, ...], decoded: int) -> torch.Tensor:
    """Logits at every position, the last `decoded` of them by decode steps and the rest in chunks of 37."""
    config = read_config(folder)
    with torch.inference_mode():
        weights = load_weights(folder, config, dtype_of(dtype), lambda _what, _share: None)
        shapes = SHAPES[mode]
        model = Model(config, weights, shapes, 1024)
        pages = Pages(config, 20, 16, dtype_of(dtype))
        tables = np.full((1, shapes.table_width(1024, 16)), 20)
        tables[0, :12] = np.arange(12)[::-1]  # out of order, as blocks of a used cache are
        rows = []
        start = 0
        while start < len(prompt):
            decode = start >= len(prompt) - decoded
            size = 1 if decode else min(37, len(prompt) - decoded - start)
            piece = Piece(0, start, size, decode, prompt[start : start + size])
            rows.append(model.forward(build([piece], tables, pages, shapes, range(size)), pages))
            start += size
        return torch.cat(rows)


def their_config(folder: Path) -> Any:
    """A checkpoint's configuration as the installed transformers means it: version 4 passes over `rope_parameters`."""
    config: Any = AutoConfig.from_pretrained(folder)
    rope = json.loads((folder / "config.json").read_text()).get("rope_parameters")
    if rope is not None and transformers.__version__.startswith("4."):
        config.rope_theta = rope["rope_theta"]
        config.rope_scaling = {name: value for name, value in rope.items() if name != "rope_theta"}
    return config


def their_logits(folder: Path, dtype: torch.dtype, prompt: tuple[int, ...]) -> torch.Tensor:
    """Logits of transformers' eager attention."""
    model: Any = AutoModelForCausalLM.from_pretrained(
        folder, config=their_config(folder), dtype=dtype, attn_implementation="eager"
    )
    model.eval()
    with torch.inference_mode():
        logits = model(torch.tensor([prompt])).logits[0].float()
    return torch.as_tensor(logits)


@pytest.fixture(
    params=[("qwen2", QWEN2, {}), ("llama", LLAMA, {}), ("old", LLAMA, OLD_LLAMA), ("linear", LLAMA, LINEAR)],
    ids=lambda param: param[0],
)
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A checkpoint of each architecture and rotary layout."""
    _, config, changes = request.param
    if "rope_scaling" in changes:
        scaling: dict[str, Any] = {name: v for name, v in changes["rope_scaling"].items() if v is not None}
        changes = {**changes, "rope_scaling": scaling}
    return write_checkpoint(tmp_path / "model", config, **changes)


@pytest.mark.parametrize("mode", ["split", "natural", "invariant"])
def test_float32_logits_equal_transformers(checkpoint: Path, mode: str) -> None:
    """Chunked prefill and decode agree with one forward pass within rounding, in every mode."""
    prompt = prompt_of(LENGTH)
    theirs = their_logits(checkpoint, torch.float32, prompt)
    ours = our_logits(checkpoint, "float32", mode, prompt, decoded=40)
    assert float(theirs.std()) > 0.5
    torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-4)


@pytest.mark.parametrize("mode", ["split", "invariant"])
def test_bfloat16_logits_are_as_close_to_float32_as_transformers_are(checkpoint: Path, mode: str) -> None:
    """Our bf16 errors against the fp32 reference are no larger than transformers' own bf16 errors, up to a fifth."""
    prompt = prompt_of(LENGTH)
    exact = their_logits(checkpoint, torch.float32, prompt)
    theirs = (their_logits(checkpoint, torch.bfloat16, prompt) - exact).square().mean().sqrt()
    ours = (our_logits(checkpoint, "bfloat16", mode, prompt, decoded=40) - exact).square().mean().sqrt()
    assert float(ours) < 1.2 * float(theirs)
    assert float(ours) < 0.05 * float(exact.std())


@pytest.mark.parametrize("mode", ["split", "invariant"])
def test_the_bundled_model_agrees_with_transformers(mode: str) -> None:
    """In fp32 to rounding; in bf16 with errors no larger than transformers' own, up to a fifth."""
    prompt = Chat(BUNDLED, read_config(BUNDLED).vocab_size).encode_chat(
        None, "Tom has 12 apples and buys 7 more. How many?"
    )
    exact = their_logits(BUNDLED, torch.float32, prompt)
    torch.testing.assert_close(our_logits(BUNDLED, "float32", mode, prompt, decoded=9), exact, rtol=0, atol=2e-4)
    theirs = (their_logits(BUNDLED, torch.bfloat16, prompt) - exact).square().mean().sqrt()
    ours = (our_logits(BUNDLED, "bfloat16", mode, prompt, decoded=9) - exact).square().mean().sqrt()
    assert float(ours) < 1.2 * float(theirs)


def test_shards_load_like_one_file(tmp_path: Path) -> None:
    """A sharded checkpoint gives the same bits."""
    one = write_checkpoint(tmp_path / "one", QWEN2)
    three = write_checkpoint(tmp_path / "three", QWEN2, shards=3)
    prompt = prompt_of(30)
    assert torch.equal(
        our_logits(one, "bfloat16", "split", prompt, 3), our_logits(three, "bfloat16", "split", prompt, 3)
    )


def test_chat_template_encodes_like_transformers(tmp_path: Path) -> None:
    """The chat prompt's ids equal apply_chat_template's."""
    folder = write_checkpoint(tmp_path / "model", QWEN2)
    ours = Chat(folder, read_config(folder).vocab_size)
    theirs = PreTrainedTokenizerFast.from_pretrained(folder)
    for system in (None, "be brief"):
        messages = [] if system is None else [{"role": "system", "content": system}]
        messages.append({"role": "user", "content": "2+3=?"})
        ids = theirs.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        assert list(ours.encode_chat(system, "2+3=?")) == ids
    assert ours.decode([*ours.encode_chat(None, "2+3=?")]) == "2+3=?"
