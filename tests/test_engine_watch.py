"""Watching a batch: what stops it, and what is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.backend import FirstToken, StepStats
from engine.protocol.batch_checks import BatchWatch
from engine.protocol.control import Control
from engine.protocol.passes import PASSES, plan_pass
from sessions.events import Progress
from tests.test_engine_passes import BLOCK, CUTS, SPEC, resumed

if TYPE_CHECKING:
    from sessions.events import AnyEvent

PLAN = plan_pass(SPEC, PASSES[0], 7, 0, CUTS, BLOCK, "")
BAD = FirstToken(PLAN.requests[0].id, 0, ())
WORSE = FirstToken(PLAN.requests[1].id, 48, ())


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        """Start at 0."""
        self.now = 0.0

    def __call__(self) -> float:
        """Read."""
        return self.now


def watch(
    *stop_on: str, control: Control | None = None, clock: Clock | None = None
) -> tuple[BatchWatch, list[AnyEvent]]:
    """A watch over exact pass 1, and the events that it emits."""
    events: list[AnyEvent] = []
    watcher = BatchWatch(
        problem=7,
        stage="exact-1",
        total=len(PLAN.requests),
        emit=events.append,
        control=control or Control(),
        plan=PLAN,
        block=BLOCK,
        ledger=True,
        stop_on=frozenset(stop_on),
        clock=clock or Clock(),
    )
    return watcher, events


def stats(tokens: int = 0, preemptions: int = 0) -> StepStats:
    """Engine load after a step."""
    return StepStats(running=4, waiting=0, finished=1, tokens=tokens, kv_use=0.25, preemptions=preemptions)


def test_a_verified_request_counts_and_goes_on() -> None:
    """A request that resumed its trunk is verified."""
    watcher, _ = watch("pivot", "problem")
    assert watcher.first_token(resumed(PLAN)) is True
    assert (watcher.verified, watcher.failures) == (1, [])


@pytest.mark.parametrize(("scopes", "goes_on"), [(("pivot", "problem"), False), (("problem",), False), ((), True)])
def test_a_spoiled_problem_stops_the_batch_where_the_policy_says(scopes: tuple[str, ...], *, goes_on: bool) -> None:
    """An evicted trunk block stops at once under every policy that drops problems."""
    watcher, _ = watch(*scopes)
    assert watcher.first_token(BAD) is goes_on
    assert len(watcher.failures) == 1


def test_a_pivots_failure_goes_on_under_record() -> None:
    """`record` loses the pivot, not the batch."""
    watcher, _ = watch("problem")
    assert watcher.first_token(WORSE) is True
    assert watcher.failures[0].scope == "pivot"


def test_a_preemption_spoils_the_problem_once() -> None:
    """The global counter stays up; one failure is enough."""
    watcher, _ = watch()
    watcher.step(stats(preemptions=1))
    watcher.step(stats(preemptions=2))
    assert [failure.scope for failure in watcher.failures] == ["problem"]


def test_a_stop_request_stops_within_the_step() -> None:
    """A user's abort and a signal end the batch at the next callback."""
    control = Control()
    watcher, _ = watch(control=control)
    assert watcher.step(stats()) is True
    control.stop("aborted by the user", "aborted", 1)
    assert watcher.step(stats()) is False
    assert watcher.first_token(resumed(PLAN)) is False


def test_progress_comes_at_most_twice_a_second_with_the_rate_since_the_last() -> None:
    """Four steps in a second make two Progress events; the rate is of that interval, not of the whole batch."""
    clock = Clock()
    watcher, events = watch(clock=clock)
    for step in range(1, 5):
        clock.now = step * 0.25
        watcher.step(stats(tokens=100 * step))
    assert [event.tokens for event in events if isinstance(event, Progress)] == [200, 400]
    assert [event.tokens_per_s for event in events if isinstance(event, Progress)] == [400.0, 400.0]
