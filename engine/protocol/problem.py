"""One problem's three passes: exact 1, exact 2, re-feed; checked while they run, graded, and recorded."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from engine.protocol.batch_checks import BatchWatch
from engine.protocol.evidence import pivot_events, problem_texts, served
from engine.protocol.passes import PASSES, CheckFailure, plan_pass
from engine.protocol.trunks import aborted, preempted
from sessions.disk import texts
from sessions.events import CacheFailure, PassEnded, PassStarted, ProblemClosed

if TYPE_CHECKING:
    from engine.backend import Completion
    from engine.protocol.context import Bench
    from engine.protocol.passes import ColdBy, Cut, Pass, PassPlan
    from engine.protocol.trunks import TrunkSet

Verdict = Literal["measured", "dropped", "aborted", "stopped"]

# Which scopes of failure end a pass at once, by policy.
STOP_ON: Final[dict[str, frozenset[str]]] = {
    "abort": frozenset({"pivot", "problem"}),
    "drop-problem": frozenset({"pivot", "problem"}),
    "record": frozenset({"problem"}),
}


@dataclass(frozen=True, slots=True)
class PassRun:
    """A pass that ran.

    Attributes:
        plan: its requests and slots.
        completions: in request order.
        failures: failed checks.
    """

    plan: PassPlan
    completions: tuple[Completion, ...]
    failures: tuple[CheckFailure, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """How a problem ended.

    Attributes:
        verdict: measured; dropped by policy; aborted by a cache check; or stopped by `Control`.
        failure: the check that dropped or aborted it.
        stage: of that failure.
    """

    verdict: Verdict
    failure: CheckFailure | None = None
    stage: str = ""


def record_failures(bench: Bench, problem: int, stage: str, failures: tuple[CheckFailure, ...]) -> None:
    """Write failed checks to the journal."""
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
            )
        )


def spoils_problem(bench: Bench, failures: tuple[CheckFailure, ...]) -> CheckFailure | None:
    """Return the first failure that ends the problem under the registered policy."""
    stop_on = STOP_ON[bench.spec.on_cache_failure]
    return next((failure for failure in failures if failure.scope in stop_on), None)


def close_dropped(bench: Bench, problem: int, failure: CheckFailure, stage: str, seconds: float) -> Measured:
    """End a spoiled problem: abort the campaign or drop the problem, as the policy says."""
    if bench.spec.on_cache_failure == "abort":
        return Measured("aborted", failure, stage)
    bench.emit(
        ProblemClosed(
            problem=problem,
            attempt=bench.attempt,
            outcome="dropped",
            pivots=0,
            seconds=seconds,
            reason=f"{stage}: {failure.reason}",
        )
    )
    return Measured("dropped", failure, stage)


def _all_failures(watch: BatchWatch, plan: PassPlan, completions: tuple[Completion, ...]) -> list[CheckFailure]:
    """Add what only the end of a batch shows: who was preempted or aborted, and who never reported."""
    failures = [failure for failure in watch.failures if failure.request]
    named = preempted(completions)
    unnamed = [failure for failure in watch.failures if not failure.request]
    failures += [named] if named is not None else unnamed
    lost = None if watch.stopped else aborted(completions)
    failures += [lost] if lost is not None else []
    for completion in completions:
        if completion.finish != "aborted" and completion.id not in watch.seen:
            want = plan.expectations[completion.id]
            reason = "the request ended without reporting its cache hit"
            failures.append(CheckFailure(completion.id, want.rollout, want.position, want.hit, None, reason, "pivot"))
    return failures


REFUSED_RESET: Final = CheckFailure(
    request="",
    rollout=None,
    position=None,
    expected=None,
    found=None,
    reason="the engine refused to reset its prefix cache, so the re-feed would not be cold",
    scope="problem",
)


def run_pass(bench: Bench, problem: int, pass_: Pass, cuts: tuple[Cut, ...], cold_by: ColdBy) -> PassRun:
    """Serve one pass, checking every request as its first token arrives."""
    info = bench.backend.info
    cold_by = cold_by if pass_.reads == "own" else ""
    plan = plan_pass(bench.spec, pass_, problem, bench.attempt, cuts, info.block_size, cold_by)
    bench.emit(
        PassStarted(
            problem=problem, attempt=bench.attempt, name=pass_.name, requests=len(plan.requests), cold_by=cold_by
        )
    )
    watch = BatchWatch(
        problem=problem,
        stage=pass_.name,
        total=len(plan.requests),
        emit=bench.emit,
        control=bench.control,
        plan=plan,
        block=info.block_size,
        ledger=info.proof == "ledger",
        stop_on=STOP_ON[bench.spec.on_cache_failure],
    )
    began = time.monotonic()
    if cold_by == "reset" and bench.backend.reset_prefix_cache() is not True:
        completions: tuple[Completion, ...] = ()
        failures = [REFUSED_RESET]
    else:
        completions = bench.backend.run(plan.requests, watch)
        failures = _all_failures(watch, plan, completions)
    bench.emit(
        PassEnded(
            problem=problem,
            attempt=bench.attempt,
            name=pass_.name,
            seconds=time.monotonic() - began,
            tokens=sum(len(completion.tokens) for completion in completions),
            verified=watch.verified,
            failed=len(failures),
            preemptions=sum(completion.preemptions for completion in completions),
            stopped=any(completion.finish == "aborted" for completion in completions) or not completions,
        )
    )
    record_failures(bench, problem, pass_.name, tuple(failures))
    return PassRun(plan, completions, tuple(failures))


def measure(bench: Bench, trunks: TrunkSet, cold_by: ColdBy) -> Measured:
    """Run a problem's passes and record its pivots; the pivots count once ProblemClosed says "measured".

    Args:
        bench: what to measure with.
        trunks: the problem's trunks; their blocks are resident.
        cold_by: how the re-feed pass is made cold.
    """
    problem = trunks.problem.index
    cuts = trunks.cuts()
    began = time.monotonic()
    runs: list[PassRun] = []
    for pass_ in PASSES if cuts else ():
        run = run_pass(bench, problem, pass_, cuts, cold_by)
        spoiled = spoils_problem(bench, run.failures)
        if spoiled is not None:
            return close_dropped(bench, problem, spoiled, pass_.name, time.monotonic() - began)
        if bench.control.stop_request is not None:
            return Measured("stopped")
        runs.append(run)
    rows = [served(bench, trunks, cuts, run) for run in runs]
    pivots = pivot_events(bench, trunks, cuts, runs, rows) if runs else []
    name, sha256 = texts.write(bench.texts, problem_texts(bench, trunks, cuts, runs, rows))
    for pivot in pivots:
        bench.emit(pivot)
    bench.emit(
        ProblemClosed(
            problem=problem,
            attempt=bench.attempt,
            outcome="measured",
            pivots=len(pivots),
            seconds=time.monotonic() - began,
            texts=name,
            texts_sha256=sha256,
        )
    )
    return Measured("measured")
