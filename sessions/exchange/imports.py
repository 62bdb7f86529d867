"""Published per-pivot files become sessions, so that they are listed, reported and pooled like any other.

Nothing is made up: what a file does not say stays absent, and settings that every published run shared but no file
names are listed in a notice. Counts come back from fractions, and a fraction that is no count is an error.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from sessions.disk.files import failure, read_bounded
from sessions.disk.journal import Journal
from sessions.errors import RefeedError
from sessions.events import (
    AnyEvent,
    Arm,
    CacheProof,
    Ended,
    Notice,
    Opened,
    PassEnded,
    PassName,
    PassResult,
    PassStarted,
    Pivot,
    Probe,
    ProblemClosed,
    TrunksDone,
)
from sessions.exchange.bundle import is_bundle, unpack
from sessions.exchange.published import (
    Config,
    Greedy,
    PivotExtras,
    PivotRecord,
    ProblemRecord,
    PublishedRun,
    decode,
    pairs,
)
from sessions.presets import PUBLISHED_INSTRUCTION
from sessions.spec import CampaignSpec, from_fields, register
from sessions.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sessions.store import SessionFolder, Store

VERSION: Final = "import-1"
_LIMIT: Final = 256 << 20
_ATTEMPT: Final = 0
_PASSES: Final[tuple[PassName, ...]] = get_args(PassName)
_BLOCK: Final = 16
# Shared by all published runs, named by none of their files.
_UNNAMED: Final[dict[str, object]] = {
    "engine": "vllm",
    "dtype": "bfloat16",
    "task": "gsm8k",
    "prompt": PUBLISHED_INSTRUCTION,
    "probe_tokens": 32,
    "top_logprobs": 5,
    "wave": 1,
    "group": 1,
    "seed": 0,
    "block_size": _BLOCK,
    "max_model_len": 4096,
    "gpu_memory_utilization": 0.92,
    "pivot_filter": "published",
    "grading": "published",
}
_ROUNDING: Final = 1e-9


def import_file(
    path: Path, store: Store, name: str | None = None, overrides: Mapping[str, object] | None = None
) -> SessionFolder:
    """Make a session of a published file, or bring in one that was exported as a bundle.

    Args:
        path: the file.
        store: where the session goes.
        name: of the session.
        overrides: as `import_published`; a bundle takes none.

    Raises:
        RefeedError: as `import_published` and `bundle.unpack`.
    """
    if not is_bundle(path):
        return import_published(path, store, name, overrides)
    if overrides:
        raise RefeedError("usage", "a bundle's settings are locked", f"leave out {', '.join(sorted(overrides))}")
    return unpack(path, store, name)


def import_published(
    path: Path, store: Store, name: str | None = None, overrides: Mapping[str, object] | None = None
) -> SessionFolder:
    """Make a session of a published file.

    Args:
        path: the file.
        store: where the session goes.
        name: of the session.
        overrides: spec fields that the file does not name but the caller knows, e.g. {"batch_invariant": True}.

    Raises:
        RefeedError: kind "usage" when the file is none of the published shape, or holds an impossible value (the
            message names file and record); kind "spec" when its settings are none; kind "failed" when it cannot be
            read or the session cannot be written, in which case nothing of it stays.
    """
    try:
        data = read_bounded(Path(path).resolve(), _LIMIT)  # a person may well name a link; a session may not hold one
    except FileNotFoundError:
        raise RefeedError("usage", f"{path} is not there", "name a per-pivot JSON file") from None
    source = printable(path.name)
    run, unknown = decode(data, source)
    spec = _spec(run, source, overrides or {})
    failures = run.refeed_tui.failures if run.refeed_tui is not None else ()
    body = [*_notices(run, unknown, source, overrides or {}), *_problems(run, source), *failures]
    folder = store.create(register(spec, name=name))
    opened = Opened(
        session=folder.path.name, version=VERSION, source=source, source_sha256=hashlib.sha256(data).hexdigest()
    )
    try:
        _write(folder, [opened, *body, Ended(state="finished", exit_code=0, reason=f"imported from {source}")])
    except RefeedError:
        shutil.rmtree(folder.path, ignore_errors=True)
        raise
    except OSError as error:
        shutil.rmtree(folder.path, ignore_errors=True)
        raise failure("write", folder.path, error) from error
    return folder


def _write(folder: SessionFolder, events: list[AnyEvent]) -> None:
    """Append events on the recorded clock: no wall times are known, and passes took the seconds that the file says."""
    elapsed = 0.0
    with Journal.open(folder.journal_path, folder.registration().digest, clock=lambda: (0.0, elapsed)) as journal:
        for event in events:
            if isinstance(event, TrunksDone | PassEnded):
                elapsed += event.seconds
            journal.append(event)
    folder.summary()


def _spec(run: PublishedRun, source: str, overrides: Mapping[str, object]) -> CampaignSpec:
    """The spec that a file's settings stand for; our own exports carry all of it."""
    own = run.refeed_tui
    fields = {**(_fields(run.config, source) if own is None else own.spec), **overrides}
    try:
        spec = from_fields(fields)
    except RefeedError as error:
        raise RefeedError(error.kind, f"{source}: {error.message}", error.hint) from None
    if spec.k != run.config.k:
        raise RefeedError("usage", f"{source}: config says k = {run.config.k}, but its spec says {spec.k}")
    return spec


