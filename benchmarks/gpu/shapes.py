"""Real shapes, random weights: the probe channel, what a campaign costs beside plain vLLM, and what bounds it.

    python -m benchmarks.gpu.shapes OUT.json --parts campaign,stop,plain,published [--batch-invariant] [--tiny]

A campaign is always measured; parts beside it:

    stop        seconds from a failed check to the stopped pass
    trunks      trunk batches of 1 to 12 problems
    again       the same campaign once more, from an empty cache
    waves       whole campaigns with trunks of 1 and of 2 problems together
    screen      a screened campaign, and with `published` the same problems one at a time
    plain       `LLM.generate` on the campaign's requests
    published   the same problems one at a time, with a reset before each, as plain calls
    bound       how busy the GPU is during one pass, and a profile of Python in it

`--tiny` runs the same on a small shape, to see that it works where there is no GPU. `--engine NAME=JSON` sets one of
vLLM's engine arguments, `--multiprocess` puts the core in a process of its own (then only the campaign is measured).
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks.gpu.bound import profiled, watched
from benchmarks.gpu.inprocess import Batches, Conducted, conduct, summary
from benchmarks.gpu.plain import Timed, bare, one_at_a_time, replay, trunk_requests
from benchmarks.gpu.results import Results
from benchmarks.gpu.shape import QWEN25_7B, TINY, questions, randomize, write
from engine.backends.vllm.backend import load
from engine.backends.vllm.warmup import Unwatched
from engine.registration import resolve
from engine.tasks.registry import open_task
from sessions.spec import from_fields

if TYPE_CHECKING:
    from engine.backend import FirstToken, Request, StepStats
    from engine.backends.vllm.backend import VllmBackend
    from sessions.spec import CampaignSpec

WIDTHS = (1, 2, 4, 6, 12)
QUESTIONS = 400
TINY_FIELDS = {
    "rollouts": 2,
    "k": 2,
    "max_pivots": 2,
    "max_trunk_tokens": 100,
    "max_cont_tokens": 40,
    "kv_blocks": 4000,
}


class StopAt:
    """A `Watcher` that objects to one first token and notes when."""

    def __init__(self, request: str) -> None:
        """Object to the first token of `request`."""
        self.request = request
        self.at = 0.0
        self.steps_after = 0

    def first_token(self, first: FirstToken) -> bool:
        """Object once."""
        if first.id == self.request:
            self.at = time.perf_counter()
            return False
        return True

    def step(self, _stats: StepStats) -> bool:
        """Count the steps that ran after the objection, its own not."""
        if self.at > 0.0:
            self.steps_after += 1
        return True


def stop_times(backend: VllmBackend, batches: Batches) -> dict[str, float]:
    """Seconds from a failed check to the end of `run`, in the middle of a pass of many requests."""
    requests = max(batches.asked[1:], key=len)
    watch = StopAt(requests[len(requests) // 2].id)
    done = backend.run(requests, watch)
    ended = time.perf_counter()
    return {
        "requests": len(requests),
        "aborted": sum(one.finish == "aborted" for one in done),
        "seconds": round(ended - watch.at, 5),
        "steps_after_the_failing_one": watch.steps_after - 1,
    }


def trunk_times(spec: CampaignSpec, backend: VllmBackend, widest: int) -> dict[str, Any]:
    """Seconds of the trunks of 1 to 12 problems in one batch, and of 12 one after another."""
    task = open_task(str(spec.task))
    found: dict[str, Any] = {}
    salted = 0

    def seconds(indices: range) -> tuple[float, int]:
        nonlocal salted
        salted += 1
        requests = [one for index in indices for one in trunk_requests(spec, backend, task, index)]
        fresh = [_renamed(one, f"{salted}") for one in requests]
        began = time.perf_counter()
        done = backend.run(fresh, Unwatched())
        return time.perf_counter() - began, sum(len(one.tokens) for one in done)

    for width in (one for one in WIDTHS if one <= widest):
        spent, tokens = seconds(range(width))
        found[f"{width} together"] = {"seconds": round(spent, 3), "tokens": tokens}
    alone = [seconds(range(index, index + 1)) for index in range(widest)]
    found[f"{widest} one at a time"] = {
        "seconds": round(sum(spent for spent, _ in alone), 3),
        "tokens": sum(tokens for _, tokens in alone),
    }
    return found


def _renamed(request: Any, prefix: str) -> Any:
    from dataclasses import replace  # noqa: PLC0415

    return replace(request, id=f"{prefix}/{request.id}", salt=f"{prefix}/{request.salt}")


def campaign(spec: CampaignSpec, backend: VllmBackend) -> tuple[Conducted, Batches, dict[str, Any]]:
    """Run a whole campaign from an empty cache."""
    assert backend.reset_prefix_cache()
    batches = Batches(backend)
    done = conduct(spec, batches)
    told = summary(done)
    assert told["cache_failures"] == 0, told
    assert told["problems_closed"] >= spec.problems, told
    told["engine_seconds"] = round(sum(batches.seconds), 3)
    told["batch_seconds"] = [round(seconds, 3) for seconds in batches.seconds]
    told["slow_steps"] = {number: slow for number, slow in enumerate(batches.slow) if slow}
    told["tokens_per_second_in_passes"] = round(sum(told["pass_tokens"].values()) / sum(told["pass_seconds"].values()))
    return done, batches, told


def bounded(llm: Any, stops: list[int], requests: tuple[Request, ...]) -> dict[str, Any]:
    """One cold pass twice: once with the GPU watched, once with Python profiled."""

    def work() -> None:
        timed = Timed(llm, stops)
        timed.reset()
        timed.generate(requests)

    return {"requests": len(requests), "watched": watched(work), "profile": profiled(work)}


def unwatched_parts(
    parts: set[str], spec: CampaignSpec, backend: VllmBackend, results: Results, done: dict[str, Any]
) -> None:
    """Run the parts that take everything that the backend watches off its engine: nothing is verified after them."""
    ours, batches = done["campaign"]
    llm, stops = bare(backend), sorted(backend.info.stop_ids)
    task = open_task(str(spec.task))
    bars: dict[str, float] = {}
    if "plain" in parts:
        plain = replay(llm, stops, batches.asked, batches.resets)
        results.add("plain", plain.summary())
        bars["overhead over plain calls"] = ours.seconds / plain.seconds - 1
    if "published" in parts:
        published = one_at_a_time(llm, spec, backend, task, ours.looked_at, ours.measured)
        results.add("published_order", published.summary())
        bars["times faster than one problem at a time"] = published.seconds / ours.seconds
    if {"published", "screen"} <= parts:
        screened, _ = done["screen"]
        looked_at = range(spec.start, max(screened.measured) + 1)
        alone = one_at_a_time(llm, spec, backend, task, looked_at, screened.measured)
        results.add("published_order_screened", alone.summary() | {"looked_at": len(looked_at)})
        bars["times faster with a screen"] = alone.seconds / screened.seconds
    if "bound" in parts:
        results.add("bound", bounded(llm, stops, max(batches.asked[1:], key=len)))
    results.add("bars", {name: round(value, 4) for name, value in bars.items()})


def measure(
    parts: set[str], spec: CampaignSpec, backend: VllmBackend, results: Results, kept: int, widest: int
) -> None:
    """Run the parts that were asked for, the watched ones before the bare ones."""
    done: dict[str, Any] = {}
    conducted, batches, told = campaign(spec, backend)
    done["campaign"] = (conducted, batches)
    results.add("campaign", told)
    if "stop" in parts:
        assert backend.reset_prefix_cache()
        results.add("stop", stop_times(backend, batches))
    if "again" in parts:
        results.add("again", campaign(spec, backend)[2])
    if "trunks" in parts:
        results.add("trunks", trunk_times(spec, backend, widest))
    for width in (1, 2) if "waves" in parts else ():
        results.add(f"wave_{width}", campaign(msgspec.structs.replace(spec, wave=width), backend)[2])
    if "screen" in parts:
        wanted = msgspec.structs.replace(spec, screen="mixed", problems=kept, scan_limit=QUESTIONS)
        conducted, batches, told = campaign(wanted, backend)
        done["screen"] = (conducted, batches)
        results.add("screen", told)
    if parts & {"plain", "published", "bound"}:
        unwatched_parts(parts, spec, backend, results, done)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--parts", type=lambda text: set(text.split(",")), default=set())
    parser.add_argument("--batch-invariant", action="store_true")
    parser.add_argument("--attention-backend")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--multiprocess", action="store_true")
    parser.add_argument("--problems", type=int, default=10)
    parser.add_argument("--wave", type=int, default=0)
    parser.add_argument("--kept", type=int, default=4, help="problems that the screened campaign keeps")
    parser.add_argument("--memory", type=float, default=100.0, help="GiB of KV cache")
    parser.add_argument("--engine", action="append", default=[], help="an engine argument, NAME=JSON")
    return parser.parse_args()


def main() -> None:
    """Load, randomize, measure."""
    args = arguments()
    results = Results(args.out)
    sizes = TINY if args.tiny else QWEN25_7B
    if args.multiprocess:  # the weights' initialisation has to reach the other process
        os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        model = write(Path(folder) / "model", sizes)
        wanted = {
            "engine": "vllm",
            "model": str(model),
            "task": f"jsonl:{questions(Path(folder) / 'questions.jsonl', sizes, QUESTIONS)}",
            "batch_invariant": args.batch_invariant,
            "attention_backend": args.attention_backend,
            "problems": args.problems,
            "wave": args.wave,
            "max_model_len": 4096,
            "gpu_memory_utilization": 0.3,
        }
        spec = resolve(from_fields(wanted | (TINY_FIELDS if args.tiny else {})))
        given = {name: json.loads(value) for name, _, value in (one.partition("=") for one in args.engine)}
        overrides: dict[str, Any] = {"load_format": "dummy"} | given
        if not args.tiny:
            overrides["kv_cache_memory_bytes"] = int(args.memory * 2**30)
        backend = load(
            spec,
            lambda stage, share: print(f"{stage} {share:.2f}", flush=True),
            multiprocess=args.multiprocess,
            overrides=overrides,
        )
        try:
            randomize(backend.engine)
            assert backend.reset_prefix_cache()
            results.engine(backend.info)
            results.add("arguments", {name: str(value) for name, value in vars(args).items()})
            measure(args.parts, spec, backend, results, args.kept, 2 if args.tiny else max(WIDTHS))
        finally:
            backend.close()


if __name__ == "__main__":
    main()
