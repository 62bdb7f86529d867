"""A campaign in the shape of the published per-pivot JSON, so that the published analysis reads our sessions.

What that shape has no place for goes under the key "refeed_tui" of the file and of each pivot; `imports` reads it back,
and other programs ignore it. Evidence only: estimates of pivots that do not count would be taken for evidence there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from sessions.events import CacheFailure, Pivot
from sessions.published import PivotExtras
from stats.table import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sessions.campaign import CampaignState
    from sessions.events import AnyEvent, Arm, PassName, PassResult

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
    for (problem, attempt, rollout, position), reason in state.checks.failed.items():
        yield CacheFailure(
            problem=problem,
            attempt=attempt,
            stage="",
            request="",
            rollout=rollout,
            position=None if rollout is None else position,
            expected=None,
            found=None,
            reason=reason,
            policy="",
        )


def _problem(state: CampaignState, problem: int) -> dict[str, Any]:
    row = state.problems[problem]
    ended = {name: next((p for p in row.passes if p.name == name), None) for name in _PASSES}
    seconds = [0.0 if found is None else found.seconds for found in ended.values()]
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
