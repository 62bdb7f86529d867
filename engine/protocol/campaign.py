"""The campaign: waves of trunks, then group by group three passes, until the registered problems are measured.

    for each wave: trunks together
        for each group of its problems: pivots -> exact 1 -> exact 2 -> re-feed -> grade -> records

Read `run` first, then `engine.protocol.group.measure`. Everything that happens is an event; the worker appends it to
the journal and folds it into `CampaignState`, from which the loop reads what is already closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count, islice
from typing import TYPE_CHECKING, Final

from engine.protocol.capacity import fit, fit_screen, group_width, wave_width, worst_cost
from engine.protocol.group import Spoiled, close_dropped, measure, record_failures, spoils_problem
from engine.protocol.trunks import generate, prompt_of
from sessions.errors import RefeedError
from sessions.events import Ended, Notice, Paused, ProblemClosed, Resumed, WavePlanned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.protocol.capacity import Capacity
    from engine.protocol.context import Bench
    from engine.protocol.passes import ColdBy
    from engine.protocol.trunks import TrunkSet
    from engine.tasks.task import Problem
    from sessions.events import Outcome
    from sessions.spec import CampaignSpec
    from sessions.state.campaign import CampaignState

CACHE_ABORT: Final = 4


@dataclass(frozen=True, slots=True)
class Todo:
    """What is left of the registered window.

    Attributes:
        open: task indices that have not closed, in registered order.
        left: problems still to be measured.
    """

    open: tuple[int, ...]
    left: int


def outcomes(state: CampaignState) -> dict[int, Outcome]:
    """Outcome of each closed problem, by task index."""
    return {index: row.outcome for index, row in state.problems.items() if row.outcome is not None}


def todo(spec: CampaignSpec, size: int, state: CampaignState) -> Todo:
    """Return what is left to do; a screen keeps looking until enough problems were kept, a dropped one among them."""
    window = range(spec.start, min(size, spec.start + (spec.problems if spec.screen == "none" else spec.scan_limit)))
    closed = outcomes(state)
    left = spec.problems - sum(outcome != "screened-out" for outcome in closed.values())
    return Todo(tuple(index for index in window if index not in closed) if left > 0 else (), left)


def check_fit(bench: Bench) -> None:
    """Refuse, before any token is generated, a spec that this engine or task cannot carry out.

    Raises:
        RefeedError: kind "spec" or "task", naming the field or the problem.
    """
    spec, info = bench.spec, bench.backend.info
    if spec.boundary_slack >= info.block_size - 1:
        raise RefeedError(
            "spec",
            f"spec field `boundary_slack` is {spec.boundary_slack}, but blocks have {info.block_size} tokens",
            f"it must be below {info.block_size - 1}: a request of whole blocks recomputes the last one",
        )
    last = spec.start + spec.problems
    window = range(spec.start, last if spec.screen == "none" else min(len(bench.task), spec.start + spec.scan_limit))
    if last > len(bench.task):
        raise RefeedError(
            "task",
            f"{bench.task.name} has {len(bench.task)} problems, but the spec wants {spec.start} to {last - 1}",
            "lower `start` or `problems`",
        )
    needed = spec.max_trunk_tokens + max(spec.max_cont_tokens, spec.probe_tokens)
    for index in window:
        longest = len(prompt_of(bench, bench.task.problem(index))) + needed
        if longest > info.max_model_len:
            raise RefeedError(
                "spec",
                f"problem {index} may need {longest} tokens (prompt, trunk and continuation), but the engine takes "
                f"{info.max_model_len}",
                "lower `max_trunk_tokens` or `max_cont_tokens`, or raise `max_model_len`",
            )


def longest_trunks(bench: Bench, problem: Problem) -> list[int]:
    """Tokens of a problem's trunks at their limit."""
    return [len(prompt_of(bench, problem)) + bench.spec.max_trunk_tokens] * bench.spec.rollouts


