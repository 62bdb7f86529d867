"""Real campaigns on the embedded engine with the bundled model, in this process, and faults injected into them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from engine.backends.load import load
from engine.protocol.campaign import run
from engine.protocol.context import Bench
from engine.protocol.control import Control
from engine.protocol.limits import Limits
from engine.registration import resolve
from engine.tasks.registry import open_task
from sessions.events import Opened
from sessions.spec import CampaignSpec
from sessions.state.fold import fold, new_state

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from engine.backend import Backend, Completion, EngineInfo, FirstToken, Request, StepStats, Watcher
    from sessions.events import AnyEvent, Ended, Event
    from sessions.state.campaign import CampaignState

SMALL = CampaignSpec(
    engine="embedded",
    problems=2,
    rollouts=2,
    k=2,
    max_pivots=2,
    max_trunk_tokens=100,
    max_cont_tokens=40,
    probe_tokens=8,
    kv_blocks=4000,
    max_num_seqs=64,
    max_model_len=512,
)


@dataclass
class Record:
    """What a campaign said.

    Attributes:
        ended: how it ended.
        events: all of them, unstamped.
        state: folded from them.
    """

    ended: Ended
    events: list[Event]
    state: CampaignState

    def of(self, kind: type[Any]) -> list[Any]:
        """Events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]


@dataclass
class Faulty:
    """A backend that alters one thing of a real one; everything else passes through.

    Attributes:
        inner: the real backend.
        first: alters what is reported of a request's first token; None withholds the report.
        step: alters the load that is reported after a step.
        completion: alters a completion.
        before: runs before each batch, with its requests.
        reset: replaces the answer of a reset.
        batches: how many batches ran.
    """

    inner: Backend
    first: Callable[[FirstToken], FirstToken | None] | None = None
    step: Callable[[StepStats], StepStats] | None = None
    completion: Callable[[Completion], Completion] | None = None
    before: Callable[[Sequence[Request]], None] | None = None
    reset: Callable[[], bool] | None = None
    batches: int = field(default=0)

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
        """Run the real batch, altering what comes back."""
        self.batches += 1
        if self.before is not None:
            self.before(requests)
        done = self.inner.run(requests, _FaultyWatcher(watcher, self.first, self.step))
        return done if self.completion is None else tuple(self.completion(one) for one in done)

    def reset_prefix_cache(self) -> bool:
        """Reset, or answer as told."""
        return self.inner.reset_prefix_cache() if self.reset is None else self.reset()

    def close(self) -> None:
        """As the real one."""
        self.inner.close()


@dataclass
class _FaultyWatcher:
    inner: Watcher
    first: Callable[[FirstToken], FirstToken | None] | None
    alter: Callable[[StepStats], StepStats] | None

    def first_token(self, first: FirstToken) -> bool:
        told = first if self.first is None else self.first(first)
        return True if told is None else self.inner.first_token(told)

    def step(self, stats: StepStats) -> bool:
        return self.inner.step(stats if self.alter is None else self.alter(stats))


def registered(spec: CampaignSpec, **changes: object) -> CampaignSpec:
    """A resolved spec with some fields changed."""
    return resolve(msgspec.structs.replace(spec, **changes))


def start(spec: CampaignSpec) -> Backend:
    """The real backend of a resolved spec."""
    return load(spec, lambda _stage, _fraction: None)


def conduct(
    spec: CampaignSpec,
    texts: Path,
    *,
    backend: Backend | None = None,
    control: Control | None = None,
    earlier: Record | None = None,
) -> Record:
    """Run a whole campaign in this process.

    Args:
        spec: resolved.
        texts: folder of the side files.
        backend: another one than the spec's own.
        control: for stops and pauses.
        earlier: a run that this one resumes.
    """
    state = new_state(spec) if earlier is None else earlier.state
    events: list[Event] = [] if earlier is None else list(earlier.events)

    def emit(event: AnyEvent) -> None:
        stamped = msgspec.structs.replace(event, seq=len(events))
        events.append(stamped)
        fold(state, stamped)

    emit(Opened(session="test", version="test"))
    engine = start(spec) if backend is None else backend
    bench = Bench(
        spec=spec,
        backend=engine,
        task=open_task(str(spec.task)),
        emit=emit,
        control=control or Control(),
        attempt=len(state.runs) - 1,
        limits=Limits(spec),
        texts=texts,
    )
    try:
        ended = run(bench, state)
    finally:
        if backend is None:
            engine.close()
    emit(ended)
    return Record(ended, events, state)


def altered(first: FirstToken, cached: int | None) -> FirstToken:
    """The same first token with another cached-token count."""
    return replace(first, cached_tokens=cached)
