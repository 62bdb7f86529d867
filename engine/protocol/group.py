"""A group of problems through the three passes: exact 1 of all of them is one batch, then exact 2, then re-feed.

A pass lasts as long as its longest continuation, and most of its steps run nearly empty; several problems in one batch
fill them. The batch is part of what is measured, so it is the same in all three passes: the requests of a problem that
a cache check dropped stay in the later batches as company, served and not checked. Each problem keeps its own checks,
failures, texts, pivots and end.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from engine.protocol.assertions import check_ids, check_plans, check_returned
from engine.protocol.batch_checks import SPOILING, BatchWatch
from engine.protocol.cross_checks import check_against, check_alone
from engine.protocol.evidence import pivot_events, problem_texts, served
from engine.protocol.fidelity import check_fidelity
from engine.protocol.passes import PASSES, PassRun, plan_pass, spoiled_batch
from engine.protocol.trunks import aborted, preempted
from sessions.disk import texts
from sessions.events import CacheFailure, PassEnded, PassStarted, ProblemClosed

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from engine.backend import Completion
    from engine.protocol.context import Bench
    from engine.protocol.passes import CheckFailure, ColdBy, Cut, Pass, PassPlan
    from engine.protocol.trunks import TrunkSet

Verdict = Literal["measured", "aborted", "stopped"]

REFUSED_RESET: Final = spoiled_batch(
    "the engine refused to reset its prefix cache, so the re-feed would not be cold", "reset"
)


@dataclass(frozen=True, slots=True)
class Spoiled:
    """The check that ended a problem.

    Attributes:
        problem: task index.
        stage: "trunks" or the pass's name.
        failure: the failed check.
    """

    problem: int
    stage: str
    failure: CheckFailure


@dataclass(frozen=True, slots=True)
class Measured:
    """How a group ended.

    Attributes:
        verdict: measured (its problems closed, each as measured or as dropped by policy); aborted by a cache check; or
            stopped by `Control`.
        spoiled: the check that aborted it.
    """

    verdict: Verdict
    spoiled: Spoiled | None = None


def record_failures(bench: Bench, problem: int, stage: str, failures: tuple[CheckFailure, ...]) -> None:
    """Write a problem's failed checks to the journal."""
    for failure in failures:
        bench.emit(
            CacheFailure(
                problem=problem,
                attempt=bench.attempt,
                stage=stage,
                request=failure.request,
                rollout=failure.rollout,
                position=failure.position,
                expected=failure.expected,
                found=failure.found,
                reason=failure.reason,
                policy=bench.spec.on_cache_failure,
                check=failure.check,
            )
        )


def spoils_problem(bench: Bench, failures: tuple[CheckFailure, ...]) -> CheckFailure | None:
    """Return the first failure that ends the problem under the registered policy."""
    spoiling = SPOILING[bench.spec.on_cache_failure]
    return next((failure for failure in failures if failure.scope in spoiling), None)


def close_dropped(bench: Bench, spoiled: Spoiled, seconds: float, batch: int) -> None:
    """Close a problem that a cache check dropped."""
    bench.emit(
        ProblemClosed(
            problem=spoiled.problem,
            attempt=bench.attempt,
            outcome="dropped",
            pivots=0,
            seconds=seconds,
            batch=batch,
            reason=f"{spoiled.stage}: {spoiled.failure.reason}",
        )
    )


def _failures(watch: BatchWatch, plan: PassPlan, completions: tuple[Completion, ...]) -> tuple[CheckFailure, ...]:
    """A problem's own failed checks, with what only the end of a batch shows: preemption, aborts, missing reports."""
    failures = [failure for failure in watch.failures if failure.problem == plan.problem]
    strange = check_ids(plan.problem, plan.requests, completions)
    if strange is not None:
        return (*failures, strange)
    lost = None if watch.stopped else aborted(plan.problem, completions)
    failures += [found for found in (preempted(plan.problem, completions), lost) if found is not None]
    known = {failure.request for failure in failures}
    failures += [found for found in check_returned(plan, completions, watch.seen) if found.request not in known]
    return tuple(failures)


