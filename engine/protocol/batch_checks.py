"""Watching a batch while it runs: cache checks as first tokens arrive, progress at 2 Hz, and the decision to stop."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from engine.protocol.passes import check_first_token, spoiled_batch
from sessions.events import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.backend import FirstToken, StepStats
    from engine.protocol.control import Control
    from engine.protocol.passes import CheckFailure, PassPlan
    from sessions.events import AnyEvent

PROGRESS_SECONDS: Final = 0.5
PREEMPTED: Final = "a request was preempted: its blocks were taken and it was recomputed by prefill"

# Which scopes of failure spoil a problem, by policy.
SPOILING: Final[dict[str, frozenset[str]]] = {
    "abort": frozenset({"pivot", "problem"}),
    "drop-problem": frozenset({"pivot", "problem"}),
    "record": frozenset({"problem"}),
}


class BatchWatch:
    """A `Watcher` for one batch of requests.

    A batch of trunks has no plans, for trunks have nothing to hit; but a preemption spoils any batch: the request was
    recomputed by prefill, and its cached count does not show it (known-faults 6).

    Attributes:
        failures: failed checks so far, in order of arrival.
        verified: requests whose check passed, by problem.
        seen: cached tokens that each request reported with its first token, by request id.
        generated: tokens that the engine says it generated in its steps.
    """

    def __init__(
        self,
        *,
        problem: int,
        stage: str,
        total: int,
        emit: Callable[[AnyEvent], None],
        control: Control,
        plans: Sequence[PassPlan] = (),
        block: int = 1,
        ledger: bool = False,
        policy: str = "record",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Watch a batch.

        Args:
            problem: task index of the batch's first problem, for Progress.
            stage: "trunks" or the pass's name, for Progress.
            total: requests in the batch.
            emit: where Progress goes.
            control: stop requests.
            plans: of the problems whose requests are checked; others are company, which is served and not checked.
            block: KV block size, tokens.
            ledger: whether the backend promises block origins.
            policy: the registered `on_cache_failure`: what a failed check ends.
            clock: seconds, monotonic.
        """
        self.failures: list[CheckFailure] = []
        self.verified: Counter[int] = Counter()
        self.seen: dict[str, int | None] = {}
        self.generated = 0
        self._plans = {request: plan for plan in plans for request in plan.expectations}
        self._checked = {plan.problem for plan in plans if plan.requests}
        self._problem = problem
        self._stage = stage
        self._total = total
        self._emit = emit
        self._control = control
        self._block = block
        self._ledger = ledger
        self._policy = policy
        self._clock = clock
        self._told = clock()
        self._told_tokens = 0
        self._preempted = False

    @property
    def stopped(self) -> bool:
        """Whether the batch was told to stop."""
        return not self._may_go_on()

    def first_token(self, first: FirstToken) -> bool:
        """Check a request's cache hit; False when its failure stops the batch."""
        self.seen[first.id] = first.cached_tokens
        plan = self._plans.get(first.id)
        if plan is None:
            return self._may_go_on()
        failure = check_first_token(plan, first, self._block, ledger=self._ledger)
        if failure is None:
            self.verified[plan.problem] += 1
        else:
            self.failures.append(failure)
        return self._may_go_on()

    def step(self, stats: StepStats) -> bool:
        """Note preemptions and report progress; False when the batch must stop."""
        self.generated = stats.tokens
        if stats.preemptions > 0 and not self._preempted:
            self._preempted = True
            self.failures.append(spoiled_batch(PREEMPTED, "preempted"))
        self._report(stats)
        return self._may_go_on()

    def _may_go_on(self) -> bool:
        """A failed check ends the campaign under `abort`; otherwise the batch goes on for whoever may still be sound.

        Whom a preemption hit may be known only at the end, so it stops no batch of several problems before that.
        """
        if self._control.stop_request is not None:
            return False
        spoiled = {failure.problem for failure in self.failures if failure.scope in SPOILING[self._policy]}
        if not spoiled or not self._checked:
            return True
        alone = len(self._checked) == 1 and len(self._plans) == self._total  # no company that may have been hit
        if self._policy == "abort" or (None in spoiled and alone):
            return False
        return not self._checked <= spoiled

    def _report(self, stats: StepStats) -> None:
        now = self._clock()
        elapsed = now - self._told
        if elapsed < PROGRESS_SECONDS:
            return
        self._emit(
            Progress(
                problem=self._problem,
                stage=self._stage,
                done=stats.finished,
                total=self._total,
                verified=self.verified.total(),
                failed=len(self.failures),
                tokens=stats.tokens,
                tokens_per_s=(stats.tokens - self._told_tokens) / elapsed,
                kv_use=stats.kv_use,
                preemptions=stats.preemptions,
            )
        )
        self._told, self._told_tokens = now, stats.tokens
