"""Tokens per second of the embedded engine, against a bare forward-and-sample loop of the same shapes in the same run.

    python benchmarks/embedded_speed.py [--model FOLDER] [--numerics split] [--write]

The bare loop has the same weights, kernels, batch, lengths and sampler, and nothing else: keys and values lie in one
contiguous tensor per layer that grows by 64 tokens (no pages, nothing to gather, nothing that a kernel must copy
first), all sequences stop at one length, and there is no scheduler, no ledger, no stop token and no request.
Engine and loop alternate, and medians are compared, so that a noisy machine slows both; with --threads 1 the ratio of
CPU seconds is steadier still. `--write` stores the result under benchmarks/results/.
"""

# ruff: noqa: SLF001 - the bare loop shares the engine's weights and kernels, so that only the engine's own work differs

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models
from torch.nn import functional

from engine.backend import FirstToken, Request, StepStats
from engine.backends.embedded.backend import BUNDLED, EmbeddedBackend, load
from engine.backends.embedded.model import Model, _rotate
from engine.backends.embedded.sampler import Draws, sample

RESULTS = Path(__file__).parent / "results"
BAR = 0.60
STEP = 64  # tokens by which the bare loop's tensors grow; the engine pads KV lengths to as many


class Quiet:
    """A watcher that never stops anything."""

    def first_token(self, first: FirstToken) -> bool:
        """Go on."""
        return first is not None

    def step(self, stats: StepStats) -> bool:
        """Go on."""
        return stats is not None


