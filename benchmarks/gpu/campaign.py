"""One complete campaign on vLLM, with every number of its report and whether its passes agree bit by bit.

    python -m benchmarks.gpu.campaign OUT.json --model FOLDER [--batch-invariant] [--attention-backend NAME]
        [--problems N] [--memory GIB]

`--memory` sets the KV cache instead of letting vLLM profile the GPU, so that several runs can share one.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.gpu.inprocess import conduct, summary
from benchmarks.gpu.results import Results
from engine.backends.load import model_path
from engine.backends.vllm.backend import load
from engine.registration import resolve
from sessions.spec import BUNDLED_MODEL, from_fields

SHARED_GPU = 0.02


def main() -> None:
    """Load, conduct, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default=BUNDLED_MODEL)
    parser.add_argument("--batch-invariant", action="store_true")
    parser.add_argument("--attention-backend")
    parser.add_argument("--problems", type=int, default=10)
    parser.add_argument("--memory", type=float, default=0.0)
    parser.add_argument("--fields", nargs="*", default=[], help="spec fields as NAME=INTEGER")
    args = parser.parse_args()
    results = Results(args.out)
    fields: dict[str, Any] = {name: int(value) for name, _, value in (one.partition("=") for one in args.fields)}
    overrides: dict[str, Any] = {}
    if args.memory > 0:
        overrides["kv_cache_memory_bytes"] = int(args.memory * 2**30)
        fields["gpu_memory_utilization"] = SHARED_GPU
    wanted = {
        "engine": "vllm",
        "model": args.model,
        "task": "arithmetic",
        "batch_invariant": args.batch_invariant,
        "attention_backend": args.attention_backend,
        "problems": args.problems,
        "max_model_len": 1024,
        "max_trunk_tokens": 256,
        "max_cont_tokens": 256,
    }
    spec = resolve(from_fields(wanted | fields))
    results.add("spec", {name: getattr(spec, name) for name in spec.__struct_fields__})
    backend = load(
        spec,
        lambda stage, share: print(f"{stage} {share:.2f}", flush=True),
        folder=model_path(spec),
        overrides=overrides,
    )
    try:
        results.engine(backend.info)
        results.add("campaign", summary(conduct(spec, backend)))
    finally:
        backend.close()


if __name__ == "__main__":
    main()
