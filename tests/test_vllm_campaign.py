"""Whole campaigns on a real vLLM with the bundled model: measured, stopped by a check, killed, and resumed."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from engine.backends.load import load
from engine.registration import resolve
from engine.supervisor import launch, log_tail
from sessions.events import CacheFailure, EngineReady, Notice, PassEnded, Pivot, ProblemClosed
from sessions.reading import read, verify
from sessions.spec import BUNDLED_MODEL, register
from sessions.store import Store
from tests.campaigns import SMALL, Faulty, conduct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.backend import Backend, FirstToken
    from sessions.events import AnyEvent
    from sessions.spec import CampaignSpec
    from sessions.store import SessionFolder

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

PATIENCE = 120.0
GRACE = 20.0


def campaign_spec(**changes: object) -> CampaignSpec:
    """A small campaign of the bundled model on vLLM, resolved."""
    wanted = {"engine": "vllm", "model": BUNDLED_MODEL, "task": "arithmetic", "max_trunk_tokens": 140, **changes}
    return resolve(msgspec.structs.replace(SMALL, **wanted))


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    """One engine for the campaigns of this process, whose specs differ only in the protocol."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    started = load(campaign_spec(), lambda _stage, _fraction: None)
    yield started
    started.close()


def test_every_pivot_of_a_campaign_is_verified_by_the_ledger(backend: Backend, tmp_path: Path) -> None:
    """Trunks in one wave, re-feeds made cold by salts: no failure, every pivot proved, decode-time shares known."""
    spec = campaign_spec(problems=3, rollouts=4, max_pivots=3)
    record = conduct(spec, tmp_path, backend=backend)
    assert (record.ended.state, record.ended.exit_code) == ("finished", 0)
    pivots: list[Pivot] = record.of(Pivot)
    assert len(pivots) >= 5
    assert {pivot.cache.state for pivot in pivots} == {"verified"}
    assert {pivot.cache.proof for pivot in pivots} == {"ledger"}
    for pivot in pivots:
        assert pivot.cache.hit_tokens is not None
        prompt = pivot.position - pivot.index
        assert pivot.cache.decode_tokens == max(pivot.cache.hit_tokens - prompt, 0)
    assert not record.of(CacheFailure)


def test_a_replica_is_bit_identical_on_this_engine(backend: Backend, tmp_path: Path) -> None:
    """Two exact passes of one batch give equal probes, logprob for logprob, and equal continuations."""
    record = conduct(campaign_spec(rollouts=3), tmp_path, backend=backend)
    for pivot in record.of(Pivot):
        assert pivot.exact1.actual == pivot.exact2.actual
        assert pivot.exact1.alternative == pivot.exact2.alternative


def test_a_wave_of_one_is_made_cold_by_a_checked_reset(backend: Backend, tmp_path: Path) -> None:
    """The paper's way: the cache is emptied before the re-feed, and its leaders find nothing."""
    record = conduct(campaign_spec(wave=1), tmp_path, backend=backend)
    assert record.ended.state == "finished"
    assert {pivot.cache.state for pivot in record.of(Pivot)} == {"verified"}


def test_a_wrong_count_in_an_exact_pass_stops_the_campaign(backend: Backend, tmp_path: Path) -> None:
    """Fault injection: one real hit, reported one block short, ends the campaign with exit code 4 in that pass."""

    def shorten(first: FirstToken) -> FirstToken:
        if "/exact-2/" in first.id and first.cached_tokens:
            return replace(first, cached_tokens=first.cached_tokens - 32, origins=(first.origins or ())[:-1])
        return first

    record = conduct(campaign_spec(), tmp_path, backend=Faulty(backend, first=shorten))
    assert (record.ended.state, record.ended.exit_code) == ("aborted", 4)
    assert "exact-2" in record.ended.reason
    assert record.of(PassEnded)[-1].name == "exact-2"
    assert record.of(PassEnded)[-1].stopped
    assert not record.of(ProblemClosed)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A home of its own; workers that a test leaves behind are killed."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    made = Store(tmp_path / "home")
    yield made
    for session in made.folders():
        run = session.run()
        if session.live() and run is not None:
            os.kill(run.pid, signal.SIGKILL)


def events_of(session: SessionFolder) -> list[AnyEvent]:
    """What its journal says so far."""
    return list(read(session.journal_path, session.registration().digest))


def wait_for(what: Callable[[], bool], session: SessionFolder, seconds: float = PATIENCE) -> None:
    """Wait until something holds; the end of worker.log explains why it never did."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, log_tail(session)
        time.sleep(0.1)


def processes_of(leader: int) -> list[int]:
    """Living processes of the session that a worker leads, the worker among them."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, sid = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(sid) == leader and state != "Z":
            found.append(int(stat.parent.name))
    return found


def closed(session: SessionFolder) -> int:
    """Problems that closed."""
    return sum(isinstance(event, ProblemClosed) for event in events_of(session))


def test_kill_9_leaves_no_process_and_a_signal_closes_the_journal(store: Store) -> None:
    """The engine dies with its worker; a resumed session goes on where it was and ends within its grace on SIGTERM."""
    session = store.create(register(campaign_spec(problems=60)))
    launch(session)
    wait_for(lambda: closed(session) >= 1, session)
    run = session.run()
    assert run is not None
    assert run.pid in processes_of(run.pid)
    os.kill(run.pid, signal.SIGKILL)
    wait_for(lambda: processes_of(run.pid) == [] and not session.live(), session, seconds=10)
    assert session.state() == "interrupted"
    before = closed(session)

    launch(session)
    wait_for(lambda: closed(session) > before, session)
    again = session.run()
    assert again is not None
    os.kill(again.pid, signal.SIGTERM)
    wait_for(lambda: processes_of(again.pid) == [], session, seconds=GRACE)
    events = events_of(session)
    assert verify(session.journal_path, session.registration().digest).broken_line is None
    ready = [event for event in events if isinstance(event, EngineReady)]
    assert [event.changed for event in ready] == [(), ()]
    assert ready[0].fingerprint == ready[1].fingerprint
    stages = {event.text for event in events if isinstance(event, Notice)}
    assert {"importing vLLM", "loading weights", "warming up"} <= stages
    measured = [event.problem for event in events if isinstance(event, ProblemClosed)]
    assert len(measured) == len(set(measured))