def plan_wave(bench: Bench, what: Todo) -> tuple[tuple[Problem, ...], ColdBy]:
    """Choose the problems whose trunks are generated together, and how their re-feed passes are made cold.

    Without a screen every one of them will be measured, so their blocks must last at worst. A screen drops most: the
    blocks of all must be there beside one problem's passes, and what the cache cannot hold any longer is generated
    again in the next wave.

    Raises:
        RefeedError: kind "spec" when not even one problem's trunks fit.
    """
    spec, info = bench.spec, bench.backend.info
    width = wave_width(spec)
    wanted = min(width, len(what.open)) if spec.screen == "mixed" else min(width, what.left)
    problems = tuple(bench.task.problem(index) for index in what.open[:wanted])
    costs = [worst_cost(spec, info.block_size, longest_trunks(bench, problem)) for problem in problems]
    chosen = fit if spec.screen == "none" else fit_screen
    capacity = chosen(costs, info, wanted, f"waves of {width}", group=group_width(spec))
    if costs[0].trunks >= info.num_blocks:
        raise RefeedError(
            "spec",
            f"one problem's trunks may need {costs[0].trunks} KV blocks, but the engine has {info.num_blocks}",
            "lower `rollouts` or `max_trunk_tokens`, or give the engine more memory (`kv_blocks`)",
        )
    _warn_of_capacity(bench, capacity)
    problems = problems[: capacity.width]
    bench.emit(
        WavePlanned(
            problems=tuple(problem.index for problem in problems),
            attempt=bench.attempt,
            blocks_needed=capacity.needed,
            blocks_allocated=capacity.allocated,
            blocks_there=capacity.there,
            reason=capacity.reason,
        )
    )
    return problems, cold_by(bench)


def cold_by(bench: Bench) -> ColdBy:
    """How re-feed passes are made cold: by a checked reset where no trunk waits, else by salts that were never used.

    A reset would take away the trunks that wait for their passes. Where only counts are known, a reset alone proves
    too little.
    """
    if wave_width(bench.spec) > 1:
        return "salt"
    return "reset" if bench.backend.info.proof == "ledger" else "reset+salt"


def _warn_of_capacity(bench: Bench, capacity: Capacity) -> None:
    """Say at once, and in every report, that cache checks may fail for want of KV blocks."""
    if capacity.lasts:
        return
    text = (
        f"{capacity.reason}: its passes may allocate {capacity.allocated:,} KV blocks between two reads of its trunks, "
        f"which hold {capacity.needed:,}, but the engine has {capacity.there:,} in all; cache checks will fail unless "
        "texts end early. Lower `k`, `max_cont_tokens`, `rollouts` or `max_pivots`, or give the engine more memory"
    )
    bench.emit(Notice(kind="warning", text=text))


def _holdable(bench: Bench, sets: Sequence[TrunkSet]) -> Capacity | None:
    """How many of the kept problems, in order, the cache can hold, now that their trunks and pivots are known."""
    info = bench.backend.info
    every = [worst_cost(bench.spec, info.block_size, trunks.lengths(), len(trunks.cuts())) for trunks in sets]
    costs = [cost for trunks, cost in zip(sets, every, strict=True) if trunks.kept]
    resident = sum(cost.trunks for cost in every)
    if not costs:
        return None
    return fit(costs, info, len(costs), "trunks generated", group=group_width(bench.spec), resident=resident)


def _close_screened_out(bench: Bench, trunks: TrunkSet) -> None:
    grade = "right" if all(trunks.correct) else "wrong"
    bench.emit(
        ProblemClosed(
            problem=trunks.problem.index,
            attempt=bench.attempt,
            outcome="screened-out",
            pivots=0,
            seconds=0.0,
            reason=f"all {len(trunks.correct)} trunks are {grade}",
        )
    )


def _stopped(bench: Bench) -> Ended | None:
    asked = bench.control.stop_request
    return None if asked is None else asked.end()


def _wait_if_paused(bench: Bench) -> None:
    if bench.control.pause_requested:
        bench.emit(Paused())
        bench.control.wait_while_paused()
        if bench.control.stop_request is None:
            bench.emit(Resumed())


