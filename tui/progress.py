"""Events in words: the lines that `--plain` prints.

One `Teller` reads a session's events in order. `hear` returns the lines that an event deserves at once (a problem
closed, a cache failure, a pause); `now` is one line on what is running, for whenever the last line is too long ago.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import singledispatchmethod
from typing import TYPE_CHECKING, Final

from sessions import events
from sessions.evidence import Tally, counts, tally
from tui.plaintext import one_line

if TYPE_CHECKING:
    from sessions.events import AnyEvent
    from sessions.spec import CampaignSpec

CONSEQUENCE: Final = {
    "abort": "the campaign ends here",
    "drop-problem": "its problem is dropped",
    "record": "its pivot is recorded and not counted",
}
SECONDS_PER_MINUTE: Final = 60
SECONDS_PER_HOUR: Final = 3600
ENOUGH_TO_EXTRAPOLATE: Final = 2


def clock(seconds: float) -> str:
    """Seconds as mm:ss, or h:mm:ss from an hour on."""
    whole = max(0, int(seconds))
    minutes, rest = divmod(whole, SECONDS_PER_MINUTE)
    if whole < SECONDS_PER_HOUR:
        return f"{minutes:02d}:{rest:02d}"
    return f"{minutes // SECONDS_PER_MINUTE}:{minutes % SECONDS_PER_MINUTE:02d}:{rest:02d}"


def count(number: int, noun: str) -> str:
    """A number and its noun: "1 pivot", "2,000 pivots"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


@dataclass(slots=True)
class _Problem:
    """Pivots of a problem that has not closed, in one attempt."""

    attempt: int
    evidence: Tally = field(default_factory=Tally)
    failed: int = 0

    def add(self, pivot: events.Pivot) -> None:
        if counts(pivot):
            one = tally(pivot.exact1.net, pivot.exact2.net, pivot.refeed.net)
            self.evidence = self.evidence.plus(one)
        else:
            self.failed += 1


