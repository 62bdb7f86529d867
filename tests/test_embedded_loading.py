"""Checkpoints and settings that cannot run are refused by file and value; memory is as promised."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.backends.embedded.backend import BUNDLED, load
from engine.backends.embedded.numerics import SHAPES
from sessions.errors import RefeedError
from tests.helpers.embedded_checkpoints import EOS, LLAMA, QWEN2, SPECIAL, VOCAB, write_checkpoint, write_tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def refuse(folder: Path, **settings: Any) -> str:
    """Load, expect one clear engine error, and return its text."""
    with pytest.raises(RefeedError) as caught:
        load(folder, **{"max_model_len": 128, **settings})
    assert caught.value.kind == "engine"
    return str(caught.value)


@pytest.mark.parametrize(
    ("config", "changes", "words"),
    [
        (QWEN2, {"architectures": ["Qwen3ForCausalLM"]}, ["architectures", "Qwen3ForCausalLM"]),
        (QWEN2, {"architectures": None}, ["architectures", "None"]),
        (QWEN2, {"use_sliding_window": True}, ["use_sliding_window", "True"]),
        (QWEN2, {"layer_types": ["full_attention", "sliding_attention"]}, ["layer_types", "sliding_attention"]),
        (QWEN2, {"hidden_act": "gelu"}, ["hidden_act", "'gelu'"]),
        (QWEN2, {"quantization_config": {"quant_method": "gptq"}}, ["quantization_config", "gptq"]),
        (QWEN2, {"num_key_value_heads": 3}, ["num_key_value_heads", "3", "num_attention_heads = 4"]),
        (QWEN2, {"num_hidden_layers": 0}, ["num_hidden_layers", "0"]),
        (QWEN2, {"vocab_size": "96"}, ["vocab_size", "'96'"]),
        (QWEN2, {"rope_scaling": {"type": "yarn", "factor": 4.0}}, ["rope_scaling.type", "'yarn'"]),
        (LLAMA, {"attention_bias": True}, ["attention_bias", "True"]),
        (LLAMA, {"mlp_bias": True}, ["mlp_bias", "True"]),
        (LLAMA, {"rope_theta": 123.0}, ["rope_parameters.rope_theta", "5000.0", "123.0"]),
        (LLAMA, {"eos_token_id": -1}, ["eos_token_id", "-1"]),
    ],
)
def test_what_is_not_implemented_is_refused_by_file_and_value(
    tmp_path: Path, config: dict[str, Any], changes: dict[str, Any], words: list[str]
) -> None:
    """config.json is named with the field and its value."""
    message = refuse(write_checkpoint(tmp_path / "model", config, **changes))
    assert str(tmp_path / "model" / "config.json") in message
    assert all(word in message for word in words)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    """Each file that the engine needs is missed by its path."""
    folder = write_checkpoint(tmp_path / "model", QWEN2)
    (folder / name).unlink()
    assert f"{folder / name} is missing" in refuse(folder)


def test_a_missing_folder_and_a_missing_shard_are_named(tmp_path: Path) -> None:
    """A wrong path and an incomplete download."""
    assert "is not a folder" in refuse(tmp_path / "nowhere")
    folder = write_checkpoint(tmp_path / "model", QWEN2, shards=2)
    shard = folder / "model-00002-of-00002.safetensors"
    shard.unlink()
    assert f"{shard} is missing" in refuse(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "generation_config.json"])
def test_a_file_that_is_not_json_is_named(tmp_path: Path, name: str) -> None:
    """Half a JSON file."""
    folder = write_checkpoint(tmp_path / "model", QWEN2)
    (folder / name).write_text('{"architectures": [')
    assert f"{folder / name} cannot be read" in refuse(folder)


@pytest.mark.parametrize("kept", [0, 7, 1000, -1])
def test_truncated_weights_are_refused(tmp_path: Path, kept: int) -> None:
    """Any cut of model.safetensors, down to its last byte."""
    folder = write_checkpoint(tmp_path / "model", QWEN2)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    assert f"{path} cannot be read" in refuse(folder)


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    """Rewrite the weights."""
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")


def test_missing_misshapen_quantized_and_foreign_tensors_are_refused(tmp_path: Path) -> None:
    """Each kind of wrong tensor is named."""
    name = "model.layers.1.self_attn.k_proj.weight"
    folder = write_checkpoint(tmp_path / "model", QWEN2)

    def rewritten(change: Callable[[dict[str, torch.Tensor]], None]) -> str:
        write_checkpoint(folder, QWEN2)
        change_weights(folder, change)
        return refuse(folder)

    assert f"no tensor {name}" in rewritten(lambda weights: weights.__delitem__(name))
    shape = rewritten(lambda weights: weights.update({name: weights[name][:16].clone()}))
    assert "(16, 64)" in shape
    assert "(32, 64)" in shape
    assert "torch.int8" in rewritten(lambda weights: weights.update({name: weights[name].to(torch.int8)}))
    assert "q_norm" in rewritten(
        lambda weights: weights.update({"model.layers.0.self_attn.q_norm.weight": torch.ones(16)})
    )


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    """Ids beyond the model's vocabulary."""
    folder = write_checkpoint(tmp_path / "model", QWEN2)
    write_tokenizer(folder, extra=4)
    message = refuse(folder)
    assert str(folder / "tokenizer.json") in message
    assert f"{VOCAB} token ids" in message