def between_groups(bench: Bench, state: CampaignState) -> Ended | None:
    """Obey, between two groups, a pause, a stop, the registered stop rule and the limits; None to go on."""
    _wait_if_paused(bench)
    return _stopped(bench) or bench.limits.reached(state)


def _cache_abort(spoiled: Spoiled) -> Ended:
    request = f" (request {spoiled.failure.request})" if spoiled.failure.request else ""
    where = f"{spoiled.stage} of problem {spoiled.problem}{request}"
    reason = f"cache check failed in {where}: {spoiled.failure.reason}"
    return Ended(state="aborted", exit_code=CACHE_ABORT, reason=reason)


def _spoiled_trunks(bench: Bench, trunks: TrunkSet) -> Spoiled | None:
    """Record what failed while a problem's trunks were generated; the check that ends it, if one does."""
    problem = trunks.problem.index
    record_failures(bench, problem, "trunks", trunks.failures)
    failure = spoils_problem(bench, trunks.failures)
    return None if failure is None else Spoiled(problem, "trunks", failure)


def _ready(bench: Bench, sets: Sequence[TrunkSet], room: int) -> Iterator[TrunkSet | Spoiled]:
    """The problems that are to be measured, in registered order; closes what the screen drops before the last of them.

    A problem whose trunks a cache check spoiled takes its place, too: it counts as one of the registered problems.
    """
    for trunks in sets:
        if not trunks.kept:
            _close_screened_out(bench, trunks)
            continue
        if room == 0:
            return
        room -= 1
        yield _spoiled_trunks(bench, trunks) or trunks


def run_wave(bench: Bench, state: CampaignState, what: Todo, wave: int) -> Ended | None:
    """Generate one wave's trunks and measure its kept problems, group by group; None to go on."""
    problems, cold = plan_wave(bench, what)
    sets = generate(bench, problems, wave)
    holdable = _holdable(bench, sets)
    ready = _ready(bench, sets, min(what.left, 0 if holdable is None else holdable.width))
    for group in iter(lambda: tuple(islice(ready, group_width(bench.spec))), ()):
        ended = between_groups(bench, state) or run_group(bench, group, cold)
        if ended is not None:
            return ended
    return _stopped(bench)


def run_group(bench: Bench, group: Sequence[TrunkSet | Spoiled], cold: ColdBy) -> Ended | None:
    """Measure one group; None to go on."""
    spoiled = [member for member in group if isinstance(member, Spoiled)]
    if spoiled and bench.spec.on_cache_failure == "abort":
        return _cache_abort(spoiled[0])
    for member in spoiled:
        close_dropped(bench, member, 0.0, 1)
    sound = [member for member in group if not isinstance(member, Spoiled)]
    done = measure(bench, sound, cold) if sound else None
    return None if done is None or done.spoiled is None else _cache_abort(done.spoiled)


def _finished(spec: CampaignSpec, state: CampaignState) -> Ended:
    closed = list(outcomes(state).values())
    measured, dropped = closed.count("measured"), closed.count("dropped")
    reason = f"measured {measured} of {spec.problems} registered problems"
    if dropped > 0:
        reason += f"; {dropped} dropped by cache checks"
    if dropped > 0 and measured == 0:
        return Ended(state="aborted", exit_code=CACHE_ABORT, reason=f"cache checks left nothing: {reason}")
    return Ended(state="finished", exit_code=0, reason=reason)


def run(bench: Bench, state: CampaignState) -> Ended:
    """Run the campaign to its end and return how it ended; the caller emits it.

    Args:
        bench: what to measure with; its `emit` must fold every event into `state`.
        state: the campaign so far; problems that closed in earlier runs are not measured again.

    Raises:
        RefeedError: the spec cannot be carried out, or the engine died.
    """
    check_fit(bench)
    for wave in count():
        what = todo(bench.spec, len(bench.task), state)
        if not what.open:
            break
        ended = between_groups(bench, state) or run_wave(bench, state, what, wave)
        if ended is not None:
            return ended
    # Nothing is left that a pause or a limit could put off.
    return _stopped(bench) or bench.limits.crossed(state) or _finished(bench.spec, state)