@dataclass(slots=True)
class Teller:
    """Tells one session's events in words.

    Attributes:
        spec: what was registered.
        measured: problems that closed measured.
        ended: the last run's end; None while it goes on.
        paused: whether the worker waits.
        mono: of the last event, seconds.
    """

    spec: CampaignSpec
    measured: int = 0
    ended: events.Ended | None = None
    paused: bool = False
    mono: float = 0.0
    _doing: str = "starting"
    _ready_at: float = 0.0
    _measured_before: int = 0
    _open: dict[int, _Problem] = field(default_factory=dict)

    def hear(self, event: AnyEvent) -> list[str]:
        """Take in one event and return the lines it deserves."""
        if isinstance(event, events.Opened):
            self.mono = 0.0
        self.mono = max(self.mono, event.mono)
        return [f"[{clock(event.mono)}] {line}" for line in self._lines(event)]

    def now(self, waited: float) -> str:
        """What is running, `waited` seconds after the last event."""
        return f"[{clock(self.mono + waited)}] {self._doing}"

    @singledispatchmethod
    def _lines(self, event: AnyEvent) -> list[str]:
        """Lines of an event; kinds without a method below say nothing."""
        del event
        return []

    @_lines.register
    def _(self, event: events.Opened) -> list[str]:
        resumed = event.seq > 0
        self.ended, self.paused, self._doing = None, False, "starting the engine"
        self._measured_before = self.measured
        self._open.clear()
        if event.source:
            return [f"imported from {one_line(event.source, 60)}"]
        verb = "resumed" if resumed else "started"
        return [f"{verb} on {one_line(event.host, 40) or 'this machine'}, refeed-tui {one_line(event.version, 20)}"]

    @_lines.register
    def _(self, event: events.EngineReady) -> list[str]:
        self._ready_at, self._doing = event.mono, "engine ready"
        ready = (
            f"engine ready in {event.seconds:.1f} s: {one_line(event.engine, 20)}, {one_line(event.model, 60)}, "
            f"{event.num_blocks:,} blocks of {event.block_size} tokens, cache checks by {event.proof}"
        )
        lines = [ready]
        if event.changed:
            names = ", ".join(one_line(name, 30) for name in event.changed)
            lines.append(f"NOTE: the engine's numerics differ from this session's first run: {names}")
        return lines

    @_lines.register
    def _(self, event: events.WavePlanned) -> list[str]:
        self._doing = f"trunks of {_range(event.problems)}"
        return []

    @_lines.register
    def _(self, event: events.PassStarted) -> list[str]:
        self._doing = f"{self._place(event.problem)} {event.name}: 0/{event.requests} done"
        return []

    @_lines.register
    def _(self, event: events.Progress) -> list[str]:
        where = "trunks" if event.stage == "trunks" else f"{self._place(event.problem)} {event.stage}"
        checks = "" if event.stage == "trunks" else f", {event.verified} verified, {event.failed} failed"
        self._doing = (
            f"{where}: {event.done}/{event.total} done{checks}, {event.tokens_per_s:,.0f} tokens/s, "
            f"KV {100 * event.kv_use:.0f}%"
        )
        if event.preemptions > 0:
            self._doing += f", {count(event.preemptions, 'preemption')}"
        return []

    @_lines.register
    def _(self, event: events.Pivot) -> list[str]:
        problem = self._open.get(event.problem)
        if problem is None or problem.attempt != event.attempt:
            problem = self._open[event.problem] = _Problem(event.attempt)
        problem.add(event)
        return []

    @_lines.register
    def _(self, event: events.CacheFailure) -> list[str]:
        return [f"CACHE CHECK FAILED: {failure_in_words(event)}"]

    @_lines.register
    def _(self, event: events.ProblemClosed) -> list[str]:
        found = self._open.pop(event.problem, None)
        self._doing = f"task {event.problem} closed"
        if event.outcome != "measured":
            reason = f": {one_line(event.reason, 120)}" if event.reason else ""
            return [f"task {event.problem} {event.outcome.replace('-', ' ')}{reason}"]
        self.measured += 1
        if found is None or found.attempt != event.attempt:
            found = _Problem(event.attempt)
        evidence = found.evidence
        checks = f"{count(evidence.pivots, 'pivot')} count" + (f", {found.failed} FAILED" if found.failed > 0 else "")
        line = (
            f"problem {self.measured}/{self.spec.problems} (task {event.problem}) closed: {checks}; of "
            f"{evidence.eligible} eligible {evidence.refeed} changed sign when re-fed, {evidence.floor} in the replica"
            f"; {event.seconds:.1f} s{self._left(event.mono)}"
        )
        return [line]

    @_lines.register
    def _(self, event: events.Paused) -> list[str]:
        self.paused, self._doing = True, "paused; the engine and its memory stay held (and billed)"
        return [f"paused by {one_line(event.by, 40)}; the engine and its memory stay held (and billed)"]

    @_lines.register
    def _(self, event: events.Resumed) -> list[str]:
        self.paused, self._doing = False, "going on"
        return [f"going on, asked by {one_line(event.by, 40)}"]

    @_lines.register
    def _(self, event: events.Notice) -> list[str]:
        text = one_line(event.text, 300)
        if event.kind == "loading":
            share = "" if event.fraction is None else f" ({100 * event.fraction:.0f}%)"
            self._doing = f"{text}{share}"
            return []
        return [f"{one_line(event.kind, 20).upper()}: {text}"]

    @_lines.register
    def _(self, event: events.Ended) -> list[str]:
        self.ended, self.paused, self._doing = event, False, f"ended: {event.state}"
        return [f"{event.state}: {one_line(event.reason, 300)}"]

    def _place(self, problem: int) -> str:
        return f"problem {self.measured + 1}/{self.spec.problems} (task {problem})"

    def _left(self, mono: float) -> str:
        """Time left at this run's pace, once there is a pace."""
        done, left = self.measured - self._measured_before, self.spec.problems - self.measured
        if left <= 0 or done < ENOUGH_TO_EXTRAPOLATE:
            return ""
        return f"; about {clock(left * (mono - self._ready_at) / done)} left"


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
    return f"{where}{counts or ':'} {one_line(event.reason, 300)}; {consequence}"


def _range(problems: tuple[int, ...]) -> str:
    if not problems:
        return "no problems"
    if len(problems) == 1:
        return f"task {problems[0]}"
    return f"tasks {problems[0]} to {problems[-1]}"
