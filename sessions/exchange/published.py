"""The public per-pivot JSON of the paper's harness: read, counted by its own rules, and written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from sessions.errors import RefeedError
from sessions.events import CacheFailure, Count, Nats, Pivot, ProofKind, Quota, Seconds
from stats.table import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sessions.events import AnyEvent, Arm, PassName, PassResult
    from sessions.state.campaign import CampaignState


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that a file names. Later versions of the harness name more."""

    model: str
    problems: Quota
    rollouts: Quota
    temperature: float
    top_p: float
    k: Quota
    margin_lt: float
    boundary_slack: Count
    max_pivots_per_rollout: Quota
    max_trunk_tokens: Quota
    max_cont_tokens: Quota
    cont_temp: float | None = None
    screen_mixed: bool = False
    scan_limit: Quota = 200
    scan_start: Count = 0


class ProblemRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One problem: its trunks' accuracy and the seconds of its three passes."""

    problem_id: Count
    pivots: Count
    rollout_accuracy: float
    pass_seconds: tuple[Seconds, Seconds, Seconds]
    total_seconds: Seconds
    cache_violations: dict[str, int] | None = None


class Greedy(msgspec.Struct, frozen=True, kw_only=True):
    """First probed (token id, logprob) of each arm in one pass."""

    actual: tuple[Count, Nats]
    alt: tuple[Count, Nats]


