"""kill -9 at random moments, then resume: no closed problem is lost, and nothing false is counted."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from engine.worker.supervisor import launch, log_tail
from sessions.disk.journal import Follower, verify
from sessions.disk.texts import read as read_texts
from sessions.events import ProblemClosed
from sessions.report.as_json import as_dict
from sessions.spec import CampaignSpec, register
from sessions.state.fold import fold_all
from sessions.store import SessionFolder, Store
from stats.report import report
from tests.helpers.campaigns import SMALL, registered
from tests.helpers.workers import events_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


PATIENCE = 120.0
PROBLEMS = 3
REACH = 30  # events that a run may write before it is killed, of about 60 in all
# What differs between two runs of one seed (protocol: Chain and digest), and everything that is about time.
VOLATILE = {"seq", "wall", "mono", "seconds", "attempt", "texts", "texts_sha256"}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A home of its own; workers that a test leaves behind are killed."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    store = Store(tmp_path / "home")
    yield store
    for session in store.folders():
        run = session.run()
        if session.live() and run is not None:
            os.kill(run.pid, signal.SIGKILL)


def spec(numerics: str) -> CampaignSpec:
    """A campaign of seconds, with evidence in every problem (hot trunks, a wide margin)."""
    return registered(SMALL, problems=PROBLEMS, wave=2, temperature=1.5, margin=20.0, numerics=numerics)


def finish(session: SessionFolder) -> None:
    """Run a session to its end."""
    launch(session)
    deadline = time.monotonic() + PATIENCE
    while session.live():
        assert time.monotonic() < deadline, log_tail(session)
        time.sleep(0.02)
    assert session.state() == "finished", log_tail(session)


def kill_at(session: SessionFolder, events: int, delay: float) -> None:
    """Start a worker and kill -9 it `delay` seconds after the journal holds so many events, or after its end."""
    launch(session)
    run = session.run()
    assert run is not None
    deadline = time.monotonic() + PATIENCE
    with Follower(session.journal_path, session.registration().digest) as journal:
        while journal.events < events and session.live():
            journal.poll()
            assert time.monotonic() < deadline, log_tail(session)
            time.sleep(0.002)
    time.sleep(delay)
    if session.live():
        os.kill(run.pid, signal.SIGKILL)
    while session.live():
        time.sleep(0.005)


def closed_lines(session: SessionFolder) -> bytes:
    """The journal's whole lines up to the last closed problem, as they stand on disk."""
    whole = session.journal_path.read_bytes() if session.journal_path.exists() else b""
    place = whole.rfind(b'{"event":"problem-closed"')
    return b"" if place < 0 else whole[: whole.index(b"\n", place) + 1]


def facts(session: SessionFolder) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """Evidence, texts and report of a session without times and attempts."""
    events = events_of(session)
    state = fold_all(session.spec(), events)
    evidence = {state.pivots.cell(row, "seq") for row in state.evidence}
    pivots = [msgspec.to_builtins(event) for event in events if event.seq in evidence]
    texts = [
        msgspec.to_builtins(read_texts(session.texts_path, event.texts, event.texts_sha256))
        for event in events
        if isinstance(event, ProblemClosed)
    ]
    for fact in (*pivots, *texts):
        for name in VOLATILE:
            fact.pop(name, None)
    made = as_dict(report(state.table(), draws=200, cache=state.cache_tally()))
    return pivots, texts, made


def check(session: SessionFolder) -> None:
    """After any number of deaths: the chain is whole, each problem closed once, evidence is of closed ones only."""
    found = verify(session.journal_path, session.registration().digest)
    assert (found.broken_line, found.torn) == (None, 0)
    events = events_of(session)
    assert [event.problem for event in events if isinstance(event, ProblemClosed)] == list(range(PROBLEMS))
    state = fold_all(session.spec(), events)
    assert state.irregular == []
    assert state.measured == list(range(PROBLEMS))
    assert len(state.evidence) == sum(event.pivots for event in events if isinstance(event, ProblemClosed)) > 0
    assert len(state.gaps()) == len(state.runs) - 1


def survive(store: Store, numerics: str, kills: int, seed: int) -> None:
    """Kill a campaign `kills` times at seeded moments, resume it each time, and compare it with one left alone."""
    draw = random.Random(seed)
    calm = None
    if numerics == "invariant":
        calm = store.create(register(spec(numerics)))
        finish(calm)
    hit, at_work = store.create(register(spec(numerics))), 0
    for _ in range(kills):
        before = closed_lines(hit)
        written = hit.summary().events
        kill_at(hit, written + draw.randrange(1, REACH), draw.random() * 0.1)
        at_work += hit.state() == "interrupted"
        assert hit.journal_path.read_bytes().startswith(before)
        if hit.state() == "finished":
            check(hit)
            compare(calm, hit)
            hit = store.create(register(spec(numerics)))
    if hit.state() != "finished":
        finish(hit)
    check(hit)
    compare(calm, hit)
    assert at_work >= max(1, kills // 3), "too few kills met a campaign at work"


def compare(calm: SessionFolder | None, hit: SessionFolder) -> None:
    """In batch-invariant mode the resumed campaign says what the uninterrupted one says, to the last bit."""
    if calm is not None:
        assert facts(hit) == facts(calm)


@pytest.mark.parametrize("numerics", ["invariant", "split"])
def test_five_kills_lose_nothing(store: Store, numerics: str) -> None:
    """The gate's share of `make test-slow`: closed problems stay byte for byte, resumed reports agree."""
    survive(store, numerics, kills=3 if numerics == "invariant" else 2, seed=6)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("numerics", ["invariant", "split"])
def test_fifty_kills_lose_nothing(store: Store, numerics: str) -> None:
    """Twenty-five deaths a mode, wherever they fall: loading, trunks, passes, between events and within."""
    survive(store, numerics, kills=25, seed=50)
