"""Fold events into the state of a campaign: one path for live screens, replays, reports and exports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from sessions.events import (
    CacheFailure,
    Ended,
    EngineReady,
    Event,
    Notice,
    Opened,
    PassEnded,
    PassStarted,
    Paused,
    Pivot,
    ProblemClosed,
    Progress,
    Resumed,
    TrunksDone,
    WavePlanned,
)
from sessions.state.campaign import CampaignState
from sessions.state.consistent import require_consistent
from sessions.state.rows import Current, ProblemRow, Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sessions.spec import CampaignSpec

CLOSING: Final = "closing"


def new_state(spec: CampaignSpec) -> CampaignState:
    """State of a campaign before its first event."""
    return CampaignState(spec=spec)


def fold(state: CampaignState, event: Event) -> None:
    """Add one event to the one state that the caller owns.

    Raises:
        RefeedError: kind "integrity", naming the line, when a pivot's numbers contradict each other or the spec.
    """
    state.events += 1
    state.updated, state.mono = event.wall, event.mono
    if state.runs and not isinstance(event, Opened):
        run = state.runs[-1]
        run.last_wall, run.seconds = event.wall, event.mono
    handle = _HANDLERS.get(type(event))
    if handle is not None:
        handle(state, event)


def fold_all(spec: CampaignSpec, events: Iterable[Event]) -> CampaignState:
    """Fold a whole journal.

    Raises:
        RefeedError: as `fold`, or from reading `events`.
    """
    state = new_state(spec)
    for event in events:
        fold(state, event)
    return state


def _opened(state: CampaignState, event: Opened) -> None:
    if not state.runs:
        state.started = event.wall
    state.runs.append(Run(opened=event, last_wall=event.wall, seconds=event.mono))
    state.source, state.source_sha256 = event.source or state.source, event.source_sha256 or state.source_sha256
    state.ended, state.paused, state.wave = None, False, None
    state.current = Current(since=event.mono)
    state.dropped.abandoned += state.waiting
    state.open.clear()
    for problem in state.unclosed:
        del state.problems[problem]
    state.unclosed.clear()


def _engine_ready(state: CampaignState, event: EngineReady) -> None:
    state.engine = event
    if state.runs:
        state.runs[-1].engine = event
    state.current = Current(stage="between", since=event.mono)


def _wave_planned(state: CampaignState, event: WavePlanned) -> None:
    state.wave = event
    for problem in event.problems:
        row = _row(state, problem, event.attempt)
        if row is not None:
            _update(state, replace(row, stage="trunks"))
    first = event.problems[0] if event.problems else None
    state.current = Current(stage="trunks", problem=first, problems=event.problems, since=event.mono)


def _row(state: CampaignState, problem: int, attempt: int) -> ProblemRow | None:
    """Row of a problem's attempt, fresh when the attempt is; None once the problem closed."""
    row = state.problems.get(problem)
    if row is None or (row.outcome is None and row.attempt != attempt):
        row = ProblemRow(problem=problem, attempt=attempt)
    return row if row.outcome is None else None


def _update(state: CampaignState, row: ProblemRow) -> None:
    """Put an open problem's row in."""
    state.problems[row.problem] = row
    state.unclosed.add(row.problem)


def _trunks_done(state: CampaignState, event: TrunksDone) -> None:
    state.tokens += sum(trunk.tokens for trunk in event.trunks)
    row = _row(state, event.problem, event.attempt)
    if row is not None:
        _update(
            state,
            replace(
                row,
                stage="waiting",
                trunks=event.trunks,
                right=sum(trunk.correct for trunk in event.trunks) if event.right is None else event.right,
                kept=event.kept,
                trunk_seconds=event.seconds,
                trunk_batch=event.batch,
            ),
        )
    state.current = Current(stage="between", since=event.mono)


def _pass_started(state: CampaignState, event: PassStarted) -> None:
    problems = event.problems or (event.problem,)
    for problem in problems:
        row = _row(state, problem, event.attempt)
        if row is not None:
            _update(state, replace(row, stage=event.name))
    state.current = Current(
        stage=event.name, problem=event.problem, problems=problems, since=event.mono, total=event.requests
    )


