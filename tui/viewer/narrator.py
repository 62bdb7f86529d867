"""Events in words: the lines that `--plain` prints.

A `Teller` folds a session's events into its state, like every other viewer. `hear` returns the lines that an event
deserves at once (a problem closed, a cache failure, a pause); `now` is one line on what is running, for whenever the
last line is too long ago.
"""

from __future__ import annotations

from functools import singledispatchmethod
from typing import TYPE_CHECKING, Final

from sessions import events
from sessions.numbers import clock
from sessions.state.fold import fold, new_state
from sessions.text import one_line
from stats.words import count

if TYPE_CHECKING:
    from sessions.events import Event
    from sessions.spec import CampaignSpec
    from sessions.state.campaign import CampaignState
    from sessions.state.rows import Current, ProblemRow

CONSEQUENCE: Final = {
    "abort": "the campaign ends here",
    "drop-problem": "its problem is dropped",
    "record": "its pivot is recorded and not counted",
}
ENOUGH_TO_EXTRAPOLATE: Final = 2
QUIET: Final = frozenset({"loading", "closing"})  # stages, which `now` tells for as long as they last
REASON_LIMIT: Final = 5_000  # a worker keeps its own below that; a stranger's journal may hold anything


class Teller:
    """Tells one session's events in words.

    Attributes:
        state: of the campaign, as far as it was heard.
    """

    def __init__(self, spec: CampaignSpec) -> None:
        """Start before the first event."""
        self.state: CampaignState = new_state(spec)
        self._loading = "starting the engine"
        self._ready_at = 0.0
        self._measured_before = 0
        self._last_of_group: int | None = None

    def hear(self, event: Event) -> list[str]:
        """Fold one event and return the lines it deserves.

        Raises:
            RefeedError: kind "integrity" when the event contradicts the journal before it.
        """
        fold(self.state, event)
        return [f"[{self._clock()}] {line}" for line in self._lines(event)]

    def now(self, waited: float) -> str:
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
        self._measured_before = len(self.state.measured)
        if event.source:
            return [f"imported from {one_line(event.source, 60)}"]
        gaps = self.state.gaps()
        verb = f"resumed {clock(gaps[-1].seconds)} after the run before" if gaps else "started"
        return [f"{verb} on {one_line(event.host, 40) or 'this machine'}, refeed-tui {one_line(event.version, 20)}"]

    @_lines.register
    def _(self, event: events.EngineReady) -> list[str]:
        self._ready_at = event.mono
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
        found = _found(self.state.problems[event.problem])
        shared = f" for a group of {event.batch}" if event.batch > 1 else ""
        left = self._left(event.mono) if event.batch == 1 or event.problem == self._last_of_group else ""
        return [f"{place} closed: {found}; {event.seconds:.1f} s{shared}{left}"]

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

    def _left(self, mono: float) -> str:
        """Time left at this run's pace, once there is a pace."""
        measured = len(self.state.measured)
        done, left = measured - self._measured_before, self.state.spec.problems - measured
        if left <= 0 or done < ENOUGH_TO_EXTRAPOLATE:
            return ""
        return f"; about {clock(left * (mono - self._ready_at) / done)} left"


def which_problems(state: CampaignState, now: Current) -> str:
    """The problems whose pass runs: their numbers among the registered ones, then their task indices."""
    first, problems = len(state.measured) + 1, now.problems or (now.problem,)
    registered = state.spec.problems
    if len(problems) == 1:
        return f"problem {min(first, registered)}/{registered} (task {problems[0]})"
    last = min(first + len(problems) - 1, registered)
    tasks = f"{problems[0]} to {problems[-1]}"
    return f"problems {first} to {last} of {registered} (tasks {tasks})"


def _found(row: ProblemRow) -> str:
    """What a measured problem's evidence says."""
    failed = f", {row.failed} FAILED" if row.failed > 0 else ""
    if row.tally is None:
        return f"no evidence{failed}"
    common = row.tally.common
    return (
        f"{count(row.tally.pivots, 'pivot')}{failed}; of {common.n} eligible {common.refeed.disagree} changed sign "
        f"when re-fed, {common.floor.disagree} in the replica"
    )


def parting(session: str, *, paused: bool) -> tuple[str, ...]:
    """What a shell shows after a viewer left a session whose worker lives on: how to come back, and how to end it.

    Args:
        session: its id.
        paused: whether it waits.
    """
    stands = "stays paused; its engine and memory stay held (and billed)" if paused else "goes on"
    resume = (f"  go on:      refeed-tui resume {session}",) if paused else ()
    return (
        f"session {session} {stands}.",
        f"  come back:  refeed-tui attach {session}",
        *resume,
        f"  stop it:    refeed-tui abort {session}",
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
