"""A Qwen2 network small enough to read, with the parameter names of Hugging Face checkpoints; for training only."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes, under the names of a Hugging Face config."""

    hidden_size: int = 128
    intermediate_size: int = 384
    num_hidden_layers: int = 4
    num_attention_heads: int = 2
    num_key_value_heads: int = 1
    vocab_size: int = 512
    max_position_embeddings: int = 2048
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10_000.0

    @property
    def head(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads


class Norm(nn.Module):
    """Root-mean-square norm in float32."""

    def __init__(self, shape: Shape) -> None:
        """Start at one."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape.hidden_size))
        self.eps = shape.rms_norm_eps

    def forward(self, x: Tensor) -> Tensor:
        """[..., hidden] to the same."""
        return functional.rms_norm(x.float(), self.weight.shape, self.weight.float(), self.eps).to(x.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions on [batch, heads, time, head], halves paired as in Hugging Face's Qwen2."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Attention(nn.Module):
    """Causal grouped-query attention with biases on q, k and v."""

    def __init__(self, shape: Shape) -> None:
        """Build the projections."""
        super().__init__()
        self.shape = shape
        key_value = shape.num_key_value_heads * shape.head
        self.q_proj = nn.Linear(shape.hidden_size, shape.hidden_size)
        self.k_proj = nn.Linear(shape.hidden_size, key_value)
        self.v_proj = nn.Linear(shape.hidden_size, key_value)
        self.o_proj = nn.Linear(shape.hidden_size, shape.hidden_size, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[batch, time, hidden] to the same."""
        batch, time, width = x.shape
        q, k, v = (
            part(x).view(batch, time, -1, self.shape.head).transpose(1, 2)
            for part in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        k, v = k.expand_as(q), v.expand_as(q)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, time, width))


class Mlp(nn.Module):
    """Gated SiLU feed-forward."""

    def __init__(self, shape: Shape) -> None:
        """Build the projections."""
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.up_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.down_proj = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., hidden] to the same."""
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """One pre-norm block."""

    def __init__(self, shape: Shape) -> None:
        """Build the parts."""
        super().__init__()
        self.input_layernorm = Norm(shape)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = Norm(shape)
        self.mlp = Mlp(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[batch, time, hidden] to the same."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Network(nn.Module):
    """Token ids to logits, with tied embeddings."""

    def __init__(self, shape: Shape) -> None:
        """Initialise every matrix at 0.02."""
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.num_hidden_layers))
        self.norm = Norm(shape)
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids: Tensor, wanted: Tensor | None = None) -> Tensor:
        """[batch, time] ids to [batch, time, vocab] logits, or [positions, vocab] where `wanted` [batch, time] is."""
        half = torch.arange(0, self.shape.head, 2, device=ids.device, dtype=torch.float32) / self.shape.head
        angle = torch.outer(torch.arange(ids.shape[1], device=ids.device).float(), self.shape.rope_theta**-half)
        angle = torch.cat((angle, angle), dim=-1)
        cos, sin = angle.cos(), angle.sin()
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, cos, sin)
        if wanted is not None:
            x = x[wanted]
        return functional.linear(self.norm(x), self.embed_tokens.weight)


def save(network: Network, folder: Path, *, eos: int, pad: int) -> None:
    """Write model.safetensors in bfloat16, config.json and generation_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"model.{name}": value.detach().cpu().bfloat16() for name, value in network.named_parameters()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "attention_dropout": 0.0,
        "bos_token_id": None,
        "eos_token_id": eos,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "model_type": "qwen2",
        "pad_token_id": pad,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "use_sliding_window": False,
        **asdict(network.shape),
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    generation = {"do_sample": True, "eos_token_id": eos, "pad_token_id": pad, "temperature": 0.7, "top_p": 0.95}
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n", encoding="utf-8")


def load(folder: Path) -> Network:
    """Read a checkpoint that `save` wrote, in bfloat16."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    network = Network(Shape(**{name: config[name] for name in asdict(Shape())})).bfloat16()
    tensors = load_file(folder / "model.safetensors")
    network.load_state_dict({name.removeprefix("model."): value for name, value in tensors.items()})
    return network.eval()