def _content(
    bench: Bench, plan: PassPlan, cuts: tuple[Cut, ...], done: tuple[Completion, ...], first: PassRun | None
) -> list[CheckFailure]:
    """What a problem's completions say against the engine; nothing of a part that was cut short or is not its own."""
    if any(completion.finish == "aborted" or not completion.tokens for completion in done):
        return []
    failures = check_alone(plan, done)
    if first is None:
        return failures + check_fidelity(plan, cuts, done, bench.spec.fidelity_nats)
    return failures + check_against(plan, done, first.completions)


def _split(plans: Sequence[PassPlan], completions: tuple[Completion, ...]) -> list[tuple[Completion, ...]]:
    """A batch's completions by problem."""
    parts, start = [], 0
    for plan in plans:
        parts.append(completions[start : start + len(plan.requests)])
        start += len(plan.requests)
    return parts


def run_pass(
    bench: Bench,
    group: Sequence[tuple[int, tuple[Cut, ...]]],
    pass_: Pass,
    cold_by: ColdBy,
    company: Collection[int] = (),
    earlier: Sequence[PassRun] = (),
) -> tuple[PassRun, ...]:
    """Serve one pass of a group as one batch, checking every request as its first token arrives.

    Args:
        bench: what to serve it with.
        group: task index and pivots of each problem.
        pass_: which pass.
        cold_by: how a pass that reads only its own blocks is made cold.
        company: problems that are served and not checked.
        earlier: exact 1 of the same group, as it ran; empty for exact 1 itself.

    Returns:
        each problem's part of the pass, in order.
    """
    info = bench.backend.info
    cold_by = cold_by if pass_.reads == "own" else ""
    plans = [
        plan_pass(bench.spec, pass_, problem, bench.attempt, cuts, info.block_size, cold_by) for problem, cuts in group
    ]
    requests = [request for plan in plans for request in plan.requests]
    problems = tuple(plan.problem for plan in plans)
    bench.emit(
        PassStarted(
            problem=problems[0],
            problems=problems,
            attempt=bench.attempt,
            name=pass_.name,
            requests=len(requests),
            cold_by=cold_by,
        )
    )
    watch = BatchWatch(
        problem=problems[0],
        stage=pass_.name,
        total=len(requests),
        emit=bench.emit,
        control=bench.control,
        plans=[plan for plan in plans if plan.problem not in company],
        block=info.block_size,
        ledger=info.proof == "ledger",
        policy=bench.spec.on_cache_failure,
    )
    began = time.monotonic()
    refused = _refused(bench, plans, group, cold_by, earlier)
    completions = () if refused else bench.backend.run(requests, watch)
    seconds = time.monotonic() - began
    whole = (refused,) if refused else _unnamed(watch, completions)
    runs = []
    for number, (plan, part) in enumerate(zip(plans, _split(plans, completions), strict=True)):
        failures = () if plan.problem in company else whole
        if plan.problem not in company and refused is None:
            failures += _failures(watch, plan, part)
            if not any(failure.check == "returned" for failure in failures):
                failures += tuple(_content(bench, plan, group[number][1], part, earlier[number] if earlier else None))
        runs.append(PassRun(plan, part, failures))
        _record(bench, runs[-1], watch.verified[plan.problem], seconds, len(plans))
    return tuple(runs)


def _refused(
    bench: Bench,
    plans: Sequence[PassPlan],
    group: Sequence[tuple[int, tuple[Cut, ...]]],
    cold_by: ColdBy,
    earlier: Sequence[PassRun],
) -> CheckFailure | None:
    """Why a pass is not served at all: it was planned wrong, or its cache could not be reset."""
    wrong = check_plans(plans, [cuts for _, cuts in group], [run.plan for run in earlier])
    if wrong is not None:
        return spoiled_batch(f"the pass was planned wrong and not served: {wrong}", "plan")
    if "reset" in cold_by and bench.backend.reset_prefix_cache() is not True:
        return REFUSED_RESET
    return None


