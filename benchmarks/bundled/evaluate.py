"""Measure a checkpoint on audit problems: accuracy, mixed outcomes, low-margin positions, pivots.

    python -m benchmarks.bundled.evaluate FOLDER --problems 100

Rollouts are sampled at temperature 0.7 and top_p 0.95 by recomputing the whole text for every token, without a cache.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Final

import numpy as np
import torch
from tokenizers import Tokenizer

from benchmarks.bundled import network as net
from benchmarks.bundled.train import prompt
from engine.tasks.arithmetic import audit_problem
from engine.tasks.grading import grade

TEMPERATURE: Final = 0.7
TOP_P: Final = 0.95
BLOCK: Final = 16
SLACK: Final = 2
MARGIN: Final = 1.0
MAX_PIVOTS: Final = 5
MAX_NEW: Final = 256


def choose(logits: torch.Tensor, generator: torch.Generator, *, greedy: bool) -> torch.Tensor:
    """One token id per row of [rows, vocab] logits, by nucleus sampling or greedily."""
    if greedy:
        return logits.argmax(-1)
    probs, order = (logits / TEMPERATURE).softmax(-1).sort(-1, descending=True)
    probs = probs.masked_fill(probs.cumsum(-1) - probs >= TOP_P, 0)
    return order.gather(1, torch.multinomial(probs, 1, generator=generator)).squeeze(1)


@torch.inference_mode()
def sample(
    network: net.Network, prompts: list[list[int]], *, eos: int, seed: int, greedy: bool
) -> tuple[list[list[int]], list[list[float]]]:
    """Continuations of equally treated prompts, and the top-1 minus top-2 logprob gap before each token, nats."""
    device = network.embed_tokens.weight.device
    generator = torch.Generator(device).manual_seed(seed)
    lengths = torch.tensor([len(p) for p in prompts], device=device)
    ids = torch.zeros(len(prompts), int(lengths.max()) + MAX_NEW, dtype=torch.long, device=device)
    for row, tokens in enumerate(prompts):
        ids[row, : len(tokens)] = torch.tensor(tokens, device=device)
    rows = torch.arange(len(prompts), device=device)
    gaps = torch.zeros(len(prompts), MAX_NEW, device=device)
    done = torch.zeros(len(prompts), dtype=torch.bool, device=device)
    count = torch.zeros_like(lengths)
    for step in range(MAX_NEW):
        at = lengths + step
        logits = network(ids[:, : int(at.max())])[rows, at - 1].float()
        top = logits.topk(2).values
        gaps[:, step] = top[:, 0] - top[:, 1]
        token = choose(logits, generator, greedy=greedy)
        ids[rows, at] = torch.where(done, 0, token)
        count += ~done
        done |= token == eos
        if bool(done.all()):
            break
    out = [ids[i, n : n + c].tolist() for i, (n, c) in enumerate(zip(lengths.tolist(), count.tolist(), strict=True))]
    return out, [gaps[i, :c].tolist() for i, c in enumerate(count.tolist())]


def pivots(prompt_tokens: int, gaps: list[float]) -> int:
    """Low-margin positions of one rollout just past a block boundary, at most MAX_PIVOTS."""
    low = sum(gap < MARGIN and position % BLOCK <= SLACK for position, gap in enumerate(gaps[:-1], start=prompt_tokens))
    return min(low, MAX_PIVOTS)


def evaluate(folder: Path, problems: int, rollouts: int, seed: int) -> dict[str, object]:
    """The measured facts, as fractions and means."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network = net.load(folder).to(device)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    eos = tokenizer.token_to_id("<|im_end|>")
    worked = [audit_problem(i) for i in range(problems)]
    prompts = [tokenizer.encode(prompt(w.question), add_special_tokens=False).ids for w in worked]
    many = [p for p in prompts for _ in range(rollouts)]
    texts, gaps = sample(network, many, eos=eos, seed=seed, greedy=False)
    owners = [w for w in worked for _ in range(rollouts)]
    marks = np.array(
        [grade(tokenizer.decode(t), str(w.answer), "solution") for t, w in zip(texts, owners, strict=True)]
    )
    table = marks.reshape(problems, rollouts).sum(1)
    best, _ = sample(network, prompts, eos=eos, seed=seed, greedy=True)
    greedy = [grade(tokenizer.decode(t), str(w.answer), "solution") for t, w in zip(best, worked, strict=True)]
    found = [pivots(len(p), g) for p, g in zip(many, gaps, strict=True)]
    return {
        "problems": problems,
        "rollouts": rollouts,
        "temperature": TEMPERATURE,
        "top_p": TOP_P,
        "accuracy": round(float(marks.mean()), 4),
        "accuracy_greedy": round(float(np.mean(greedy)), 4),
        "mixed_problems": int(((table > 0) & (table < rollouts)).sum()),
        "right_per_problem": table.tolist(),
        "ended": round(float(np.mean([t[-1] == eos for t in texts])), 4),
        "prompt_tokens_mean": round(float(np.mean([len(p) for p in prompts])), 1),
        "solution_tokens_mean": round(float(np.mean([len(t) for t in texts])), 1),
        "low_margin_share": round(float(np.mean([g < MARGIN for row in gaps for g in row])), 4),
        "pivots_per_rollout": round(float(np.mean(found)), 3),
        "rollouts_without_pivot": round(float(np.mean([f == 0 for f in found])), 4),
        "examples": [tokenizer.decode(t) for t in texts[:2]],
    }


def main() -> None:
    """Parse the flags, measure, and write evaluation.json beside the checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--rollouts", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    facts = evaluate(args.folder, args.problems, args.rollouts, args.seed)
    (args.folder / "evaluation.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
