"""When a campaign ends by itself: the registered stop rule, hours and cost."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessions.errors import RefeedError
from sessions.events import Ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessions.spec import CampaignSpec
    from sessions.state.campaign import CampaignState

SECONDS_PER_HOUR: Final = 3600.0
BY_RULE: Final = "stop rule: "


def longest_run(spec: CampaignSpec, price_per_hour: float | None) -> tuple[float, str] | None:
    """Return the seconds that `max_hours` and `max_cost` allow, with the field that decides; None without a limit."""
    allowed = []
    if spec.max_hours is not None:
        allowed.append((spec.max_hours * SECONDS_PER_HOUR, f"max_hours = {spec.max_hours:g}"))
    if spec.max_cost is not None and price_per_hour is not None:
        seconds = spec.max_cost / price_per_hour * SECONDS_PER_HOUR
        allowed.append((seconds, f"max_cost = {spec.max_cost:g} at {price_per_hour:g} per hour"))
    return min(allowed, default=None)


def longest_problem(state: CampaignState) -> float:
    """Seconds that the slowest closed problem took, its share of the trunks included; 0 before the first."""
    closed = (row for row in state.problems.values() if row.outcome is not None)
    return max((row.seconds + row.trunk_seconds / row.trunk_batch for row in closed), default=0.0)


@dataclass(frozen=True, slots=True)
class Limits:
    """Ends that were registered.

    Attributes:
        spec: the registered settings.
        price_per_hour: of the machine; None when unknown.
        past_stop: whether this run may continue past a crossing of the stop rule.
        earlier_seconds: running time of earlier runs of this session.
        began: this run's start on `clock`.
        clock: seconds, monotonic.
    """

    spec: CampaignSpec
    price_per_hour: float | None = None
    past_stop: bool = False
    earlier_seconds: float = 0.0
    began: float = 0.0
    clock: Callable[[], float] = time.monotonic

    def elapsed(self) -> float:
        """Running seconds of the session so far, over all its runs."""
        return self.earlier_seconds + self.clock() - self.began

    def seconds_left(self) -> tuple[float, str] | None:
        """Seconds until the tighter of the two limits, and its name; None without a limit."""
        allowed = longest_run(self.spec, self.price_per_hour)
        return None if allowed is None else (allowed[0] - self.elapsed(), allowed[1])

    def reached(self, state: CampaignState) -> Ended | None:
        """Return how the campaign ends here, between two problems; None when it may go on."""
        return self.crossed(state) or self._by_time(state)

    def crossed(self, state: CampaignState) -> Ended | None:
        """Return how the campaign ends by its stop rule; None when that has not crossed."""
        monitor = state.live.monitor
        if self.past_stop or not monitor.should_stop(self.spec.stop, self.spec.min_problems):
            return None
        crossed = monitor.followed(self.spec.stop).crossing
        assert crossed is not None
        reason = (
            f"{BY_RULE}the {self.spec.stop} e-process crossed 1/alpha = {1 / self.spec.alpha:g} at informative "
            f"problem {crossed.informative} (task index {crossed.problem}); {monitor.informative} informative seen"
        )
        return Ended(state="stopped", exit_code=0, reason=reason)

    def _by_time(self, state: CampaignState) -> Ended | None:
        left = self.seconds_left()
        if left is None:
            return None
        seconds, name = left
        longest = longest_problem(state)
        if seconds > longest:
            return None
        reason = f"{name}: {max(seconds, 0):.0f} s are left, and a problem took up to {longest:.0f} s"
        return Ended(state="stopped", exit_code=0, reason=reason)


def check_may_go_on(limits: Limits, state: CampaignState) -> None:
    """Pass when a worker has something to do on a session; asked before it says "ready".

    Raises:
        RefeedError: kind "usage": the session was imported, is finished, or was stopped by what was registered.
    """
    if state.imported:
        raise RefeedError("usage", "the session was imported: there is nothing to run")
    if state.ended is None or state.ended.state not in {"finished", "stopped"}:
        return
    if state.ended.state == "finished":
        raise RefeedError("usage", f"the session is finished: {state.ended.reason}", "there is nothing left to measure")
    reached = limits.reached(state)
    if reached is None:
        return
    if reached.reason.startswith(BY_RULE):
        hint = "`resume --past-stop` continues past it; every report will say so"
    else:
        hint = "hours and cost are locked in the spec; register a new campaign from the next problem on, and pool them"
    raise RefeedError("usage", f"the session stopped as registered: {reached.reason}", hint)
