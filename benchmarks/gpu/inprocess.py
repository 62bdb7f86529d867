"""A whole campaign in this process on an engine that is already loaded, with the journal and side files of a worker."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.protocol.campaign import run
from engine.protocol.context import Bench
from engine.protocol.control import Control
from engine.protocol.limits import Limits
from engine.tasks.registry import open_task
from sessions.disk.journal import Journal
from sessions.events import CacheFailure, Opened, PassEnded, Pivot, ProblemClosed, TrunksDone
from sessions.spec import register
from sessions.state.fold import fold, new_state
from sessions.store import Store
from stats.report import report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.backend import Backend, Completion, EngineInfo, FirstToken, Request, StepStats, Watcher
    from sessions.events import AnyEvent
    from sessions.spec import CampaignSpec
    from sessions.state.campaign import CampaignState


SLOW: float = 0.15


class Steps:
    """A `Watcher` that passes everything on and notes steps that took long, as compilation does."""

    def __init__(self, inner: Watcher, slow: list[tuple[float, int]]) -> None:
        """Pass on to `inner`; add seconds and running requests of slow steps to `slow`."""
        self.inner = inner
        self.slow = slow
        self.last = time.perf_counter()

    def first_token(self, first: FirstToken) -> bool:
        """As the real one."""
        return self.inner.first_token(first)

    def step(self, stats: StepStats) -> bool:
        """As the real one, after a look at the clock."""
        now = time.perf_counter()
        if now - self.last > SLOW:
            self.slow.append((round(now - self.last, 3), stats.running))
        self.last = now
        return self.inner.step(stats)


@dataclass
class Batches:
    """A backend that remembers what it was asked and how long it took; everything passes through.

    Attributes:
        inner: the real backend.
        asked: requests of each batch, in order.
        seconds: of each batch.
        resets: how many batches had been asked at each reset.
        slow: seconds and running requests of each step that took more than 0.15 s, by batch.
    """

    inner: Backend
    asked: list[tuple[Request, ...]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    resets: list[int] = field(default_factory=list)
    slow: list[list[tuple[float, int]]] = field(default_factory=list)

    @property
    def info(self) -> EngineInfo:
        """As the real one."""
        return self.inner.info

    def encode_chat(self, system: str | None, user: str) -> tuple[int, ...]:
        """As the real one."""
        return self.inner.encode_chat(system, user)

    def decode(self, tokens: Sequence[int]) -> str:
        """As the real one."""
        return self.inner.decode(tokens)

    def run(self, requests: Sequence[Request], watcher: Watcher) -> tuple[Completion, ...]:
        """Serve and remember."""
        self.slow.append([])
        began = time.perf_counter()
        done = self.inner.run(requests, Steps(watcher, self.slow[-1]))
        self.seconds.append(time.perf_counter() - began)
        self.asked.append(tuple(requests))
        return done

    def reset_prefix_cache(self) -> bool:
        """Reset and remember."""
        self.resets.append(len(self.asked))
        return self.inner.reset_prefix_cache()

    def close(self) -> None:
        """As the real one."""
        self.inner.close()


@dataclass(frozen=True)
class Conducted:
    """A campaign that ran.

    Attributes:
        seconds: of the whole loop: engine, grading, side files, journal.
        state: folded from its events.
        reason: how it ended.
        events: how many of each kind.
        pass_seconds: sum by pass.
        pass_tokens: sum by pass.
        trunk_seconds: sum over waves.
        waves: problems whose trunks were generated together, per wave.
        looked_at: task indices whose trunks were generated, in order.
        measured: those of them that were measured.
        mismatches: pivots in which a channel of the replica, or of the re-feed, differs from exact 1.
    """

    seconds: float
    state: CampaignState
    reason: str
    events: dict[str, int]
    pass_seconds: dict[str, float]
    pass_tokens: dict[str, int]
    trunk_seconds: float
    waves: list[int]
    looked_at: list[int]
    measured: list[int]
    mismatches: dict[str, int]


def _mismatches(pivots: Sequence[Pivot]) -> dict[str, int]:
    """Pivots whose second or third pass differs from the first, by channel.

    Channels: the estimate, the number of tokens and right answers of an arm, the probe's tokens, and the probe's
    logprobs bit by bit.
    """
    found: Counter[str] = Counter()
    for pivot in pivots:
        for name, other in (("replica", pivot.exact2), ("refeed", pivot.refeed)):
            arms = [(pivot.exact1.actual, other.actual), (pivot.exact1.alternative, other.alternative)]
            found[f"{name} estimate"] += pivot.exact1.net != other.net
            found[f"{name} continuations"] += any((a.correct, a.tokens) != (b.correct, b.tokens) for a, b in arms)
            probes = [(a.probe, b.probe) for a, b in arms if a.probe is not None and b.probe is not None]
            found[f"{name} probe tokens"] += any(a.tokens != b.tokens for a, b in probes)
            found[f"{name} probe logprobs"] += any(a.logprobs != b.logprobs for a, b in probes)
            found[f"{name} anything"] += any(a != b for a, b in arms)
    return dict(found)


def conduct(spec: CampaignSpec, backend: Backend, attempt: int = 0) -> Conducted:
    """Run a resolved spec to its end with a real journal in a temporary folder; no attempt twice on one engine."""
    state = new_state(spec)
    events: list[AnyEvent] = []
    with tempfile.TemporaryDirectory() as home:
        registration = register(spec)
        session = Store(Path(home)).create(registration)
        with Journal.open(session.journal_path, registration.digest) as journal:

            def emit(event: AnyEvent) -> None:
                stamped = journal.append(event)
                fold(state, stamped)
                events.append(stamped)

            emit(Opened(session=session.id, version="benchmark"))
            task = open_task(str(spec.task))
            bench = Bench(spec, backend, task, emit, Control(), attempt, Limits(spec), session.texts_path)
            began = time.perf_counter()
            ended = run(bench, state)
            seconds = time.perf_counter() - began
            emit(ended)
    passes = [event for event in events if isinstance(event, PassEnded)]
    trunks = [event for event in events if isinstance(event, TrunksDone)]
    waves = {event.seconds: event.batch for event in trunks}
    names = sorted({event.name for event in passes})
    return Conducted(
        seconds=seconds,
        state=state,
        reason=ended.reason,
        events=dict(Counter(type(event).__name__ for event in events)),
        pass_seconds={name: sum(one.seconds / one.batch for one in passes if one.name == name) for name in names},
        pass_tokens={name: sum(one.tokens for one in passes if one.name == name) for name in names},
        trunk_seconds=sum(waves),
        waves=list(waves.values()),
        looked_at=[event.problem for event in trunks],
        measured=[one.problem for one in events if isinstance(one, ProblemClosed) and one.outcome == "measured"],
        mismatches=_mismatches([event for event in events if isinstance(event, Pivot)]),
    )


def summary(conducted: Conducted) -> dict[str, Any]:
    """What a results file keeps of a campaign: times, counts, and every number of its report."""
    state = conducted.state
    closed = conducted.events.get(ProblemClosed.__name__, 0)
    return {
        "reason": conducted.reason,
        "seconds": round(conducted.seconds, 3),
        "problems_closed": closed,
        "trunk_seconds": round(conducted.trunk_seconds, 3),
        "waves": conducted.waves,
        "looked_at": len(conducted.looked_at),
        "pass_seconds": {name: round(value, 3) for name, value in conducted.pass_seconds.items()},
        "pass_tokens": conducted.pass_tokens,
        "cache_failures": conducted.events.get(CacheFailure.__name__, 0),
        "pivots_that_differ_from_exact_1": conducted.mismatches,
        "report": asdict(report(state.table(), cache=state.cache_tally(), draws=1000)),
    }