class BareLoop:
    """The least that decodes a batch: forward, sample, append; as a careful researcher would write it by hand."""

    def __init__(self, model: Model) -> None:
        """Nothing is stored yet."""
        self.model = model
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []

    def grow(self, entries: int, end: int) -> None:
        """Make room for `end` tokens of each sequence, in steps of 64."""
        config = self.model.config
        shape = (entries, -(-end // STEP) * STEP, config.head_dim)
        for store in (self.keys, self.values):
            for number, old in enumerate(store or [torch.zeros(entries, 0, config.head_dim)] * config.layers):
                if old.shape[1] < end:
                    grown = torch.zeros(shape, dtype=self.model.dtype)
                    grown[:, : old.shape[1]] = old
                    store[number : number + 1] = [grown]

    def forward(self, tokens: torch.Tensor, start: int) -> torch.Tensor:
        """Logits of the last of `tokens` [batch, n], which stand at positions from `start`."""
        model, config = self.model, self.model.config
        batch, count = tokens.shape
        end, share = start + count, config.heads // config.kv_heads
        self.grow(batch * config.kv_heads, end)
        states = functional.embedding(tokens.reshape(-1), model.weights.embedding)
        cos, sin = (table[start:end].repeat(batch, 1)[:, None] for table in (model._cos, model._sin))
        for number, layer in enumerate(model.weights.layers):
            normed = model._norm(states, layer.attention_norm)
            projected = functional.linear(normed, layer.qkv, layer.qkv_bias)
            projected = projected.view(batch, count, -1, config.head_dim)
            flat = projected.view(batch * count, -1, config.head_dim)
            rotated = _rotate(flat[:, : config.heads + config.kv_heads], cos, sin).view(
                batch, count, -1, config.head_dim
            )
            keys = rotated[:, :, config.heads :].transpose(1, 2).reshape(-1, count, config.head_dim)
            values = projected[:, :, config.heads + config.kv_heads :].transpose(1, 2)
            self.keys[number][:, start:end] = keys
            self.values[number][:, start:end] = values.reshape(-1, count, config.head_dim)
            queries = rotated[:, :, : config.heads].reshape(batch, count, config.kv_heads, share, config.head_dim)
            queries = queries.permute(0, 2, 3, 1, 4).reshape(batch * config.kv_heads, share * count, config.head_dim)
            mixed = self._attend(queries, number, end, count)
            mixed = mixed.view(batch, config.kv_heads, share, count, config.head_dim).permute(0, 3, 1, 2, 4)
            states = states + functional.linear(mixed.reshape(batch * count, -1), layer.out)
            states = states + model._mlp(layer, model._norm(states, layer.mlp_norm))
        last = model._norm(states.view(batch, count, -1)[:, -1], model.weights.final_norm)
        return functional.linear(last.float(), model.weights.head)

    def _attend(self, queries: torch.Tensor, layer: int, end: int, count: int) -> torch.Tensor:
        keys, values = self.keys[layer], self.values[layer]
        if count > 1:
            share = queries.shape[1] // count
            mask = torch.ones(count, end, dtype=torch.bool).tril(end - count).repeat(share, 1)
            return functional.scaled_dot_product_attention(
                queries[:, None], keys[:, None, :end], values[:, None, :end], attn_mask=mask
            )[:, 0]
        mask = torch.zeros(keys.shape[1])
        mask[end:] = -torch.inf
        scores = torch.add(mask, torch.bmm(queries, keys.transpose(1, 2)), alpha=self.model.config.head_dim**-0.5)
        return torch.bmm(torch.softmax(scores, -1).to(queries.dtype), values)

    def run(self, prompts: torch.Tensor, generate: int, temperature: float, top_p: float) -> int:
        """Prefill `prompts` [batch, n], sample `generate` tokens each; returns the number of tokens."""
        batch = len(prompts)
        self.keys, self.values = [], []
        draws = Draws(
            np.arange(batch, dtype=np.uint64),
            np.zeros(batch, dtype=np.uint64),
            np.full(batch, temperature, dtype=np.float32),
            np.full(batch, top_p),
        )
        tokens, start = prompts, 0
        with torch.inference_mode():
            for step in range(generate):
                logits = self.forward(tokens, start)
                start += tokens.shape[1]
                picked = sample(logits, draws._replace(indices=np.full(batch, step, dtype=np.uint64)))
                tokens = torch.from_numpy(picked)[:, None]
        return batch * generate


def random_checkpoint(folder: Path, layers: int) -> Path:
    """The bundled shape with random weights: hidden 128, 2 heads of 64, 1 KV head, vocabulary 512."""
    config: dict[str, Any] = {
        "architectures": ["Qwen2ForCausalLM"],
        "vocab_size": 512,
        "hidden_size": 128,
        "intermediate_size": 384,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "max_position_embeddings": 1024,
    }
    shapes = {"model.embed_tokens.weight": (512, 128), "model.norm.weight": (128,)}
    for layer in range(layers):
        name = f"model.layers.{layer}"
        for part, rows in (("q", 128), ("k", 64), ("v", 64)):
            shapes[f"{name}.self_attn.{part}_proj.weight"] = (rows, 128)
            shapes[f"{name}.self_attn.{part}_proj.bias"] = (rows,)
        shapes[f"{name}.self_attn.o_proj.weight"] = (128, 128)
        shapes |= {f"{name}.mlp.{part}_proj.weight": (384, 128) for part in ("gate", "up")}
        shapes[f"{name}.mlp.down_proj.weight"] = (128, 384)
        shapes |= {f"{name}.{norm}.weight": (128,) for norm in ("input_layernorm", "post_attention_layernorm")}
    torch.manual_seed(0)
    save_file(
        {name: torch.randn(shape).bfloat16() * 0.1 for name, shape in shapes.items()}, folder / "model.safetensors"
    )
    (folder / "config.json").write_text(json.dumps(config))
    vocabulary = {f"t{number}": number for number in range(512)}
    Tokenizer(models.WordLevel(vocabulary, unk_token="t0")).save(str(folder / "tokenizer.json"))  # noqa: S106 - no password
    (folder / "tokenizer_config.json").write_text("{}")
    return folder


def time_engine(
    engine: EmbeddedBackend, prompts: list[list[int]], label: str, options: argparse.Namespace
) -> tuple[float, float]:
    """Tokens per second of one call, by the wall clock and by CPU time."""
    requests = [
        Request(f"{label}-{i}", tuple(p), f"{label}-{i}", i, options.temperature, options.top_p, options.generate)
        for i, p in enumerate(prompts)
    ]
    begin, cpu = time.perf_counter(), time.process_time()
    out = engine.run(requests, Quiet())
    tokens = sum(len(done.tokens) for done in out)
    return tokens / (time.perf_counter() - begin), tokens / (time.process_time() - cpu)


def measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Alternate engine and loop, after a warm-up of each."""
    longest = options.prompt + options.generate
    engine = load(
        folder,
        numerics=options.numerics,
        max_model_len=longest,
        max_num_seqs=options.batch,
        max_num_batched_tokens=max(2048, options.batch),
        threads=options.threads,
    )
    engine._info = replace(engine.info, stop_ids=frozenset())  # both must generate the same number of tokens
    assert engine._model is not None
    loop = BareLoop(engine._model)
    rng = np.random.default_rng(0)
    prompts = rng.integers(5, engine.info.vocab_size, (options.batch, options.prompt))
    bare, ours = [], []
    for repeat in range(options.repeats + 1):
        ours.append(time_engine(engine, prompts.tolist(), f"r{repeat}", options))
        begin, cpu = time.perf_counter(), time.process_time()
        tokens = loop.run(torch.from_numpy(prompts), options.generate, options.temperature, options.top_p)
        bare.append((tokens / (time.perf_counter() - begin), tokens / (time.process_time() - cpu)))
    walls = [mine[0] / theirs[0] for mine, theirs in zip(ours[1:], bare[1:], strict=True)]
    cpus = [mine[1] / theirs[1] for mine, theirs in zip(ours[1:], bare[1:], strict=True)]
    return {
        "engine_tokens_per_second": round(statistics.median(wall for wall, _ in ours[1:])),
        "bare_tokens_per_second": round(statistics.median(wall for wall, _ in bare[1:])),
        "ratio": round(statistics.median(walls), 3),
        "ratio_of_cpu_seconds": round(statistics.median(cpus), 3),
        "ratios": [round(ratio, 3) for ratio in walls],
        "bar": BAR,
        "environment": {
            name: value for name, value in os.environ.items() if name.startswith(("OMP_", "GOMP_", "KMP_"))
        },
        "load_average": os.getloadavg()[0],
        "cores": os.cpu_count(),
        "model": f"random, bundled shape, {options.layers} layers" if options.layers > 0 else options.model.name,
        "batch": options.batch,
        "prompt": options.prompt,
        "generate": options.generate,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "numerics": dict(engine.info.numerics),
        "machine": {**engine.info.machine, "python": platform.python_version()},
    }


def main() -> int:
    """Measure, print, perhaps write; exit code 1 below the bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=BUNDLED, help="checkpoint folder (default: the bundled model)")
    parser.add_argument("--layers", type=int, default=0, help="a random model of the bundled shape with so many layers")
    parser.add_argument("--numerics", default="split")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--prompt", type=int, default=100)
    parser.add_argument("--generate", type=int, default=150)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--top-p", type=float, default=0.95)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="store the result under benchmarks/results/")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = random_checkpoint(Path(scratch), options.layers) if options.layers > 0 else options.model
        result = measure(folder, options)
    print(json.dumps(result, indent=2))
    if options.write:
        RESULTS.mkdir(exist_ok=True)
        suffix = "" if options.numerics == "split" else f"_{options.numerics}"
        path = RESULTS / f"embedded_speed{suffix}.json"
        path.write_text(json.dumps(result, indent=2) + "\n")
        print(f"written to {path}")
    return 0 if result["ratio"] >= BAR else 1


if __name__ == "__main__":
    raise SystemExit(main())