def _progress(state: CampaignState, event: Progress) -> None:
    same = (state.current.stage, state.current.problem) == (event.stage, event.problem)
    state.current = Current(
        stage=event.stage,
        problem=event.problem,
        problems=state.current.problems if same else (),
        since=state.current.since if same else event.mono,
        done=event.done,
        total=event.total,
        verified=event.verified,
        failed=event.failed,
        tokens=event.tokens,
        tokens_per_s=event.tokens_per_s,
        kv_use=event.kv_use,
        preemptions=event.preemptions,
    )


def _pass_ended(state: CampaignState, event: PassEnded) -> None:
    state.tokens += event.tokens
    row = _row(state, event.problem, event.attempt)
    if row is not None:
        others = (ended for ended in row.passes if ended.name != event.name)
        _update(state, replace(row, passes=(*others, event)))
    state.current = Current(stage="between", since=event.mono)


def _pivot(state: CampaignState, event: Pivot) -> None:
    require_consistent(event, state.spec.k)
    row = _row(state, event.problem, event.attempt)
    place = state.pivots.append(event)
    failed = event.cache.state == "failed"
    if failed:
        state.checks.pivot_failed(event)
        state.dropped.failed += 1
    if row is None:
        state.irregular.append(f"event {event.seq}: a pivot of problem {event.problem}, which had closed; not counted")
        return
    _update(state, replace(row, pivots=row.pivots + 1, failed=row.failed + failed))
    if failed:
        return
    rows = state.open.setdefault((event.problem, event.attempt), {})
    if rows.setdefault((event.rollout, event.position), place) != place:
        state.irregular.append(f"event {event.seq}: a pivot of problem {event.problem} came twice; counted once")


def _cache_failure(state: CampaignState, event: CacheFailure) -> None:
    state.failures.append(event)
    if state.runs and event.policy == "abort":
        state.runs[-1].spoiled = True
    state.checks.failure(event)


def _problem_closed(state: CampaignState, event: ProblemClosed) -> None:
    rows = list(state.open.pop((event.problem, event.attempt), {}).values())
    row = _row(state, event.problem, event.attempt)
    if row is None:
        state.irregular.append(f"event {event.seq}: problem {event.problem} closed again; not counted")
        return
    if row.pivots != event.pivots:
        state.irregular.append(
            f"event {event.seq}: problem {event.problem} closed with {event.pivots} pivots, but {row.pivots} came"
        )
    state.unclosed.discard(event.problem)
    state.checks.settle(rows)
    found = None
    if event.outcome == "measured":
        found = state.admit(event.problem, rows)
    else:
        state.dropped.problem += len(rows)
    state.problems[event.problem] = replace(
        row,
        stage="closed",
        outcome=event.outcome,
        tally=found,
        seconds=event.seconds,
        batch=event.batch,
        closed_at=event.mono,
        texts=(event.texts, event.texts_sha256),
        reason=event.reason,
    )
    state.current = Current(stage="between", since=event.mono)


def _paused(state: CampaignState, event: Paused) -> None:
    state.paused = True
    state.current = Current(stage="paused", since=event.mono)


def _resumed(state: CampaignState, event: Resumed) -> None:
    state.paused = False
    state.current = Current(stage="between", since=event.mono)


def _notice(state: CampaignState, event: Notice) -> None:
    state.notices.append(event)
    if event.kind == CLOSING:
        state.current = Current(stage="closing", since=event.mono)


def _ended(state: CampaignState, event: Ended) -> None:
    state.ended, state.paused = event, False
    if state.runs:
        state.runs[-1].ended = event.state
    state.current = Current(stage="ended", since=event.mono)


# The handlers take the event type that they are filed under, which no annotation of a dictionary can say.
_HANDLERS: Final[dict[type[Event], Callable[..., None]]] = {
    Pivot: _pivot,
    Progress: _progress,
    PassStarted: _pass_started,
    PassEnded: _pass_ended,
    TrunksDone: _trunks_done,
    WavePlanned: _wave_planned,
    ProblemClosed: _problem_closed,
    CacheFailure: _cache_failure,
    Opened: _opened,
    EngineReady: _engine_ready,
    Paused: _paused,
    Resumed: _resumed,
    Notice: _notice,
    Ended: _ended,
}