def _fields(config: Config, source: str) -> dict[str, object]:
    return {
        **_UNNAMED,
        "batch_invariant": _batch_invariant(source),
        "model": config.model,
        "problems": config.problems,
        "start": config.scan_start,
        "screen": "mixed" if config.screen_mixed else "none",
        "scan_limit": config.scan_limit,
        "rollouts": config.rollouts,
        "temperature": config.temperature,
        "top_p": config.top_p,
        "k": config.k,
        "cont_temperature": config.temperature if config.cont_temp is None else config.cont_temp,
        "margin": config.margin_lt,
        "boundary_slack": config.boundary_slack,
        "max_pivots": config.max_pivots_per_rollout,
        "max_trunk_tokens": config.max_trunk_tokens,
        "max_cont_tokens": config.max_cont_tokens,
    }


def _batch_invariant(source: str) -> bool:
    """Whether the file's name says batch-invariant; the harness took that from the environment and did not save it."""
    return "batchinv" in "".join(letter for letter in source.lower() if letter.isalnum())


def _notices(
    run: PublishedRun, unknown: tuple[str, ...], source: str, overrides: Mapping[str, object]
) -> Iterator[Notice]:
    own = run.refeed_tui is not None
    if not own:
        taken = ", ".join(sorted(set(_UNNAMED) - set(overrides)))
        yield Notice(kind="import", text=f"{source} does not name {taken}; taken from the published settings")
    if overrides:
        yield Notice(kind="import", text=f"given at the import, not in {source}: {', '.join(sorted(overrides))}")
    if not own and _batch_invariant(source) and "batch_invariant" not in overrides:
        yield Notice(kind="import", text="batch_invariant is taken from the file's name; the file does not say")
    if unknown:
        names = ", ".join(map(printable, unknown[:40]))
        yield Notice(kind="import", text=f"keys that are not known were left out: {names}")
    if not run.final or len(run.per_problem) != run.config.problems:
        text = f"the file holds {len(run.per_problem)} of {run.config.problems} problems"
        yield Notice(kind="warning", text=text + ("" if run.final else ", and says that it is not final"))
    stray = sum(pivot.abs_pos % _BLOCK > run.config.boundary_slack for pivot in run.pivots)
    if stray and not own:
        yield Notice(kind="warning", text=f"{stray} pivots do not lie within the slack of blocks of {_BLOCK} tokens")
    violations = sum(sum((problem.cache_violations or {}).values()) for problem in run.per_problem)
    failed = sum(pivot.cache_ok_exact1 is False or pivot.cache_ok_exact2 is False for pivot in run.pivots)
    if violations > 0 and failed == 0:
        yield Notice(kind="warning", text=f"{violations} cache violations are counted, but no pivot is marked")
    torn = sum(_delta_differs(pivot) for pivot in run.pivots)
    if torn > 0:
        yield Notice(kind="warning", text=f"{torn} probe differences are not those of their first logprobs")
    yield from _own_rates(run)


