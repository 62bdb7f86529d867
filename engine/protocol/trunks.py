"""Trunks: the rollouts that a problem's pivots are cut from."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.backend import Request
from engine.protocol.assertions import check_trunks
from engine.protocol.batch_checks import BatchWatch
from engine.protocol.passes import CheckFailure, Cut
from engine.protocol.pivots import PivotRule, Selection, select
from engine.protocol.seeds import request_seed
from engine.tasks.grading import grade
from engine.tasks.task import user_message
from sessions.events import Trunk, TrunksDone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.backend import Completion
    from engine.protocol.context import Bench
    from engine.tasks.task import Problem


@dataclass(frozen=True, slots=True)
class TrunkSet:
    """One problem's trunks, graded, with their pivots.

    Attributes:
        problem: the task's problem.
        prompt: its token ids.
        completions: by rollout.
        correct: grade of each rollout.
        selections: pivots of each rollout.
        kept: whether the screen keeps the problem.
        failures: preemptions, which make a trunk's state a recomputed one, and requests that the engine cut short or
            did not answer as asked.
    """

    problem: Problem
    prompt: tuple[int, ...]
    completions: tuple[Completion, ...]
    correct: tuple[bool, ...]
    selections: tuple[Selection, ...]
    kept: bool
    failures: tuple[CheckFailure, ...]

    def lengths(self) -> list[int]:
        """Tokens of each trunk with its prompt."""
        return [len(self.prompt) + len(completion.tokens) for completion in self.completions]

    def cuts(self) -> tuple[Cut, ...]:
        """Its pivots by rollout and position."""
        return tuple(
            Cut(
                rollout,
                (*self.prompt, *completion.tokens[: site.index]),
                completion.id,
                site,
                completion.logprobs[site.index + 1] if site.index + 1 < len(completion.logprobs) else None,
            )
            for rollout, (completion, selection) in enumerate(zip(self.completions, self.selections, strict=True))
            for site in selection.sites
        )


def prompt_of(bench: Bench, problem: Problem) -> tuple[int, ...]:
    """Token ids of a problem: the question, a blank line, then the instruction, as one user message."""
    instruction = bench.task.instruction if bench.spec.prompt is None else bench.spec.prompt
    return bench.backend.encode_chat(bench.spec.system_prompt, user_message(problem, instruction))


def _trunk_request(bench: Bench, problem: int, prompt: tuple[int, ...], rollout: int, wave: int) -> Request:
    spec = bench.spec
    # A screen may generate a problem's trunks again in a later wave: neither the id nor the salt may come back.
    name = f"{problem}.{bench.attempt}/trunk/w{wave}/r{rollout}"
    return Request(
        id=name,
        prompt=prompt,
        salt=name,
        seed=request_seed(spec.seed, "trunk", problem, rollout) if spec.temperature > 0 else None,
        temperature=spec.temperature,
        top_p=spec.top_p if spec.temperature > 0 else 1.0,
        max_tokens=spec.max_trunk_tokens,
        logprobs=spec.top_logprobs,
    )


def pivot_rule(bench: Bench) -> PivotRule:
    """Return the registered pivot filter on this engine's blocks."""
    spec = bench.spec
    info = bench.backend.info
    return PivotRule(
        margin=spec.margin,
        slack=spec.boundary_slack,
        cap=spec.max_pivots,
        block=info.block_size,
        special_ids=info.special_ids,
        filter=spec.pivot_filter,
    )


def preempted(problem: int, completions: Sequence[Completion]) -> CheckFailure | None:
    """Return the failure of a problem's first preempted request, if there was one."""
    for completion in completions:
        if completion.preemptions > 0:
            reason = f"the request was preempted {completion.preemptions} times and recomputed by prefill"
            return CheckFailure(problem, completion.id, None, None, None, None, reason, "problem", "preempted")
    return None


def aborted(problem: int, completions: Sequence[Completion]) -> CheckFailure | None:
    """Return the failure of a problem's first request that was cut short although nobody stopped the batch."""
    for completion in completions:
        if completion.finish == "aborted":
            reason = "the engine aborted the request, and nobody had asked it to"
            return CheckFailure(problem, completion.id, None, None, None, None, reason, "problem", "aborted")
    return None


def _graded(
    bench: Bench,
    problem: Problem,
    requests: Sequence[Request],
    completions: tuple[Completion, ...],
    unnamed: tuple[CheckFailure, ...],
) -> TrunkSet:
    rule, prompt = pivot_rule(bench), requests[0].prompt
    correct = tuple(
        grade(bench.backend.decode(completion.tokens), problem.gold, bench.spec.grading, bench.spec.grader)
        for completion in completions
    )
    strange = check_trunks(problem.index, requests, completions)
    selections = tuple(
        select(len(prompt), done.tokens, done.logprobs, rule) if strange is None else Selection((), 0)
        for done in completions
    )
    kept = bench.spec.screen == "none" or len(set(correct)) > 1
    named = strange or preempted(problem.index, completions) or aborted(problem.index, completions)
    return TrunkSet(problem, prompt, completions, correct, selections, kept, unnamed if named is None else (named,))


def _event(bench: Bench, trunks: TrunkSet, seconds: float, batch: int) -> TrunksDone:
    rows = zip(trunks.completions, trunks.correct, trunks.selections, strict=True)
    return TrunksDone(
        problem=trunks.problem.index,
        attempt=bench.attempt,
        trunks=tuple(
            Trunk(
                rollout=rollout,
                prompt_tokens=len(trunks.prompt),
                tokens=len(completion.tokens),
                finish=completion.finish,
                correct=correct,
                preemptions=completion.preemptions,
                candidates=selection.candidates,
                pivots=len(selection.sites),
            )
            for rollout, (completion, correct, selection) in enumerate(rows)
        ),
        kept=trunks.kept,
        seconds=seconds,
        batch=batch,
    )


def generate(bench: Bench, problems: Sequence[Problem], wave: int) -> list[TrunkSet]:
    """Generate the trunks of several problems in one batch, grade them and select their pivots.

    Args:
        bench: what to generate with.
        problems: in registered order.
        wave: number of the batch in this run of the worker.

    Returns fewer sets than problems, namely none, when the batch was stopped by `bench.control`.
    """
    prompts = [prompt_of(bench, problem) for problem in problems]
    requests = [
        _trunk_request(bench, problem.index, prompt, rollout, wave)
        for problem, prompt in zip(problems, prompts, strict=True)
        for rollout in range(bench.spec.rollouts)
    ]
    watch = BatchWatch(
        problem=problems[0].index, stage="trunks", total=len(requests), emit=bench.emit, control=bench.control
    )
    began = time.monotonic()
    completions = bench.backend.run(requests, watch)
    seconds = time.monotonic() - began
    if bench.control.stop_request is not None:
        return []
    # A preemption that no completion owns up to may have hit any problem of the batch.
    unnamed = () if any(done.preemptions > 0 for done in completions) else tuple(watch.failures)
    per = bench.spec.rollouts
    sets = [
        _graded(bench, problem, requests[place : place + per], completions[place : place + per], unnamed)
        for problem, place in zip(problems, range(0, len(requests), per), strict=True)
    ]
    for trunks in sets:
        bench.emit(_event(bench, trunks, seconds, len(problems)))
    return sets
