"""A real shape with random weights: campaigns in groups, the published order, and the same requests as plain calls.

    python -m benchmarks.gpu.groups OUT.json --groups 4,8 --plain 4 [--published] [--batch-invariant] [--tiny]

One engine serves it all, so the ratios are of one run. Each campaign starts on an empty cache and must verify every
pivot by the ledger with an identical replica; `--batch-invariant` also demands that no channel of any pass differs, and
that all groups say the same. `--published` is the published harness's order, as plain calls: per problem a reset, its
trunks, two exact passes, a reset, the re-feed pass. `--plain N` replays the requests of the campaign in groups of N.
`--tiny` runs it on a small shape, to see that it works where there is no GPU. Results are written after every part.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from benchmarks.gpu.inprocess import Batches, Conducted, conduct, summary
from benchmarks.gpu.plain import bare, one_at_a_time, replay
from benchmarks.gpu.results import Results
from benchmarks.gpu.shape import QWEN25_7B, TINY, questions, randomize, write
from engine.backends.vllm.backend import load
from engine.registration import resolve
from engine.tasks.registry import open_task
from sessions.spec import from_fields

if TYPE_CHECKING:
    from engine.backends.vllm.backend import VllmBackend
    from sessions.spec import CampaignSpec

QUESTIONS: Final = 400
LEAST_WAVE: Final = 4
TINY_FIELDS: Final = {
    "rollouts": 2,
    "k": 2,
    "max_pivots": 2,
    "max_trunk_tokens": 100,
    "max_cont_tokens": 40,
    "kv_blocks": 4000,
}


def evidence(done: Conducted) -> str:
    """Digest of everything that the pivots say, without when."""
    columns = done.state.table()
    return hashlib.sha256(b"".join(bytes(getattr(columns, name).tobytes()) for name in _arrays(columns))).hexdigest()[
        :16
    ]


def _arrays(columns: Any) -> list[str]:
    return [name for name in columns.__slots__ if hasattr(getattr(columns, name), "tobytes")]


def campaign(spec: CampaignSpec, backend: VllmBackend, group: int) -> tuple[Conducted, Batches, dict[str, Any]]:
    """Run a whole campaign from an empty cache; every pivot must be verified."""
    assert backend.reset_prefix_cache()
    batches = Batches(backend)
    done = conduct(msgspec.structs.replace(spec, group=group, wave=max(group, LEAST_WAVE)), batches)
    told = summary(done)
    cache = told["report"]["cache"]
    assert told["cache_failures"] == 0, told
    assert cache["verified"] == cache["checked"] == cache["ledger"] > 0, cache
    different = told["pivots_that_differ_from_exact_1"]
    assert different["replica anything"] == 0, different
    if spec.batch_invariant:
        assert different["refeed anything"] == 0, different
    del told["report"]
    told |= {
        "verified_by_ledger": cache["ledger"],
        "evidence": evidence(done),
        "tokens": sum(told["pass_tokens"].values()),
        "tokens_per_second_in_passes": round(sum(told["pass_tokens"].values()) / sum(told["pass_seconds"].values())),
        "batch_seconds": [round(seconds, 2) for seconds in batches.seconds],
        "slow_steps": {number: slow for number, slow in enumerate(batches.slow) if slow},
    }
    return done, batches, told


def measure(args: argparse.Namespace, spec: CampaignSpec, backend: VllmBackend, results: Results) -> None:
    """Campaigns first, what takes the watch off the engine after them; then the ratios."""
    done: dict[int, tuple[Conducted, Batches]] = {}
    for group in args.groups:
        conducted, batches, told = campaign(spec, backend, group)
        done[group] = (conducted, batches)
        results.add(f"groups_of_{group}", told)
    if args.batch_invariant:
        said = {group: results.parts[f"groups_of_{group}"]["evidence"] for group in args.groups}
        assert len(set(said.values())) == 1, said
    ratios: dict[str, float] = {}
    if args.plain or args.published:
        llm, stops = bare(backend), sorted(backend.info.stop_ids)
    for group in args.plain:
        conducted, batches = done[group]
        plain = replay(llm, stops, batches.asked, batches.resets)
        results.add(f"plain_groups_of_{group}", plain.summary())
        ratios[f"overhead over plain calls, groups of {group}"] = conducted.seconds / plain.seconds - 1
    if args.published:
        ours = done[args.groups[0]][0]
        published = one_at_a_time(llm, spec, backend, open_task(str(spec.task)), ours.looked_at, ours.measured)
        results.add("published_order", published.summary())
        for group, (conducted, _) in done.items():
            ratios[f"times faster than the published order, groups of {group}"] = published.seconds / conducted.seconds
    results.add("ratios", {name: round(value, 4) for name, value in ratios.items()})


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--groups", type=_numbers, default=[4])
    parser.add_argument("--plain", type=_numbers, default=[])
    parser.add_argument("--published", action="store_true")
    parser.add_argument("--problems", type=int, default=12)
    parser.add_argument("--batch-invariant", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--memory", type=float, default=100.0, help="GiB of KV cache")
    return parser.parse_args()


def main() -> None:
    """Load, randomize, measure."""
    args = arguments()
    results = Results(args.out)
    sizes = TINY if args.tiny else QWEN25_7B
    with tempfile.TemporaryDirectory() as folder:
        wanted = {
            "engine": "vllm",
            "model": str(write(Path(folder) / "model", sizes)),
            "task": f"jsonl:{questions(Path(folder) / 'questions.jsonl', sizes, QUESTIONS)}",
            "batch_invariant": args.batch_invariant,
            "problems": args.problems,
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
            results.engine(backend.info)
            results.add("arguments", {name: str(value) for name, value in vars(args).items()})
            measure(args, spec, backend, results)
        finally:
            backend.close()


if __name__ == "__main__":
    main()
