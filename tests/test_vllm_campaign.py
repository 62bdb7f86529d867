"""Whole campaigns on a real vLLM with the bundled model: measured, stopped by a check, killed, and resumed."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from engine.backends.load import load
from engine.backends.vllm.environment import MULTIPROCESS
from engine.registration import resolve
from engine.worker.supervisor import launch, log_tail, send
from sessions.disk.journal import verify
from sessions.events import CacheFailure, Ended, EngineReady, Notice, PassEnded, Pivot, ProblemClosed
from sessions.spec import BUNDLED_MODEL, register
from sessions.state.recount import recount
from sessions.store import Store
from tests.helpers.campaigns import SMALL, Faulty, conduct
from tests.helpers.processes import gone, kill_all, processes_of
from tests.helpers.workers import events_of, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.backend import Backend, FirstToken
    from sessions.spec import CampaignSpec
    from sessions.store import SessionFolder

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

PATIENCE = 120.0
WITH_OTHERS = 250.0


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
    """Trunks in one wave, re-feeds made cold by salts: every pivot proved, shares known, and counted again."""
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
    assert recount(record.events, tmp_path, spec.k).pivots == len(pivots)


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
    """A home of its own; workers that a test leaves behind are killed, with all that they started."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    made = Store(tmp_path / "home")
    yield made
    for session in made.folders():
        run = session.run()
        if run is not None:
            kill_all(run.pid)


def leader_of(session: SessionFolder) -> int:
    """The worker's process id, which is its session's and its group's too."""
    run = session.run()
    assert run is not None
    return run.pid


def segments_of(leader: int) -> set[Path]:
    """Shared memory that the processes of a session have mapped."""
    maps = [line for pid in processes_of(leader) for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    return {Path(line.split()[-1]) for line in maps if "/dev/shm/psm_" in line}  # noqa: S108 - as Python names them


def closed(session: SessionFolder) -> int:
    """Problems that closed."""
    return sum(isinstance(event, ProblemClosed) for event in events_of(session))


def test_kill_9_leaves_no_process_and_a_signal_closes_the_journal(store: Store) -> None:
    """The engine dies with its worker; a resumed session goes on where it was and ends within its grace on SIGTERM."""
    session = store.create(register(campaign_spec(problems=60)))
    launch(session)
    wait_for(lambda: closed(session) >= 1, session, PATIENCE)
    leader = leader_of(session)
    assert leader in processes_of(leader)
    os.kill(leader, signal.SIGKILL)
    assert gone(leader)
    assert not session.live()
    assert session.state() == "interrupted"
    before = closed(session)

    launch(session)
    wait_for(lambda: closed(session) > before, session, PATIENCE)
    again = leader_of(session)
    os.kill(again, signal.SIGTERM)
    assert gone(again), log_tail(session)
    events = events_of(session)
    assert verify(session.journal_path, session.registration().digest).broken_line is None
    ready = [event for event in events if isinstance(event, EngineReady)]
    assert [event.changed for event in ready] == [(), ()]
    assert ready[0].fingerprint == ready[1].fingerprint
    stages = {event.text for event in events if isinstance(event, Notice)}
    assert {"importing vLLM", "starting the engine core", "loading weights", "warming up"} <= stages
    measured = [event.problem for event in events if isinstance(event, ProblemClosed)]
    assert len(measured) == len(set(measured))


def test_an_abort_while_loading_ends_before_weights_are_loaded(store: Store) -> None:
    """Asked for during the import of vLLM, it is heeded at the next stage, and the end is the user's."""
    session = store.create(register(campaign_spec()))
    launch(session)
    wait_for(lambda: any(isinstance(event, Notice) for event in events_of(session)), session, PATIENCE)
    send(session, "abort")
    wait_for(lambda: session.summary().ended != "", session, PATIENCE)
    events = events_of(session)
    ended = events[-1]
    assert isinstance(ended, Ended)
    assert (ended.state, ended.exit_code, ended.reason) == ("aborted", 1, "aborted by the user")
    assert {event.text for event in events if isinstance(event, Notice)} <= {"importing vLLM"}


def test_an_engine_in_processes_of_its_own_does_not_outlive_its_worker(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker is killed with -9, loading or measuring, or hung up: nothing stays; nor after an end in one process."""
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")  # else all of them take the same core
    sessions = [store.create(register(campaign_spec(problems=number))) for number in (1, 60, 60, 60)]
    for session, apart in zip(sessions, "0111", strict=True):  # at once, since a start takes half a minute
        monkeypatch.setenv(MULTIPROCESS, apart)
        launch(session)
    ending, loading, measuring, hung_up = sessions

    leader = leader_of(loading)
    wait_for(
        lambda: len(processes_of(leader)) >= 4, loading, WITH_OTHERS
    )  # itself, its guardian, Python's tracker, the engine core
    os.kill(leader, signal.SIGKILL)
    assert gone(leader)
    assert not any(isinstance(event, EngineReady) for event in events_of(loading))

    leader = leader_of(measuring)
    wait_for(lambda: closed(measuring) >= 1, measuring, WITH_OTHERS)
    segments = segments_of(leader)
    assert segments
    os.kill(leader, signal.SIGKILL)
    assert gone(leader)
    assert not [segment for segment in segments if segment.exists()]
    assert measuring.state() == "interrupted"

    leader = leader_of(hung_up)
    wait_for(lambda: closed(hung_up) >= 1, hung_up, WITH_OTHERS)
    os.kill(leader, signal.SIGHUP)
    assert gone(leader), log_tail(hung_up)
    end = events_of(hung_up)[-1]
    assert isinstance(end, Ended)
    assert (end.state, end.exit_code) == ("interrupted", 128 + signal.SIGHUP)

    wait_for(lambda: not ending.live(), ending, WITH_OTHERS)
    assert gone(leader_of(ending))
    assert ending.state() == "finished", log_tail(ending)
