"""From completions to evidence: graded counts, probes and cache proofs per pivot, and the texts behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.protocol.fidelity import actual_probes, fidelity
from engine.protocol.passes import ARMS
from engine.tasks.grading import grade
from sessions.disk.texts import ContinuationText, ProbeText, ProblemTexts, TrunkText, probe_of
from sessions.events import Arm, CacheProof, PassResult, Pivot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.backend import Completion
    from engine.protocol.context import Bench
    from engine.protocol.passes import ArmName, CheckFailure, Cut, PassRun, Slot
    from engine.protocol.trunks import TrunkSet
    from sessions.events import PassName


def solution_text(bench: Bench, trunks: TrunkSet, cut: Cut, arm: ArmName, completion: Completion) -> str:
    """Return the text that is graded: trunk part, forced token and continuation, or by the published rule the last."""
    if bench.spec.grading == "published":
        return bench.backend.decode(completion.tokens)
    forced = cut.site.actual if arm == "actual" else cut.site.alternative
    return bench.backend.decode((*cut.prefix[len(trunks.prompt) :], forced, *completion.tokens))


@dataclass(frozen=True, slots=True)
class Served:
    """One request's completion with its place and grade.

    Attributes:
        slot: which pivot, arm and continuation.
        completion: what the engine returned.
        correct: grade of the completed solution; None for probes.
    """

    slot: Slot
    completion: Completion
    correct: bool | None


def served(bench: Bench, trunks: TrunkSet, cuts: Sequence[Cut], run: PassRun) -> list[list[Served]]:
    """Grade a pass and group its completions by pivot, in request order.

    Capped and empty continuations are graded like any text (protocol, "Evidence").
    """
    groups: list[list[Served]] = [[] for _ in cuts]
    for slot, completion in zip(run.plan.slots, run.completions, strict=True):
        correct = None
        if slot.k is not None:
            text = solution_text(bench, trunks, cuts[slot.cut], slot.arm, completion)
            correct = grade(text, trunks.problem.gold, bench.spec.grading, bench.spec.grader)
        groups[slot.cut].append(Served(slot, completion, correct))
    return groups


def _arm(rows: Sequence[Served], arm: ArmName) -> Arm:
    mine = [row for row in rows if row.slot.arm == arm]
    continuations = [row for row in mine if row.slot.k is not None]
    probe = next(row.completion for row in mine if row.slot.k is None)
    return Arm(
        correct=sum(row.correct is True for row in continuations),
        capped=sum(row.completion.finish == "length" for row in continuations),
        tokens=sum(len(row.completion.tokens) for row in continuations),
        probe=probe_of(probe.tokens, [entry.sampled for entry in probe.logprobs]),
    )


def _pass_result(rows: Sequence[Served], reads: str) -> PassResult:
    actual, alternative = (_arm(rows, arm) for arm in ARMS)
    assert actual.correct is not None
    assert alternative.correct is not None
    counts = [row.completion.cached_tokens for row in rows if row.completion.cached_tokens is not None]
    twins = sum(any(origin.decode_tokens > 0 for origin in row.completion.origins or ()) for row in rows)
    return PassResult(
        net=actual.correct - alternative.correct,
        actual=actual,
        alternative=alternative,
        cached=(min(counts), max(counts)) if counts else None,
        twins=twins if reads == "own" else 0,
    )


def _cache_proof(first: Completion, hit: int, failure: CheckFailure | None) -> CacheProof:
    origins = first.origins
    return CacheProof(
        state="verified" if failure is None else "failed",
        proof="counts" if origins is None else "ledger",
        hit_tokens=hit,
        decode_tokens=None if origins is None else sum(origin.decode_tokens for origin in origins),
        reason="" if failure is None else f"{failure.request}: {failure.reason}",
    )


def pivot_events(
    bench: Bench, trunks: TrunkSet, cuts: Sequence[Cut], runs: Sequence[PassRun], rows: Sequence[list[list[Served]]]
) -> list[Pivot]:
    """Return one Pivot event per cut, with all passes inside.

    Args:
        bench: what the problem was measured with.
        trunks: the problem's trunks.
        cuts: its pivots.
        runs: exact 1, exact 2 and re-feed, as they ran.
        rows: by pass and pivot, as from `served`.
    """
    failures = [failure for run in runs for failure in run.failures]
    failed = {(failure.rollout, failure.position): failure for failure in reversed(failures)}
    probes = actual_probes(runs[0].plan, cuts, runs[0].completions) if runs else []
    events = []
    for number, cut in enumerate(cuts):
        site = cut.site
        results = [_pass_result(rows[index][number], run.plan.pass_.reads) for index, run in enumerate(runs)]
        first = rows[0][number][0].completion
        hit = runs[0].plan.expectations[first.id].hit
        events.append(
            Pivot(
                problem=trunks.problem.index,
                attempt=bench.attempt,
                rollout=cut.rollout,
                position=site.position,
                index=site.index,
                margin=site.margin,
                k=bench.spec.k,
                correct=trunks.correct[cut.rollout],
                cache=_cache_proof(first, hit, failed.get((cut.rollout, site.position))),
                exact1=results[0],
                exact2=results[1],
                refeed=results[2],
                actual=site.actual,
                alternative=site.alternative,
                actual_text=bench.backend.decode((site.actual,)),
                alternative_text=bench.backend.decode((site.alternative,)),
                actual_logprob=site.actual_logprob,
                alternative_logprob=site.alternative_logprob,
                rank=site.rank,
                fidelity=fidelity(cut, probes[number]),
            )
        )
    return events


def _trunk_texts(bench: Bench, trunks: TrunkSet) -> tuple[TrunkText, ...]:
    return tuple(
        TrunkText(
            rollout=rollout,
            tokens=completion.tokens,
            text=bench.backend.decode(completion.tokens),
            sampled=tuple(entry.sampled for entry in completion.logprobs),
            top=tuple(entry.top for entry in completion.logprobs),
        )
        for rollout, completion in enumerate(trunks.completions)
    )


def _continuation_text(bench: Bench, name: PassName, cut: Cut, row: Served) -> ContinuationText:
    assert row.slot.k is not None
    return ContinuationText(
        name=name,
        rollout=cut.rollout,
        position=cut.site.position,
        arm=row.slot.arm,
        k=row.slot.k,
        tokens=row.completion.tokens,
        text=bench.backend.decode(row.completion.tokens),
        finish=row.completion.finish,
        correct=row.correct is True,
    )


def _probe_text(name: PassName, cut: Cut, row: Served) -> ProbeText:
    return ProbeText(
        name=name,
        rollout=cut.rollout,
        position=cut.site.position,
        arm=row.slot.arm,
        tokens=row.completion.tokens,
        logprobs=tuple(entry.sampled for entry in row.completion.logprobs),
    )


def problem_texts(
    bench: Bench, trunks: TrunkSet, cuts: Sequence[Cut], runs: Sequence[PassRun], rows: Sequence[list[list[Served]]]
) -> ProblemTexts:
    """Return what a problem's trunks, continuations and probes said, for drill-down; arguments as in `pivot_events`."""
    named = [
        (run.plan.pass_.name, cut, row)
        for run, by_cut in zip(runs, rows, strict=True)
        for cut, of_cut in zip(cuts, by_cut, strict=True)
        for row in of_cut
    ]
    return ProblemTexts(
        problem=trunks.problem.index,
        attempt=bench.attempt,
        prompt=trunks.prompt,
        question=trunks.problem.question,
        answer=trunks.problem.gold,
        trunks=_trunk_texts(bench, trunks),
        continuations=tuple(
            _continuation_text(bench, name, cut, row) for name, cut, row in named if row.slot.k is not None
        ),
        probes=tuple(_probe_text(name, cut, row) for name, cut, row in named if row.slot.k is None),
    )
