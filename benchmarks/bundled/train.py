"""Train the bundled model from a seed.

    python -m benchmarks.bundled.train OUT --seed 0 --steps N

OUT holds the tokenizer already (`benchmarks.bundled.tokenizer`). Problems are drawn and encoded by worker processes,
and each is seen `--repeats` times at most. With `--every M` a checkpoint is kept each M steps. Runs from one seed see
the same batches, though a GPU's kernels need not give the same bits.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import platform
import time
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from tokenizers import Tokenizer
from torch.nn import functional

from benchmarks.bundled import network as net
from engine.tasks.arithmetic import VERSION, training_stream
from engine.tasks.task import INSTRUCTION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

ROW: Final = 320
SHARD_BATCHES: Final = 8
WARMUP: Final = 150
IGNORED: Final = -100


def prompt(question: str) -> str:
    """The chat before the assistant's first token."""
    return f"<|im_start|>user\n{question}\n\n{INSTRUCTION}<|im_end|>\n<|im_start|>assistant\n"


def shard(index: int, *, folder: str, seed: int, rows: int) -> NDArray[np.int16]:
    """One worker's share of the corpus: ids and targets, [2, rows, ROW]; targets are solutions alone.

    Problems longer than ROW tokens (about one in a hundred) are left out.
    """
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    pad = tokenizer.token_to_id("<|endoftext|>")
    out = np.full((2, rows, ROW), IGNORED, dtype=np.int16)
    out[0] = pad
    stream = training_stream(seed, index)
    filled = 0
    while filled < rows:
        for worked in islice(stream, rows - filled):
            head = tokenizer.encode(prompt(worked.question), add_special_tokens=False).ids
            tail = tokenizer.encode(f"{worked.solution}<|im_end|>", add_special_tokens=False).ids
            ids = head + tail
            if len(ids) <= ROW:
                out[0, filled, : len(ids)] = ids
                out[1, filled, len(head) - 1 : len(ids) - 1] = tail
                filled += 1
    return out


def batches(args: argparse.Namespace, device: torch.device, steps: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """(ids, targets), each int64 [batch, ROW] on the device, in an order that the seed alone decides."""
    work = partial(shard, folder=str(args.out), seed=args.seed, rows=args.batch * SHARD_BATCHES)
    with multiprocessing.get_context("spawn").Pool(args.workers) as pool:
        kept: list[torch.Tensor] = []
        for both in pool.imap(work, range(math.ceil(steps / SHARD_BATCHES / args.repeats))):
            kept.append(torch.from_numpy(both).to(device))
            yield from cut(kept[-1], args.batch)
    for _ in range(args.repeats - 1):
        for data in kept:
            yield from cut(data, args.batch)


def cut(data: torch.Tensor, batch: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The batches of one shard; on a CPU of rows of like length, without the columns that all of them leave empty."""
    trimmed = data.device.type == "cpu"
    if trimmed:
        width = (data[1] != IGNORED).long().mul(torch.arange(1, ROW + 1)).amax(1)
        data = data[:, width.argsort(stable=True)]
    starts = range(0, data.shape[1], batch)
    for start in [*starts[::2], *starts[1::2][::-1]] if trimmed else starts:
        ids, targets = data[0, start : start + batch].long(), data[1, start : start + batch].long()
        end = int((targets != IGNORED).any(0).nonzero().max()) + 1 if trimmed else ROW
        yield ids[:, :end], targets[:, :end]


def rate(step: int, steps: int, peak: float) -> float:
    """Learning rate: linear warm-up, then a cosine down to a fiftieth of the peak."""
    if step < WARMUP:
        return peak * (step + 1) / WARMUP
    return peak * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / max(1, steps - WARMUP))))


def optimizer_of(network: net.Network, peak: float, device: torch.device) -> torch.optim.AdamW:
    """AdamW that decays matrices alone."""
    matrices = [p for p in network.parameters() if p.ndim > 1]
    vectors = [p for p in network.parameters() if p.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.98), eps=1e-8, fused=device.type == "cuda")


def train(args: argparse.Namespace) -> dict[str, object]:
    """Run the steps, save the checkpoint, and return the facts of the run."""
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shape = net.Shape(args.width, 3 * args.width, args.layers, args.width // args.head)
    network = net.Network(shape).to(device)
    optimizer = optimizer_of(network, args.rate, device)

    def loss_of(ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = network(ids, targets != IGNORED if device.type == "cpu" else None)
        if device.type == "cpu":
            targets = targets[targets != IGNORED]
        return functional.cross_entropy(logits.flatten(0, -2).float(), targets.flatten(), ignore_index=IGNORED)

    tokenizer = Tokenizer.from_file(str(args.out / "tokenizer.json"))
    eos, pad = tokenizer.token_to_id("<|im_end|>"), tokenizer.token_to_id("<|endoftext|>")
    step_loss = torch.compile(loss_of) if device.type == "cuda" else loss_of
    start = time.perf_counter()
    recent: list[torch.Tensor] = []
    for step, (ids, targets) in zip(range(args.steps), batches(args, device, args.steps), strict=False):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, args.steps, args.rate)
        loss = step_loss(ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        recent = [*recent[-99:], loss.detach()]
        if args.every and (step + 1) % args.every == 0:
            net.save(network, args.out / f"step-{step + 1}", eos=eos, pad=pad)
        if step % 100 == 0 or step == args.steps - 1:
            print(f"step {step} loss {loss.item():.4f} seconds {time.perf_counter() - start:.1f}", flush=True)
    net.save(network, args.out, eos=eos, pad=pad)
    return {
        "task": VERSION,
        "seed": args.seed,
        "steps": args.steps,
        "batch": args.batch,
        "row_tokens": ROW,
        "repeats": args.repeats,
        "peak_rate": args.rate,
        "layers": args.layers,
        "width": args.width,
        "head": args.head,
        "parameters": sum(p.numel() for p in network.parameters()),
        "loss_last_100": round(torch.stack(recent).mean().item(), 4),
        "seconds": round(time.perf_counter() - start, 1),
        "machine": torch.cuda.get_device_name() if device.type == "cuda" else platform.processor(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def main() -> None:
    """Parse the flags, train, and write train.json beside the checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=768)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--head", type=int, default=64)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--every", type=int, default=0)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    args = parser.parse_args()
    facts = train(args)
    (args.out / "train.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