def _own_rates(run: PublishedRun) -> Iterator[Notice]:
    """What the file counts itself: otherwise than the report, which is said, and from these pivots, or they changed."""
    pivots = (run.aggregate or {}).get("n_pivots", len(run.pivots))
    if pivots != len(run.pivots):
        text = f"the file says that it has {str(pivots)[:20]!a} pivots, but has {len(run.pivots)}: it was edited or cut"
        yield Notice(kind="warning", text=text)
    found = tuple(pairs(run))
    for name, said, counted in found:
        if said != counted:
            text = f"the file says that {said[0]} of {said[1]} signs changed in the {name} pass, but its pivots give"
            yield Notice(kind="warning", text=f"{text} {counted[0]} of {counted[1]}: it was edited")
    if found:
        own = " and ".join(f"{said[0]} of {said[1]} in the {name} pass" for name, said, _ in found)
        text = f"the file's own rates are over pivots where exact-1 or that one pass is not 0: {own}"
        yield Notice(kind="import", text=f"{text}; the report has both over pivots where any pass is not 0")


def _delta_differs(pivot: PivotRecord) -> bool:
    one = pivot.greedy_first_exact1
    pairs = (
        (pivot.greedy_first_exact2, pivot.greedy_first_logprob_delta_exact2),
        (pivot.greedy_first_refeed, pivot.greedy_first_logprob_delta_refeed),
    )
    return any(
        one is not None
        and other is not None
        and delta is not None
        and max(abs(one.actual[1] - other.actual[1]), abs(one.alt[1] - other.alt[1])) != delta
        for other, delta in pairs
    )


def _problems(run: PublishedRun, source: str) -> Iterator[AnyEvent]:
    order = {problem.problem_id: problem for problem in run.per_problem}
    if len(order) != len(run.per_problem):
        raise RefeedError("usage", f"{source}: per_problem has a problem twice")
    pivots: dict[int, list[Pivot]] = {problem: [] for problem in order}
    places = set()
    for number, record in enumerate(run.pivots):
        where = f"{source}: pivots[{number}] (problem {record.problem_id}, rollout {record.rollout})"
        if record.problem_id not in pivots:
            raise RefeedError("usage", f"{where}: per_problem does not have its problem")
        place = (record.problem_id, record.rollout, record.abs_pos)
        if place in places:
            raise RefeedError("usage", f"{where}: position {record.abs_pos} came before")
        places.add(place)
        pivots[record.problem_id].append(_pivot(record, run.config, where))
    for problem in run.per_problem:
        yield from _problem(problem, pivots[problem.problem_id], run.config, source)


def _problem(record: ProblemRecord, pivots: list[Pivot], config: Config, source: str) -> Iterator[AnyEvent]:
    problem = record.problem_id
    if record.pivots != len(pivots):
        raise RefeedError("usage", f"{source}: problem {problem} says {record.pivots} pivots, but has {len(pivots)}")
    right = _count(record.rollout_accuracy, config.rollouts, f"{source}: problem {problem}: rollout_accuracy", least=0)
    seconds = sum(record.pass_seconds)
    trunk_seconds = max(0.0, record.total_seconds - seconds)
    yield TrunksDone(problem=problem, attempt=_ATTEMPT, trunks=(), kept=True, seconds=trunk_seconds, right=right)
    requests = len(pivots) * 2 * (config.k + 1)
    for name, took in zip(_PASSES, record.pass_seconds, strict=True):
        yield PassStarted(problem=problem, attempt=_ATTEMPT, name=name, requests=requests)
        yield PassEnded(problem=problem, attempt=_ATTEMPT, name=name, seconds=took, tokens=0, verified=0, failed=0)
    yield from pivots
    yield ProblemClosed(problem=problem, attempt=_ATTEMPT, outcome="measured", pivots=len(pivots), seconds=seconds)