class PivotExtras(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What our own exports add to a pivot, so that importing them loses nothing that a report shows.

    Attributes:
        proof: what its cache checks rest on; None where not instrumented.
        hit_tokens: tokens that each exact request read from the cache.
        decode_tokens: of these, written in decode.
        right: right continuations (actual, alternative) by pass; None in imports.
        twins: requests that hit a block which a sibling continuation decoded, by pass.
        tokens: sampled and forced token id.
        texts: of these.
        logprobs: of these, raw.
        rank: of the sampled token.
    """

    proof: ProofKind | None = None
    hit_tokens: Count | None = None
    decode_tokens: Count | None = None
    right: tuple[tuple[Count, Count], tuple[Count, Count], tuple[Count, Count]] | None = None
    twins: tuple[Count, Count, Count] = (0, 0, 0)
    tokens: tuple[Count, Count] | None = None
    texts: tuple[str, str] = ("", "")
    logprobs: tuple[Nats, Nats] | None = None
    rank: Count | None = None


class RunExtras(msgspec.Struct, frozen=True, kw_only=True):
    """What our own exports add to a file.

    Attributes:
        spec: every registered setting, by field.
        failures: cache failures; they stay in the denominator of the verified share.
    """

    spec: dict[str, object]
    failures: tuple[CacheFailure, ...] = ()


class PivotRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One pivot; estimates are fractions of k. Cache and probe fields are absent in files of the first harness."""

    problem_id: Count
    rollout: Count
    abs_pos: Count
    gen_index: Count
    margin: Nats
    rollout_correct: bool | int
    estimate_exact1: float = msgspec.field(name="A_exact1")
    estimate_exact2: float = msgspec.field(name="A_exact2")
    estimate_refeed: float = msgspec.field(name="A_refeed")
    cache_ok_exact1: bool | None = None
    cache_ok_exact2: bool | None = None
    greedy_first_exact1: Greedy | None = None
    greedy_first_exact2: Greedy | None = None
    greedy_first_refeed: Greedy | None = None
    greedy_divergence_exact2: bool | None = None
    greedy_divergence_refeed: bool | None = None
    greedy_first_logprob_delta_exact2: Nats | None = None
    greedy_first_logprob_delta_refeed: Nats | None = None
    refeed_tui: PivotExtras | None = None


class PublishedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A whole file. `aggregate` is the harness's own arithmetic: recomputed here, and held against the pivots."""

    config: Config
    per_problem: tuple[ProblemRecord, ...]
    pivots: tuple[PivotRecord, ...]
    final: bool = True
    experiment: str = ""
    prereg: str = ""
    elapsed_seconds: float | None = None
    aggregate: dict[str, object] | None = None
    refeed_tui: RunExtras | None = None


_SECTIONS: Final = {"config": Config, "per_problem": ProblemRecord, "pivots": PivotRecord}


def decode(data: bytes, source: str) -> tuple[PublishedRun, tuple[str, ...]]:
    """Read a file's bytes.

    Args:
        data: of the file.
        source: its name, for messages.

    Returns:
        the run, and the names of keys that are not known here, e.g. "config.kv_dtype".

    Raises:
        RefeedError: kind "usage" when it is no such file; the message has the place, e.g. `$.pivots[3].A_exact1`.
    """
    try:
        raw = msgspec.json.decode(data)
        run = msgspec.convert(raw, PublishedRun)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise RefeedError(
            "usage", f"{source} is no per-pivot file of the published harness: {str(error)[:200]!a}"
        ) from None
    return run, tuple(sorted(set(_unknown(raw))))


def _unknown(raw: Mapping[str, Any]) -> Iterator[str]:
    yield from (key[:60] for key in raw if key not in PublishedRun.__struct_encode_fields__)
    for section, record in _SECTIONS.items():
        held = raw[section]
        for part in held if isinstance(held, list) else [held]:
            yield from (f"{section}.{key[:60]}" for key in part if key not in record.__struct_encode_fields__)


class _Pairs(msgspec.Struct, frozen=True):
    """A rate of the published harness: over pivots where exact-1 or the pass that it is compared with is nonzero."""

    eligible: Count
    flips: Count


class Pairs(NamedTuple):
    """One comparison.

    Attributes:
        name: of the pass that exact-1 is compared with.
        said: (changed signs, eligible pivots) by the file's aggregate.
        counted: the same by the file's pivots.
    """

    name: str
    said: tuple[int, int]
    counted: tuple[int, int]


_KEYS: Final = {"re-feed": "primary_exact_vs_refeed", "replica": "floor_exact_vs_exact"}


def pairs(run: PublishedRun) -> Iterator[Pairs]:
    """The comparisons that a file's aggregate has in a form that is known."""
    for name, key in _KEYS.items():
        try:
            said = msgspec.convert((run.aggregate or {}).get(key), _Pairs)
        except msgspec.ValidationError:
            continue
        signs = [(_sign(pivot.estimate_exact1), _sign(_other(pivot, name))) for pivot in run.pivots]
        eligible = [pair for pair in signs if pair != (0, 0)]
        yield Pairs(name, (said.flips, said.eligible), (sum(one != two for one, two in eligible), len(eligible)))


def _other(pivot: PivotRecord, name: str) -> float:
    return pivot.estimate_refeed if name == "re-feed" else pivot.estimate_exact2


def _sign(estimate: float) -> int:
    return (estimate > 0) - (estimate < 0)


_encode: Final = msgspec.json.Encoder().encode
_PASSES: Final[tuple[PassName, ...]] = ("exact-1", "exact-2", "re-feed")


def thaw(state: CampaignState, events: Iterable[AnyEvent], *, anonymous: bool = False) -> Iterator[bytes]:
    """Pieces of the file, in order; pivots are streamed.

    Args:
        state: the whole campaign, folded.
        events: the same journal, read again: token ids of probes are not in the state.
        anonymous: leave out what tokens say.
    """
    head = {
        "experiment": "refeed-tui",
        "config": _config(state),
        "final": state.ended is not None and state.ended.state == "finished",
        "elapsed_seconds": state.seconds,
        "aggregate": {"n_pivots": len(state.evidence)},
        "refeed_tui": {"spec": msgspec.to_builtins(state.spec), "failures": list(_failures(state))},
        "per_problem": [_problem(state, problem) for problem in state.measured],
    }
    yield _encode(head)[:-1] + b',"pivots":['
    rows = {state.pivots.cell(row, "seq"): row for row in state.evidence}
    deltas = state.pivots.deltas()
    separator = b"\n"
    for event in events:
        if isinstance(event, Pivot) and event.seq in rows:
            row = rows[event.seq]
            yield separator + _encode(_pivot(state, event, row, deltas[row].tolist(), anonymous=anonymous))
            separator = b",\n"
    yield b"\n]}\n"


def _config(state: CampaignState) -> dict[str, Any]:
    spec = state.spec
    same = spec.cont_temperature in {None, spec.temperature}
    return {
        "model": spec.model or "",
        "problems": spec.problems,
        "rollouts": spec.rollouts,
        "temperature": spec.temperature,
        "top_p": spec.top_p,
        "k": spec.k,
        "margin_lt": spec.margin,
        "boundary_slack": spec.boundary_slack,
        "max_pivots_per_rollout": spec.max_pivots,
        "max_trunk_tokens": spec.max_trunk_tokens,
        "max_cont_tokens": spec.max_cont_tokens,
        "cont_temp": None if same else spec.cont_temperature,
        "screen_mixed": spec.screen == "mixed",
        "scan_limit": spec.scan_limit,
        "scan_start": spec.start,
    }


def _failures(state: CampaignState) -> Iterator[CacheFailure]:
    for failed in state.checks.failed.values():
        yield CacheFailure(
            problem=failed.problem,
            attempt=failed.attempt,
            stage="",
            request="",
            rollout=failed.rollout,
            position=failed.position,
            expected=None,
            found=None,
            reason=failed.reason,
            policy="",
        )


def _problem(state: CampaignState, problem: int) -> dict[str, Any]:
    row = state.problems[problem]
    ended = {name: next((p for p in row.passes if p.name == name), None) for name in _PASSES}
    seconds = [0.0 if found is None else found.seconds / found.batch for found in ended.values()]
    trunks = len(row.trunks) or state.spec.rollouts
    return {
        "problem_id": problem,
        "pivots": 0 if row.tally is None else row.tally.pivots,
        "cache_violations": {
            name.replace("-", ""): 0 if found is None else found.failed
            for name, found in ended.items()
            if name != "re-feed"
        },
        "rollout_accuracy": (row.right or 0) / trunks,
        "pass_seconds": seconds,
        "total_seconds": row.trunk_seconds / row.trunk_batch + sum(seconds),
    }


def _pivot(state: CampaignState, event: Pivot, row: int, deltas: list[float], *, anonymous: bool) -> dict[str, Any]:
    made: dict[str, Any] = {
        "problem_id": event.problem,
        "rollout": event.rollout,
        "abs_pos": event.position,
        "gen_index": event.index,
        "margin": event.margin,
        "rollout_correct": int(event.correct),
        "A_exact1": event.exact1.net / event.k,
        "A_exact2": event.exact2.net / event.k,
        "A_refeed": event.refeed.net / event.k,
    }
    if event.cache.state == "verified":
        made.update(cache_ok_exact1=True, cache_ok_exact2=True)
    for name, result in (("exact1", event.exact1), ("exact2", event.exact2), ("refeed", event.refeed)):
        greedy = _greedy(result)
        if greedy is not None:
            made[f"greedy_first_{name}"] = greedy
    for name, delta in zip(("exact2", "refeed"), deltas, strict=True):
        diverged = state.pivots.cell(row, "diverged_exact2" if name == "exact2" else "diverged_refeed")
        if diverged != UNKNOWN:
            made[f"greedy_divergence_{name}"] = diverged == 1
        if delta == delta:  # noqa: PLR0124 - not NaN
            made[f"greedy_first_logprob_delta_{name}"] = delta
    made["refeed_tui"] = _extras(event, anonymous=anonymous)
    return made


def _greedy(result: PassResult) -> dict[str, Any] | None:
    one, two = result.actual.probe, result.alternative.probe
    if one is None or two is None:
        return None
    return {"actual": (one.first_token, one.first_logprob), "alt": (two.first_token, two.first_logprob)}


def _extras(event: Pivot, *, anonymous: bool) -> PivotExtras:
    passes = (event.exact1, event.exact2, event.refeed)
    right = tuple(_right(result.actual, result.alternative) for result in passes)
    tokens, logprobs = (event.actual, event.alternative), (event.actual_logprob, event.alternative_logprob)
    return PivotExtras(
        proof=event.cache.proof,
        hit_tokens=event.cache.hit_tokens,
        decode_tokens=event.cache.decode_tokens,
        right=None if None in right else right,  # type: ignore[arg-type]
        twins=(event.exact1.twins, event.exact2.twins, event.refeed.twins),
        tokens=None if None in tokens else tokens,  # type: ignore[arg-type]
        texts=("", "") if anonymous else (event.actual_text, event.alternative_text),
        logprobs=None if None in logprobs else logprobs,  # type: ignore[arg-type]
        rank=event.rank,
    )


def _right(actual: Arm, alternative: Arm) -> tuple[int, int] | None:
    if actual.correct is None or alternative.correct is None:
        return None
    return actual.correct, alternative.correct
