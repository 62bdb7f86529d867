"""Make one of several trained checkpoints the bundled one, and write down its facts.

    python -m benchmarks.bundled.adopt FOLDER...

Each FOLDER holds what `tokenizer`, `train` and `evaluate` wrote. The checkpoint is taken that is right in WANTED of its
rollouts and has the most problems with mixed outcomes; without any, nothing is changed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
BUNDLED: Final = ROOT / "engine" / "backends" / "embedded" / "bundled"
RESULTS: Final = ROOT / "benchmarks" / "results" / "bundled_model.json"
WANTED: Final = (0.5, 0.75)
FILES: Final = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)
CARD: Final = """\
---
license: apache-2.0
library_name: transformers
pipeline_tag: text-generation
---

# The bundled model of refeed-tui

A Qwen2 network of {parameters:,} parameters ({layers} layers, width 128, 2 heads of 64, 1 key-value head, 512 tokens)
that solves generated word problems (`engine/tasks/arithmetic.py`) about as often as not, so that replay audits have
something to measure on a laptop. It knows nothing else. Apache-2.0, as all of the project; trained on generated text.

| | |
| --- | --- |
| training | {steps} steps of {batch} problems, AdamW, cosine from {peak_rate}, seed {seed} |
| time | {seconds} s on one {machine} |
| loss at the end | {loss_last_100} nats per solution token (the choice of words alone has about 0.12) |
| right, T = {temperature}, top_p = {top_p} | {accuracy:.1%} of {problems} audit problems x {rollouts} rollouts |
| right, greedy | {accuracy_greedy:.1%} |
| mixed outcomes | {mixed_problems} of {problems} problems |
| positions with a top-1/top-2 gap below 1 nat | {low_margin_share:.1%} |
| pivots per rollout (block 16, slack 2, at most 5) | {pivots_per_rollout} |
| tokens | {prompt_tokens_mean} of prompt and {solution_tokens_mean} of solution, on average |
| versions | torch {torch}, Python {python} |

Trained and measured by `benchmarks/bundled/`; the numbers are in `benchmarks/results/bundled_model.json`.
The tokenizer is byte-level BPE with Qwen2's word splitting and NFC normalisation: it encodes any text, and gives back
its NFC form. Positions beyond 320 tokens were never trained.
"""


def facts_of(folder: Path) -> dict[str, Any]:
    """What training and evaluation wrote about one checkpoint."""
    facts: dict[str, Any] = {}
    for name in ("train.json", "evaluation.json"):
        facts |= json.loads((folder / name).read_text(encoding="utf-8"))
    return facts


def main() -> None:
    """Choose, copy, and write the card and the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    found = [(facts_of(folder), folder) for folder in parser.parse_args().folders]
    for facts, folder in found:
        print(f"{folder}: right {facts['accuracy']:.3f}, mixed {facts['mixed_problems']} of {facts['problems']}")
    fit = [pair for pair in found if WANTED[0] <= pair[0]["accuracy"] <= WANTED[1]]
    if not fit:
        sys.exit(f"no checkpoint is right in {WANTED[0]:.0%} to {WANTED[1]:.0%} of its rollouts; nothing is changed")
    facts, folder = max(fit, key=lambda pair: pair[0]["mixed_problems"] / pair[0]["problems"])
    for name in FILES:
        shutil.copyfile(folder / name, BUNDLED / name)
    (BUNDLED / "README.md").write_text(CARD.format(**facts), encoding="utf-8")
    candidates = [{name: other[name] for name in ("steps", "accuracy", "mixed_problems")} for other, _ in found]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({**facts, "candidates": candidates}, indent=2) + "\n", encoding="utf-8")
    print(f"took {folder}")


if __name__ == "__main__":
    main()
