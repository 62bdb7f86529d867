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
    from engine.protocol.passes import PassPlan
    from sessions.events import AnyEvent

PLAN = plan_pass(SPEC, PASSES[0], 7, 0, CUTS, BLOCK, "")
OTHER = plan_pass(SPEC, PASSES[0], 8, 0, CUTS, BLOCK, "")
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
    policy: str = "abort", *more: PassPlan, control: Control | None = None, clock: Clock | None = None
) -> tuple[BatchWatch, list[AnyEvent]]:
    """A watch over exact pass 1 of problem 7 and of those in `more`, and the events that it emits."""
    events: list[AnyEvent] = []
    watcher = BatchWatch(
        problem=7,
        stage="exact-1",
        total=len(PLAN.requests),
        emit=events.append,
        control=control or Control(),
        plans=[PLAN, *more],
        block=BLOCK,
        ledger=True,
        policy=policy,
        clock=clock or Clock(),
    )
    return watcher, events


def stats(tokens: int = 0, preemptions: int = 0) -> StepStats:
    """Engine load after a step."""
    return StepStats(running=4, waiting=0, finished=1, tokens=tokens, kv_use=0.25, preemptions=preemptions)


def test_a_verified_request_counts_and_goes_on() -> None:
    """A request that resumed its trunk is verified."""
    watcher, _ = watch()
    assert watcher.first_token(resumed(PLAN)) is True
    assert (watcher.verified[7], watcher.failures) == (1, [])


@pytest.mark.parametrize("policy", ["abort", "drop-problem", "record"])
@pytest.mark.parametrize("alone", [True, False])
def test_a_spoiled_problem_stops_the_batch_unless_others_are_sound(policy: str, *, alone: bool) -> None:
    """An evicted trunk block ends a campaign at once under `abort`; elsewhere the batch goes on for other problems."""
    watcher, _ = watch(policy) if alone else watch(policy, OTHER)
    assert watcher.first_token(BAD) is (policy != "abort" and not alone)
    assert [failure.problem for failure in watcher.failures] == [7]
    if policy != "abort" and not alone:
        assert watcher.first_token(FirstToken(OTHER.requests[0].id, 0, ())) is False, "nobody is left"


@pytest.mark.parametrize(("policy", "goes_on"), [("abort", False), ("drop-problem", False), ("record", True)])
def test_a_pivots_failure_goes_on_under_record(policy: str, *, goes_on: bool) -> None:
    """`record` loses the pivot, not the batch."""
    watcher, _ = watch(policy)
    assert watcher.first_token(WORSE) is goes_on
    assert watcher.failures[0].scope == "pivot"


def test_company_is_served_and_not_checked() -> None:
    """Requests of a problem that an earlier pass dropped keep the batch as it was; what they hit proves nothing."""
    watcher, _ = watch("drop-problem")
    assert watcher.first_token(FirstToken(OTHER.requests[0].id, None, None)) is True
    assert (watcher.failures, watcher.verified.total()) == ([], 0)


def test_a_preemption_that_nobody_owns_stops_a_batch_of_one_problem_only() -> None:
    """Whom it hit may be known at the end; where only one problem can be hit, nothing is worth going on for."""
    assert watch("record")[0].step(stats(preemptions=1)) is False
    assert watch("record", OTHER)[0].step(stats(preemptions=1)) is True
    assert watch("abort", OTHER)[0].step(stats(preemptions=1)) is False


def test_a_preemption_spoils_the_problem_once() -> None:
    """The global counter stays up; one failure is enough."""
    watcher, _ = watch()
    watcher.step(stats(preemptions=1))
    watcher.step(stats(preemptions=2))
    assert [(failure.problem, failure.scope) for failure in watcher.failures] == [(None, "problem")]


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
