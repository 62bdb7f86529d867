"""Real shapes, random weights: the probe channel, what a campaign costs beside plain vLLM, and what bounds it.

    python -m benchmarks.gpu.shapes OUT.json --parts campaign,plain,published,waves,stop [--batch-invariant] [--tiny]

`--tiny` runs the same on a small shape, to see that it works where there is no GPU.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.gpu.inprocess import Batches, conduct, summary
from benchmarks.gpu.plain import Timed, bare, one_at_a_time, replay, trunk_requests
from benchmarks.gpu.results import Results
from benchmarks.gpu.shape import QWEN25_7B, TINY, randomize, write
from engine.backends.vllm.backend import load
from engine.backends.vllm.warmup import Unwatched
from engine.registration import resolve
from engine.tasks.registry import open_task
from sessions.spec import from_fields

if TYPE_CHECKING:
    from engine.backend import FirstToken, StepStats
    from engine.backends.vllm.backend import VllmBackend
    from sessions.spec import CampaignSpec

WIDTHS = (1, 2, 4, 6, 12)
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


def wave_times(spec: CampaignSpec, backend: VllmBackend, widest: int) -> dict[str, Any]:
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


def compare(ours: dict[str, Any], plain: dict[str, float] | None, published: dict[str, float] | None) -> dict[str, Any]:
    """The bars: overhead over plain calls, and speed against one problem at a time."""
    found: dict[str, Any] = {"ours_seconds": ours["seconds"]}
    if plain is not None:
        found["overhead_over_plain"] = round(ours["seconds"] / plain["seconds"] - 1, 4)
    if published is not None:
        found["times_faster_than_published_order"] = round(published["seconds"] / ours["seconds"], 4)
    return found


def measure(args: argparse.Namespace, spec: CampaignSpec, backend: VllmBackend, results: Results) -> None:
    """Run the parts that were asked for, in an order that leaves the watched ones before the bare ones."""
    batches = Batches(backend)
    ours = summary(conduct(spec, batches))
    ours["engine_seconds"] = round(sum(batches.seconds), 3)
    ours["tokens_per_second_in_passes"] = round(sum(ours["pass_tokens"].values()) / sum(ours["pass_seconds"].values()))
    results.add("campaign", ours)
    if "stop" in args.parts:
        results.add("stop", stop_times(backend, batches))
    if "waves" in args.parts:
        results.add("waves", wave_times(spec, backend, 2 if args.tiny else max(WIDTHS)))
    if not {"plain", "published"} & set(args.parts):
        return
    llm = bare(backend)
    plain = published = None
    if "plain" in args.parts:
        plain = replay(llm, sorted(backend.info.stop_ids), batches.asked, batches.resets).summary()
        results.add("plain", plain)
    if "published" in args.parts:
        published = one_at_a_time(llm, spec, backend, open_task(str(spec.task))).summary()
        results.add("published_order", published)
        screen = Timed(llm, sorted(backend.info.stop_ids))
        for index in range(2 if args.tiny else max(WIDTHS)):
            screen.reset()
            screen.generate(trunk_requests(spec, backend, open_task(str(spec.task)), index))
        results.add("published_order_trunks", screen.summary())
    results.add("bars", compare(ours, plain, published))


def main() -> None:
    """Load, randomize, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--parts", type=lambda text: text.split(","), default=["campaign"])
    parser.add_argument("--batch-invariant", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--problems", type=int, default=6)
    parser.add_argument("--wave", type=int, default=0)
    parser.add_argument("--memory", type=float, default=40.0, help="GiB of KV cache")
    args = parser.parse_args()
    results = Results(args.out)
    with tempfile.TemporaryDirectory() as folder:
        model = write(Path(folder) / "model", TINY if args.tiny else QWEN25_7B)
        wanted = {
            "engine": "vllm",
            "model": str(model),
            "task": "arithmetic",
            "batch_invariant": args.batch_invariant,
            "problems": args.problems,
            "wave": args.wave,
            "max_model_len": 4096,
            "gpu_memory_utilization": 0.3,
        }
        spec = resolve(from_fields(wanted | (TINY_FIELDS if args.tiny else {})))
        overrides: dict[str, Any] = {"load_format": "dummy"}
        if not args.tiny:
            overrides["kv_cache_memory_bytes"] = int(args.memory * 2**30)
        backend = load(spec, lambda stage, share: print(f"{stage} {share:.2f}", flush=True), overrides=overrides)
        try:
            randomize(backend.engine)
            assert backend.reset_prefix_cache()
            results.engine(backend.info)
            measure(args, spec, backend, results)
        finally:
            backend.close()


if __name__ == "__main__":
    main()
