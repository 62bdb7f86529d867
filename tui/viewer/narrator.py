"""Events in words: the lines that `--plain` prints and the log panel shows.

An `EventNarrator` is told of each event after it was folded into the campaign's state. `lines` returns what the event
deserves at once (a problem closed, a cache failure, a pause); `current` is one line on what is running, for whenever
the last line is too long ago.
"""

from __future__ import annotations

from functools import singledispatchmethod
from typing import TYPE_CHECKING, Final

from sessions import events
from sessions.numbers import clock
from sessions.text import one_line
from stats.words import count

if TYPE_CHECKING:
    from sessions.events import Event
    from sessions.state.campaign import CampaignState
    from sessions.state.rows import Current, ProblemRow

CONSEQUENCE: Final = {
    "abort": "the campaign ends here",
    "drop-problem": "its problem is dropped",
    "record": "its pivot is recorded and not counted",
}
ENOUGH_TO_EXTRAPOLATE: Final = 2
QUIET: Final = frozenset({"loading", "closing"})  # stages, which `current` tells for as long as they last
REASON_LIMIT: Final = 5_000  # a worker keeps its own below that; a stranger's journal may hold anything


class EventNarrator:
    """Tells one session's events in words; it reads the state and never changes it."""

    def __init__(self, state: CampaignState) -> None:
        self.state = state
        self._loading = "starting the engine"
        self._last_of_group: int | None = None

    def lines(self, event: Event) -> list[str]:
        """Lines that an event deserves, which has been folded into the state already."""
        return [f"[{self._clock()}] {line}" for line in self._lines(event)]

    def current(self, waited: float) -> str:
        """What is running, `waited` seconds after the last event."""
        return f"[{self._clock(waited)}] {self._doing()}"

    def _clock(self, waited: float = 0.0) -> str:
        """Time that workers ran, all runs: it goes on where a resume continues, as the dashboard's "elapsed" does."""
        return clock(self.state.seconds + waited)

    def _doing(self) -> str:
        now = self.state.current
        if now.stage == "loading":
            return self._loading
        if now.stage == "paused":
            return "paused; the engine and its memory stay held (and billed)"
        if now.stage == "closing":
            return "closing the engine"
        if now.stage == "between":
            measured = len(self.state.measured)
            return "closing the engine" if measured >= self.state.spec.problems else "between problems"
        where = "trunks" if now.stage == "trunks" else f"{self._place(now)}{now.stage}"
        if now.total == 0:
            return where
        checks = "" if now.stage == "trunks" else f", {now.verified} verified, {now.failed} failed"
        preempted = f", {count(now.preemptions, 'preemption')}" if now.preemptions > 0 else ""
        speed = f"{now.tokens_per_s:,.0f} tokens/s, KV {100 * now.kv_use:.0f}%"
        return f"{where}: {now.done}/{now.total} done{checks}, {speed}{preempted}"

    @singledispatchmethod
    def _lines(self, event: Event) -> list[str]:
        """Lines of an event; kinds without a method below say nothing."""
        del event
        return []

    @_lines.register
    def _(self, event: events.Opened) -> list[str]:
        self._loading = "starting the engine"
        if event.source:
            return [f"imported from {one_line(event.source, 60)}"]
        gaps = self.state.gaps()
        verb = f"resumed {clock(gaps[-1].seconds)} after the run before" if gaps else "started"
        return [f"{verb} on {one_line(event.host, 40) or 'this machine'}, refeed-tui {one_line(event.version, 20)}"]

    @_lines.register
    def _(self, event: events.EngineReady) -> list[str]:
        ready = (
            f"engine ready in {event.seconds:.1f} s: {one_line(event.engine, 20)}, {self._model()}, "
            f"{event.num_blocks:,} blocks of {event.block_size} tokens, cache checks by {event.proof}"
        )
        if not event.changed:
            return [ready]
        names = ", ".join(one_line(name, 30) for name in event.changed)
        return [ready, f"NOTE: the engine's numerics differ from this session's first run: {names}"]

    @_lines.register
    def _(self, event: events.PassStarted) -> list[str]:
        self._last_of_group = event.problems[-1] if event.problems else event.problem
        return []

    @_lines.register
    def _(self, event: events.CacheFailure) -> list[str]:
        return [f"CACHE CHECK FAILED: {failure_in_words(event)}"]

    @_lines.register
    def _(self, event: events.ProblemClosed) -> list[str]:
        if event.outcome != "measured":
            reason = f": {one_line(event.reason, 120)}" if event.reason else ""
            return [f"task {event.problem} {event.outcome.replace('-', ' ')}{reason}"]
        place = f"problem {len(self.state.measured)}/{self.state.spec.problems} (task {event.problem})"
        evidence = _evidence(self.state.problems[event.problem])
        shared = f" for a group of {event.batch}" if event.batch > 1 else ""
        whole = event.batch == 1 or event.problem == self._last_of_group  # in mid-group the pace is not known
        left = seconds_left(self.state) if whole else None
        ahead = "" if left is None else f"; about {clock(left)} left"
        return [f"{place} closed: {evidence}; {event.seconds:.1f} s{shared}{ahead}"]

    @_lines.register
    def _(self, event: events.Paused) -> list[str]:
        return [f"paused by {one_line(event.by, 40)}; the engine and its memory stay held (and billed)"]

    @_lines.register
    def _(self, event: events.Resumed) -> list[str]:
        return [f"going on, asked by {one_line(event.by, 40)}"]

    @_lines.register
    def _(self, event: events.Notice) -> list[str]:
        text = one_line(event.text, REASON_LIMIT)
        if event.kind not in QUIET:
            return [f"{one_line(event.kind, 20).upper()}: {text}"]
        share = event.fraction
        self._loading = text if share is None or share <= 0 else f"{text} ({100 * share:.0f}%)"
        return []

    @_lines.register
    def _(self, event: events.Ended) -> list[str]:
        return [f"{event.state}: {one_line(event.reason, REASON_LIMIT)}"]

    def _model(self) -> str:
        """The registered model; the engine's own word for a bundled one is a path."""
        return one_line(self.state.spec.model or "", 60)

    def _place(self, now: Current) -> str:
        if now.problem is None:
            return ""
        return f"{which_problems(self.state, now)} "