def _unnamed(watch: BatchWatch, completions: tuple[Completion, ...]) -> tuple[CheckFailure, ...]:
    """Failures of the whole batch: of requests that the engine could not name, and tokens that no step generated."""
    named = any(completion.preemptions > 0 for completion in completions)
    failures = [] if named else [failure for failure in watch.failures if failure.problem is None]
    tokens = sum(len(completion.tokens) for completion in completions)
    if tokens > watch.generated and not watch.stopped:
        reason = f"the engine returned {tokens} tokens, but its steps generated {watch.generated}: they are no run's"
        failures.append(spoiled_batch(reason, "steps"))
    return tuple(failures)


def _record(bench: Bench, run: PassRun, verified: int, seconds: float, batch: int) -> None:
    """Write one problem's part of a pass, and its failed checks, to the journal."""
    name = run.plan.pass_.name
    served_whole = len(run.completions) == len(run.plan.requests)
    bench.emit(
        PassEnded(
            problem=run.plan.problem,
            attempt=bench.attempt,
            name=name,
            seconds=seconds,
            batch=batch,
            tokens=sum(len(completion.tokens) for completion in run.completions),
            verified=verified,
            failed=len(run.failures),
            preemptions=sum(completion.preemptions for completion in run.completions),
            stopped=not served_whole or any(completion.finish == "aborted" for completion in run.completions),
        )
    )
    record_failures(bench, run.plan.problem, name, run.failures)


def _close_measured(bench: Bench, trunks: TrunkSet, runs: Sequence[PassRun], began: float, batch: int) -> None:
    """Record a sound problem's texts and pivots; they count with its ProblemClosed."""
    cuts = trunks.cuts()
    rows = [served(bench, trunks, cuts, run) for run in runs]
    pivots = pivot_events(bench, trunks, cuts, runs, rows)
    name, sha256 = texts.write(bench.texts, problem_texts(bench, trunks, cuts, runs, rows))
    for pivot in pivots:
        bench.emit(pivot)
    bench.emit(
        ProblemClosed(
            problem=trunks.problem.index,
            attempt=bench.attempt,
            outcome="measured",
            pivots=len(pivots),
            seconds=time.monotonic() - began,
            batch=batch,
            texts=name,
            texts_sha256=sha256,
        )
    )


def measure(bench: Bench, sets: Sequence[TrunkSet], cold_by: ColdBy) -> Measured:
    """Run a group's passes and close its problems in registered order; pivots count once ProblemClosed says "measured".

    Args:
        bench: what to measure with.
        sets: the problems' trunks, in registered order; their blocks are resident.
        cold_by: how the re-feed pass is made cold.
    """
    group = [(trunks.problem.index, trunks.cuts()) for trunks in sets]
    began = time.monotonic()
    passes: list[tuple[PassRun, ...]] = []
    spoiled: dict[int, Spoiled] = {}
    for pass_ in PASSES if any(cuts for _, cuts in group) else ():
        runs = run_pass(bench, group, pass_, cold_by, spoiled.keys(), passes[0] if passes else ())
        for run in runs:
            failure = spoils_problem(bench, run.failures)
            if failure is not None:
                spoiled[run.plan.problem] = Spoiled(run.plan.problem, pass_.name, failure)
        if spoiled and bench.spec.on_cache_failure == "abort":
            return Measured("aborted", next(iter(spoiled.values())))
        if bench.control.stop_request is not None:
            return Measured("stopped")
        if len(spoiled) == len(group):
            break
        passes.append(runs)
    for number, trunks in enumerate(sets):
        dropped = spoiled.get(trunks.problem.index)
        if dropped is not None:
            close_dropped(bench, dropped, time.monotonic() - began, len(sets))
        else:
            _close_measured(bench, trunks, [runs[number] for runs in passes], began, len(sets))
    return Measured("measured")
