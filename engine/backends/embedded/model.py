"""The decoder of Qwen2 and Llama over paged KV."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from engine.backends.embedded.attention import own_decode, tiles
from engine.backends.embedded.numerics import ROW_TILE

if TYPE_CHECKING:
    from engine.backends.embedded.batch import Batch
    from engine.backends.embedded.checkpoint import LayerWeights, Weights
    from engine.backends.embedded.config import ModelConfig, Rope
    from engine.backends.embedded.numerics import Shapes
    from engine.backends.embedded.pages import Pages


def rope_frequencies(rope: Rope, head_dim: int) -> torch.Tensor:
    """Angles per position, fp32 [head_dim / 2].

    Source: Su et al., RoFormer (2021); "llama3" as released with Llama 3.1: wavelengths longer than
    original / low_freq_factor are slowed by `factor`, shorter than original / high_freq_factor are kept, between
    them interpolated.
    """
    frequencies = 1.0 / rope.theta ** (torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim)
    if rope.kind == "linear":
        return frequencies / rope.factor
    if rope.kind == "llama3":
        turns = rope.original_positions * frequencies / (2 * math.pi)
        share = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
        kept = share.clamp(0.0, 1.0)
        return (1.0 - kept) * frequencies / rope.factor + kept * frequencies
    return frequencies


class Model:
    """Weights and rotary tables; `forward` writes the KV of a batch and returns its logits."""

    def __init__(self, config: ModelConfig, weights: Weights, shapes: Shapes, max_positions: int) -> None:
        """Precompute the rotary tables for `max_positions` positions."""
        self.config = config
        self.weights = weights
        self.shapes = shapes
        self.dtype = weights.embedding.dtype
        angles = torch.outer(torch.arange(max_positions).float(), rope_frequencies(config.rope, config.head_dim))
        cos, sin = angles.cos(), angles.sin()
        self._cos = torch.cat((cos, cos), -1).to(self.dtype)
        # The sign of the rotated half is folded into the sine.
        self._sin = torch.cat((-sin, sin), -1).to(self.dtype)

    def forward(self, batch: Batch, pages: Pages) -> torch.Tensor:
        """Logits of the wanted rows, fp32 [wanted_count, vocab]; keys and values of all real rows go to `pages`."""
        states = functional.embedding(batch.tokens, self.weights.embedding)
        cos = self._cos.index_select(0, batch.positions)[:, None]
        sin = self._sin.index_select(0, batch.positions)[:, None]
        for number, layer in enumerate(self.weights.layers):
            normed = self._norm(states, layer.attention_norm)
            states = states + self._attend(number, normed, (cos, sin), batch, pages)
            states = states + self._mlp(layer, self._norm(states, layer.mlp_norm))
        last = self._norm(states.index_select(0, batch.wanted), self.weights.final_norm)
        return self._linear(last.float(), self.weights.head)[: batch.wanted_count]

    def _attend(
        self,
        number: int,
        states: torch.Tensor,
        angles: tuple[torch.Tensor, torch.Tensor],
        batch: Batch,
        pages: Pages,
    ) -> torch.Tensor:
        layer = self.weights.layers[number]
        heads, kv_heads, head_dim = self.config.heads, self.config.kv_heads, self.config.head_dim
        projected = self._linear(states, layer.qkv, layer.qkv_bias).view(-1, heads + 2 * kv_heads, head_dim)
        rotated = _rotate(projected[:, : heads + kv_heads], *angles)
        real = len(batch.slots)
        # All keys are written before any is read: requests admitted together may share blocks.
        pages.write(number, batch.slots, rotated[:real, heads:], projected[:real, heads + kv_heads :])
        queries = rotated[:, :heads].contiguous()
        out = torch.zeros(len(states), heads * head_dim, dtype=self.dtype)
        for group in batch.decode:
            own_decode(queries, pages, number, group, out)
        for group in batch.prefill:
            tiles(queries, pages, number, group, out)
        return self._linear(out, layer.out)

    def _mlp(self, layer: LayerWeights, states: torch.Tensor) -> torch.Tensor:
        gate, up = self._linear(states, layer.gate_up).chunk(2, -1)
        return self._linear(functional.silu(gate) * up, layer.down)

    def _norm(self, states: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        normed = functional.rms_norm(states.float(), (states.shape[-1],), eps=self.config.eps)
        return normed.to(self.dtype) * weight

    def _linear(self, states: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        if not self.shapes.tiled(states.shape[-1], states.dtype):
            return functional.linear(states, weight, bias)
        return torch.cat([functional.linear(tile, weight, bias) for tile in torch.split(states, ROW_TILE)])


def _rotate(vectors: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = vectors.shape[-1] // 2
    swapped = torch.cat((vectors[..., half:], vectors[..., :half]), -1)
    return torch.addcmul(vectors * cos, swapped, sin)