def seconds_left(state: CampaignState, waited: float = 0.0) -> float | None:
    """Seconds to the registered end at the last run's pace, `waited` seconds after the last event.

    None before two problems of that run closed, and when nothing is left.
    """
    engine = state.runs[-1].engine if state.runs else None
    if engine is None or state.imported:
        return None
    attempt = next((row.attempt for row in reversed(state.problems.values())), 0)
    closings = [
        row.closed_at
        for row in state.problems.values()
        if row.outcome == "measured" and row.attempt == attempt and row.closed_at is not None
    ]
    left = state.spec.problems - len(state.measured)
    if len(closings) < ENOUGH_TO_EXTRAPOLATE or left <= 0:
        return None
    busy = max(closings) - engine.mono
    if busy < 0:
        return None
    since = max(0.0, state.mono + waited - max(closings))
    return max(0.0, left * busy / len(closings) - since)


def which_problems(state: CampaignState, now: Current) -> str:
    """The problems whose pass runs: their numbers among the registered ones, then their task indices."""
    first, problems = len(state.measured) + 1, now.problems or (now.problem,)
    registered = state.spec.problems
    if len(problems) == 1:
        return f"problem {min(first, registered)}/{registered} (task {problems[0]})"
    last = min(first + len(problems) - 1, registered)
    tasks = f"{problems[0]} to {problems[-1]}"
    return f"problems {first} to {last} of {registered} (tasks {tasks})"


def _evidence(row: ProblemRow) -> str:
    """What a measured problem's evidence says."""
    failed = f", {row.failed} FAILED" if row.failed > 0 else ""
    if row.tally is None:
        return f"no evidence{failed}"
    common = row.tally.common
    return (
        f"{count(row.tally.pivots, 'pivot')}{failed}; of {common.n} eligible {common.refeed.disagree} changed sign "
        f"when re-fed, {common.floor.disagree} in the replica"
    )


def failure_in_words(event: events.CacheFailure) -> str:
    """A cache failure as a sentence: where, which request, what was expected and found, what it ends."""
    where = f"task {event.problem}, {one_line(event.stage, 20)}, request {one_line(event.request, 60)}"
    if event.rollout is not None and event.position is not None:
        where += f" (rollout {event.rollout}, position {event.position})"
    counts = ""
    if event.expected is not None:
        found = "no count at all" if event.found is None else f"{event.found}"
        counts = f" had to hit {event.expected} cached tokens and reported {found};"
    consequence = CONSEQUENCE.get(event.policy, one_line(event.policy, 20))
    return f"{where}{counts or ':'} {one_line(event.reason, REASON_LIMIT)}; {consequence}"
