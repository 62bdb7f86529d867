"""Watching a batch while it runs: cache checks as first tokens arrive, progress at 2 Hz, and the decision to stop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from engine.protocol.passes import CheckFailure, check_first_token
from sessions.events import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.backend import FirstToken, StepStats
    from engine.protocol.control import Control
    from engine.protocol.passes import PassPlan
    from sessions.events import AnyEvent

PROGRESS_SECONDS: Final = 0.5


class BatchWatch:
    """A `Watcher` for one batch of requests.

    It checks nothing itself when `plan` is None (trunks have nothing to hit), but a preemption spoils any batch: the
    request was recomputed by prefill, and its cached count does not show it (known-faults 6).

    Attributes:
        failures: failed checks so far, in order of arrival.
        verified: requests whose check passed.
        seen: request ids whose first token arrived.
    """

    def __init__(
        self,
        *,
        problem: int,
        stage: str,
        total: int,
        emit: Callable[[AnyEvent], None],
        control: Control,
        plan: PassPlan | None = None,
        block: int = 1,
        ledger: bool = False,
        stop_on: frozenset[str] = frozenset(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Watch a batch.

        Args:
            problem: task index, for Progress.
            stage: "trunks" or the pass's name, for Progress.
            total: requests in the batch.
            emit: where Progress goes.
            control: stop requests.
            plan: the pass whose expectations are checked.
            block: KV block size, tokens.
            ledger: whether the backend promises block origins.
            stop_on: scopes of failure that stop the batch at once.
            clock: seconds, monotonic.
        """
        self.failures: list[CheckFailure] = []
        self.verified = 0
        self.seen: set[str] = set()
        self._problem = problem
        self._stage = stage
        self._total = total
        self._emit = emit
        self._control = control
        self._plan = plan
        self._block = block
        self._ledger = ledger
        self._stop_on = stop_on
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
        self.seen.add(first.id)
        if self._plan is None:
            return self._may_go_on()
        failure = check_first_token(self._plan, first, self._block, ledger=self._ledger)
        if failure is None:
            self.verified += 1
        else:
            self.failures.append(failure)
        return self._may_go_on()

    def step(self, stats: StepStats) -> bool:
        """Note preemptions and report progress; False when the batch must stop."""
        if stats.preemptions > 0 and not self._preempted:
            self._preempted = True
            reason = "a request was preempted: its blocks were taken and it was recomputed by prefill"
            self.failures.append(CheckFailure("", None, None, None, None, reason, "problem"))
        self._report(stats)
        return self._may_go_on()

    def _may_go_on(self) -> bool:
        if self._control.stop_request is not None:
            return False
        return not any(failure.scope in self._stop_on for failure in self.failures)

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
                verified=self.verified,
                failed=len(self.failures),
                tokens=stats.tokens,
                tokens_per_s=(stats.tokens - self._told_tokens) / elapsed,
                kv_use=stats.kv_use,
                preemptions=stats.preemptions,
            )
        )
        self._told, self._told_tokens = now, stats.tokens