def test_a_stop_id_beyond_the_vocabulary_is_refused(tmp_path: Path) -> None:
    """generation_config.json of another model."""
    folder = write_checkpoint(tmp_path / "model", QWEN2)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 151645}))
    assert "151645" in refuse(folder)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"dtype": "int8"}, "dtype is 'int8'"),
        ({"numerics": "fast"}, "numerics is 'fast'"),
        ({"max_model_len": 2000}, "choose 2 to 1024"),
        ({"max_model_len": 1}, "max_model_len is 1"),
        ({"block_size": 0}, "block_size is 0"),
        ({"num_blocks": 0}, "num_blocks is 0"),
        ({"max_num_seqs": 64, "max_num_batched_tokens": 32}, "max_num_batched_tokens is 32"),
        ({"threads": 0}, "threads is 0"),
    ],
)
def test_settings_that_cannot_run_are_refused_by_value(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    """Each names the setting and its value."""
    assert words in refuse(write_checkpoint(tmp_path / "model", QWEN2), **settings)


def test_info_says_what_was_loaded(tmp_path: Path) -> None:
    """Stop and special ids, ids without a token among them; progress runs to 1."""
    seen: list[tuple[str, float]] = []
    folder = write_checkpoint(tmp_path / "model", QWEN2)
    engine = load(folder, max_model_len=128, max_num_seqs=4, progress=lambda what, share: seen.append((what, share)))
    info = engine.info
    assert (info.engine, info.model, info.proof, info.vocab_size) == ("embedded", str(folder), "ledger", VOCAB)
    assert info.stop_ids == {EOS}
    assert info.special_ids == {*range(len(SPECIAL)), VOCAB - 1}  # the tokenizer leaves the last id without a token
    assert info.num_blocks == 2 * 4 * 8
    assert seen[0] == ("loading weights", 0.0)
    assert seen[-1] == ("loading weights", 1.0)


def test_a_checkpoint_without_a_chat_template_serves_but_cannot_chat(tmp_path: Path) -> None:
    """The error comes where the template is needed, and says what to add."""
    folder = write_checkpoint(tmp_path / "model", QWEN2)
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(RefeedError, match="chat template"):
        load(folder, max_model_len=128).encode_chat(None, "hi")


def test_padded_lengths_follow_from_the_length_alone() -> None:
    """Monotone, never shorter than the length, a multiple of 64 and of the block, waste bounded beyond 256."""
    for shapes in (SHAPES["split"], SHAPES["invariant"]):
        lengths = torch.arange(1, 5000).numpy()
        padded = shapes.padded_lengths(lengths, 16)
        assert (padded >= lengths).all()
        assert (padded[1:] >= padded[:-1]).all()
        assert (padded % 64 == 0).all()
        assert (padded[256:] <= 1.25 * lengths[256:]).all()


MEMORY = """
import resource, sys
from pathlib import Path
import torch
from engine.backends.embedded.backend import load
from engine.backend import Request
sys.path.insert(0, ".")
from tests.helpers.embedded_checkpoints import Recorder
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
torch.nn.functional.scaled_dot_product_attention(*[torch.ones(1, 1, 16, 64, dtype=torch.bfloat16)] * 3)
before = peak()
engine = load(Path(sys.argv[1]), max_model_len=512, num_blocks=4096, max_num_seqs=32, threads=1)
engine.run([Request(str(i), tuple(range(5, 90)) * 5, str(i), i, 0.7, 0.95, 20) for i in range(32)], Recorder())
print(peak() - before)
"""


def test_peak_memory_is_weights_and_kv_and_a_bounded_workspace(tmp_path: Path) -> None:
    """A process with 48 MB of weights and 128 MiB of KV grows by no more than them and 160 MiB, while all is in use."""
    config = {**QWEN2, "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 4, "num_attention_heads": 8}
    config["num_key_value_heads"] = 4
    folder = write_checkpoint(tmp_path / "model", config)
    weights = (folder / "model.safetensors").stat().st_size
    kv = 2 * 4 * 4 * 64 * 4096 * 16 * 2
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(folder)], check=True, capture_output=True, text=True, timeout=250
    )
    grown = int(done.stdout)
    assert kv / 2 < grown < weights + kv + 160 * 2**20


def test_the_bundled_model_loads_and_chats() -> None:
    """The checkpoint that ships has a chat template, a stop id and room for the demo's prompts."""
    engine = load(BUNDLED, threads=1)
    assert len(engine.info.stop_ids) >= 1
    prompt = engine.encode_chat(None, "What is 2 + 3?")
    assert 0 < len(prompt) < engine.info.max_model_len // 2