def _pivot(record: PivotRecord, config: Config, where: str) -> Pivot:
    if record.rollout >= config.rollouts:
        raise RefeedError("usage", f"{where}: only {config.rollouts} rollouts were configured")
    if record.rollout_correct not in {0, 1}:
        raise RefeedError("usage", f"{where}: rollout_correct is {record.rollout_correct}", "it must be 0 or 1")
    nets = [
        _count(value, config.k, f"{where}: {name}")
        for name, value in (
            ("A_exact1", record.estimate_exact1),
            ("A_exact2", record.estimate_exact2),
            ("A_refeed", record.estimate_refeed),
        )
    ]
    extras = record.refeed_tui or PivotExtras()
    tokens, logprobs = extras.tokens or (None, None), extras.logprobs or (None, None)
    return Pivot(
        problem=record.problem_id,
        attempt=_ATTEMPT,
        rollout=record.rollout,
        position=record.abs_pos,
        index=record.gen_index,
        margin=record.margin,
        k=config.k,
        correct=record.rollout_correct == 1,
        cache=_proof(record, extras),
        exact1=_result(0, nets, extras, record.greedy_first_exact1),
        exact2=_result(
            1,
            nets,
            extras,
            record.greedy_first_exact2,
            record.greedy_divergence_exact2,
            record.greedy_first_logprob_delta_exact2,
        ),
        refeed=_result(
            2,
            nets,
            extras,
            record.greedy_first_refeed,
            record.greedy_divergence_refeed,
            record.greedy_first_logprob_delta_refeed,
        ),
        actual=tokens[0],
        alternative=tokens[1],
        actual_text=extras.texts[0],
        alternative_text=extras.texts[1],
        actual_logprob=logprobs[0],
        alternative_logprob=logprobs[1],
        rank=extras.rank,
    )


def _result(
    which: int,
    nets: list[int],
    extras: PivotExtras,
    greedy: Greedy | None,
    diverged: bool | None = None,
    delta: float | None = None,
) -> PassResult:
    """One pass of a pivot; `which` is its place among the three."""
    probes: tuple[Probe | None, Probe | None] = (None, None)
    if greedy is not None:
        probes = (
            Probe(first_token=greedy.actual[0], first_logprob=greedy.actual[1]),
            Probe(first_token=greedy.alt[0], first_logprob=greedy.alt[1]),
        )
    right = (None, None) if extras.right is None else extras.right[which]
    return PassResult(
        net=nets[which],
        actual=Arm(correct=right[0], probe=probes[0]),
        alternative=Arm(correct=right[1], probe=probes[1]),
        twins=extras.twins[which],
        probe_diverged=diverged,
        probe_delta=delta,
    )


def _proof(record: PivotRecord, extras: PivotExtras) -> CacheProof:
    """The file's own verdict. The harness never says which counts it saw, and never looked at the re-feed pass's."""
    flags = {"exact-1": record.cache_ok_exact1, "exact-2": record.cache_ok_exact2}
    bad = [name for name, flag in flags.items() if flag is False]
    if bad:
        return CacheProof(state="failed", proof="counts", reason=f"the file says so of {' and '.join(bad)}")
    if None in flags.values():
        return CacheProof(state="not_instrumented")
    return CacheProof(
        state="verified",
        proof=extras.proof or "counts",
        hit_tokens=extras.hit_tokens,
        decode_tokens=extras.decode_tokens,
    )


def _count(value: float, of: int, where: str, least: int | None = None) -> int:
    """The integer that a fraction stands for.

    Raises:
        RefeedError: kind "usage" when it stands for none.
    """
    count = round(value * of)
    if abs(value * of - count) > _ROUNDING * of or not (-of if least is None else least) <= count <= of:
        raise RefeedError("usage", f"{where} is {value!r}, which is no count out of {of}")
    return count
