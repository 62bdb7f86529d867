"""Small random checkpoints on disk, and the requests and watchers that the embedded engine's tests share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from engine.backend import Request
from engine.backends.embedded.backend import load

if TYPE_CHECKING:
    from pathlib import Path

    from engine.backend import FirstToken, StepStats
    from engine.backends.embedded.backend import EmbeddedBackend

VOCAB = 96
EOS = 1
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]

QWEN2: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "sliding_window": 32768,
    "max_position_embeddings": 1024,
    "eos_token_id": EOS,
}
LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_parameters": {
        "rope_type": "llama3",
        "rope_theta": 5000.0,
        "factor": 4.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "max_position_embeddings": 1024,
    "eos_token_id": EOS,
}


def tensors(config: dict[str, Any], seed: int = 0) -> dict[str, torch.Tensor]:
    """Random weights, large enough that attention and sampling are far from uniform."""
    generator = torch.Generator().manual_seed(seed)
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim") or hidden // config["num_attention_heads"]
    sizes = {
        "q": head * config["num_attention_heads"],
        "k": head * config["num_key_value_heads"],
        "v": head * config["num_key_value_heads"],
    }

    def normal(*shape: int, scale: float = 1.0) -> torch.Tensor:
        return (torch.randn(*shape, generator=generator) * scale).bfloat16()

    out = {"model.embed_tokens.weight": normal(config["vocab_size"], hidden, scale=0.4)}
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}"
        for part, size in sizes.items():
            out[f"{name}.self_attn.{part}_proj.weight"] = normal(size, hidden, scale=1.5 * hidden**-0.5)
            if config["architectures"] == ["Qwen2ForCausalLM"]:
                out[f"{name}.self_attn.{part}_proj.bias"] = normal(size, scale=0.3)
        out[f"{name}.self_attn.o_proj.weight"] = normal(hidden, sizes["q"], scale=0.7 * hidden**-0.5)
        out[f"{name}.mlp.gate_proj.weight"] = normal(inner, hidden, scale=hidden**-0.5)
        out[f"{name}.mlp.up_proj.weight"] = normal(inner, hidden, scale=hidden**-0.5)
        out[f"{name}.mlp.down_proj.weight"] = normal(hidden, inner, scale=inner**-0.5)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            out[f"{name}.{norm}.weight"] = 1 + normal(hidden, scale=0.1)
    out["model.norm.weight"] = 1 + normal(hidden, scale=0.1)
    if not config["tie_word_embeddings"]:
        out["lm_head.weight"] = normal(config["vocab_size"], hidden, scale=0.4)
    return out


def write_checkpoint(folder: Path, config: dict[str, Any], *, shards: int = 1, **changes: Any) -> Path:
    """Write a loadable checkpoint; `changes` overwrite fields of config.json (None deletes one)."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {name: value for name, value in {**config, **changes}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(settings))
    weights = tensors(config)
    if shards == 1:
        save_file(weights, folder / "model.safetensors")
    else:
        names = sorted(weights)
        parts = [names[start::shards] for start in range(shards)]
        where: dict[str, str] = {}
        for number, part in enumerate(parts):
            file = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
            save_file({name: weights[name] for name in part}, folder / file)
            where |= dict.fromkeys(part, file)
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    write_tokenizer(folder)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [EOS]}))
    return folder


def write_tokenizer(folder: Path, extra: int = 0) -> None:
    """One token per printable ASCII character behind five special tokens; `extra` more make it too large."""
    letters = [chr(code) for code in range(32, 32 + VOCAB - len(SPECIAL) - 1 + extra)]
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *letters])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))  # noqa: S106 - no password
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>", "pad_token": "<|pad|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "chat_template.jinja").write_text(TEMPLATE)


class Recorder:
    """A watcher that keeps what it sees and stops where told."""

    def __init__(self, stop_at_first: str | None = None, stop_at_step: int | None = None) -> None:
        """Stop when `stop_at_first` sampled its first token, or after so many steps."""
        self.firsts: list[FirstToken] = []
        self.steps: list[StepStats] = []
        self.stop_at_first = stop_at_first
        self.stop_at_step = stop_at_step

    def first_token(self, first: FirstToken) -> bool:
        """Keep it."""
        self.firsts.append(first)
        return first.id != self.stop_at_first

    def step(self, stats: StepStats) -> bool:
        """Keep it."""
        self.steps.append(stats)
        return self.stop_at_step is None or len(self.steps) < self.stop_at_step


def request(name: str, prompt: tuple[int, ...] | list[int], **changes: Any) -> Request:
    """A greedy request of 8 tokens, with `changes`."""
    fields: dict[str, Any] = {
        "salt": "s",
        "seed": 7,
        "temperature": 0.0,
        "top_p": 1.0,
        "max_tokens": 8,
        "logprobs": 0,
    }
    return Request(id=name, prompt=tuple(prompt), **{**fields, **changes})


def open_engine(folder: Path, **settings: Any) -> EmbeddedBackend:
    """Load on one thread: two would wait for each other wherever tests share their cores."""
    return load(folder, **{"threads": 1, **settings})


def prompt_of(length: int, seed: int = 0) -> tuple[int, ...]:
    """Random token ids without special ones."""
    generator = torch.Generator().manual_seed(1000 + seed)
    return tuple(torch.randint(len(SPECIAL), VOCAB, (length,), generator=generator).tolist())
