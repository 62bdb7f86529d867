"""Weights of a Hugging Face checkpoint, from model.safetensors or its shards, checked by name and shape."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from safetensors import SafetensorError, safe_open

from engine.backends.fields import read_json
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from engine.backends.embedded.config import ModelConfig

    Progress = Callable[[str, float], None]

FLOATS: Final = (torch.float32, torch.bfloat16, torch.float16)
REDOWNLOAD: Final = "the file is incomplete or damaged; download the checkpoint again"


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One decoder layer; projections that read the same input are stored as one matrix.

    Shapes (H heads, G KV heads, D head size, h hidden, i intermediate):
        attention_norm, mlp_norm   [h]
        qkv                        [(H + 2G) D, h]: queries, then keys, then values
        qkv_bias                   [(H + 2G) D], or None
        out                        [h, H D]
        gate_up                    [2i, h]: gate, then up
        down                       [h, i]
    """

    attention_norm: torch.Tensor
    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    out: torch.Tensor
    mlp_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


@dataclass(frozen=True, slots=True)
class Weights:
    """All weights of a model.

    The head is kept in fp32 whatever the dtype, because logits are computed in fp32 from the final states; a tied fp32
    model shares it with the embedding.

    Shapes: embedding [vocab, hidden], final_norm [hidden], head [vocab, hidden] in fp32.
    """

    embedding: torch.Tensor
    layers: tuple[LayerWeights, ...]
    final_norm: torch.Tensor
    head: torch.Tensor


class Shards:
    """Tensors by name across the files of a checkpoint; which were read is remembered."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        """Open the files of `folder` until `stack` closes.

        Raises:
            RefeedError: kind "engine" when a file is missing or damaged.
        """
        self.where: dict[str, Path] = {}
        self.handles: dict[Path, Any] = {}
        for path in _files(folder):
            try:
                handle = stack.enter_context(safe_open(path, framework="pt"))
            except FileNotFoundError:
                raise RefeedError("engine", f"{path} is missing", REDOWNLOAD) from None
            except (SafetensorError, OSError) as error:
                raise RefeedError("engine", f"{path} cannot be read: {error}", REDOWNLOAD) from error
            self.handles[path] = handle
            for name in handle.keys():  # noqa: SIM118 - a safetensors handle, not a dict
                self.where[name] = path
        self.folder = folder
        self.unread = set(self.where)

    def read(self, name: str, into: torch.Tensor) -> None:
        """Copy tensor `name` into `into`, converting its dtype.

        Raises:
            RefeedError: kind "engine" when it is absent, of another shape, or not of a floating dtype.
        """
        path = self.where.get(name)
        if path is None:
            raise RefeedError("engine", f"{self.folder} has no tensor {name}", "config.json promises it")
        view = self.handles[path].get_slice(name)
        if tuple(view.get_shape()) != tuple(into.shape):
            raise RefeedError(
                "engine",
                f"{path}: {name} has shape {tuple(view.get_shape())}",
                f"config.json asks for {tuple(into.shape)}",
            )
        found = self.handles[path].get_tensor(name)
        if found.dtype not in FLOATS:
            raise RefeedError(
                "engine", f"{path}: {name} is {found.dtype}", "quantized checkpoints are not implemented; use vLLM"
            )
        into.copy_(found)
        self.unread.discard(name)

    def refuse_unread(self, ignorable: Iterable[str]) -> None:
        """Complain about tensors that nothing read: they belong to a model that this is not."""
        left = sorted(n for n in self.unread - set(ignorable) if not n.endswith("rotary_emb.inv_freq"))
        if left:
            raise RefeedError(
                "engine",
                f"{self.where[left[0]]}: {len(left)} tensors such as {left[0]} have no place in this architecture",
                "the embedded engine runs plain Qwen2 and Llama checkpoints; use vLLM",
            )


def load_weights(folder: Path, config: ModelConfig, dtype: torch.dtype, progress: Progress) -> Weights:
    """Read every weight of `folder`, in `dtype`; tells `progress` the share of layers read.

    Raises:
        RefeedError: kind "engine" when a file is missing or damaged, or a tensor is missing, misshapen or left over.
    """
    with ExitStack() as stack:
        shards = Shards(folder, stack)
        embedding = torch.empty(config.vocab_size, config.hidden, dtype=dtype)
        shards.read("model.embed_tokens.weight", embedding)
        layers = []
        for index in range(config.layers):
            progress("loading weights", index / config.layers)
            layers.append(_layer(shards, index, config, dtype))
        final_norm = torch.empty(config.hidden, dtype=dtype)
        shards.read("model.norm.weight", final_norm)
        if config.tied:
            head = embedding.float()
        else:
            stored = torch.empty_like(embedding)
            shards.read("lm_head.weight", stored)
            head = stored.float()
        shards.refuse_unread(["lm_head.weight"] if config.tied else [])
    progress("loading weights", 1.0)
    return Weights(embedding, tuple(layers), final_norm, head)


def _files(folder: Path) -> list[Path]:
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.exists():
        return [single]
    if not index.exists():
        raise RefeedError("engine", f"{single} is missing", "the embedded engine reads safetensors checkpoints")
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise RefeedError("engine", f"{index} has no weight_map of file names", REDOWNLOAD)
    files = sorted(set(names.values()))
    if not files or any("/" in name or "\\" in name for name in files):
        raise RefeedError("engine", f"{index}: weight_map names {files}", "shards lie beside the index")
    return [folder / name for name in files]


def _layer(shards: Shards, index: int, config: ModelConfig, dtype: torch.dtype) -> LayerWeights:
    name = f"model.layers.{index}"
    queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
    hidden, inner = config.hidden, config.intermediate

    def read(tensor: str, *shape: int) -> torch.Tensor:
        into = torch.empty(*shape, dtype=dtype)
        shards.read(f"{name}.{tensor}", into)
        return into

    def stack(parts: list[tuple[str, int]], *rest: int) -> torch.Tensor:
        into = torch.empty(sum(rows for _, rows in parts), *rest, dtype=dtype)
        start = 0
        for tensor, rows in parts:
            shards.read(f"{name}.{tensor}", into[start : start + rows])
            start += rows
        return into

    projections = [("q_proj", queries), ("k_proj", keys), ("v_proj", keys)]
    biases = [(f"self_attn.{part}.bias", rows) for part, rows in projections]
    return LayerWeights(
        attention_norm=read("input_layernorm.weight", hidden),
        qkv=stack([(f"self_attn.{part}.weight", rows) for part, rows in projections], hidden),
        qkv_bias=stack(biases) if config.qkv_bias else None,
        out=read("self_attn.o_proj.weight", hidden, queries),
        mlp_norm=read("post_attention_layernorm.weight", hidden),
        gate_up=stack([("mlp.gate_proj.weight", inner), ("mlp.up_proj.weight", inner)], hidden),
        down=read("mlp.down_proj.weight", hidden, inner),
    )
