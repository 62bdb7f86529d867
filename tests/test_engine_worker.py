"""Real worker processes: ready or the cause, abort, signals, kill -9 and resume."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from typing import TYPE_CHECKING

import msgspec
import pytest

from engine.backends.load import BUNDLED_PATH, embedded_threads
from engine.worker.__main__ import main
from engine.worker.supervisor import How, launch, log_tail, send
from engine.worker.watchdog import SIGNALS
from sessions.disk.journal import read, verify
from sessions.disk.requests import look
from sessions.errors import RefeedError
from sessions.events import Opened, PassEnded, ProblemClosed
from sessions.spec import CampaignSpec, register
from sessions.state.fold import fold_all
from sessions.store import SessionFolder, Store
from tests.helpers.campaigns import SMALL, registered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sessions.state.campaign import CampaignState

PATIENCE = 90.0
LONG = {"problems": 40, "rollouts": 4, "k": 4, "max_pivots": 3}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A home of its own; workers that a test leaves behind are killed."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    store = Store(tmp_path / "home")
    yield store
    for session in store.folders():
        run = session.run()
        if session.live() and run is not None:
            os.kill(run.pid, signal.SIGKILL)


def make(store: Store, spec: CampaignSpec) -> SessionFolder:
    """A session folder for a resolved spec."""
    return store.create(register(spec))


def state_of(session: SessionFolder) -> CampaignState:
    """Everything its journal says."""
    return fold_all(session.spec(), read(session.journal_path, session.registration().digest))


def wait_for(what: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


def wait_for_end(session: SessionFolder) -> None:
    """Wait until no worker holds the session."""
    wait_for(lambda: not session.live())


def pid_of(session: SessionFolder) -> int:
    """The worker's process id."""
    run = session.run()
    assert run is not None
    return run.pid


def test_a_worker_is_ready_runs_and_ends(store: Store) -> None:
    """Launching returns once it is ready; the campaign runs to its end without the launcher."""
    session = make(store, registered(SMALL, problems=1))
    launch(session)
    assert session.live()
    assert session.state() == "running"
    wait_for_end(session)
    assert session.state() == "finished", log_tail(session)
    assert state_of(session).measured == [0]
    assert verify(session.journal_path, session.registration().digest).torn == 0


def test_a_second_worker_is_refused(store: Store) -> None:
    """One writer a session: the second launch says that it is running."""
    session = make(store, registered(SMALL, **LONG))
    launch(session)
    with pytest.raises(RefeedError, match="running elsewhere"):
        launch(session)
    send(session, "abort")
    wait_for_end(session)


def test_abort_ends_a_long_campaign_and_loses_nothing(store: Store) -> None:
    """The worker answers, stops and closes its journal as aborted by the user, exit code 1."""
    session = make(store, registered(SMALL, **LONG))
    launch(session)
    wait_for(lambda: session.summary().measured >= 1)
    said = send(session, "abort")
    assert "nothing that is recorded is lost" in said
    wait_for_end(session)
    state = state_of(session)
    assert state.ended is not None
    assert (state.ended.state, state.ended.exit_code) == ("aborted", 1)
    assert len(state.measured) >= 1


@pytest.mark.parametrize("late", [0.0, 0.5])
def test_an_abort_right_after_the_registration_waits_for_the_worker_and_is_honoured(store: Store, late: float) -> None:
    """There is a session and no worker yet: what is asked then must not be refused, and the campaign go on."""
    session = make(store, registered(SMALL, **LONG))
    launching = threading.Timer(late, launch, (session,))
    launching.start()
    send(session, "abort")
    launching.join()
    wait_for_end(session)
    assert session.state() == "aborted", log_tail(session)


def test_a_session_whose_start_was_refused_does_not_run(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that came and went has left its lock; for one that never came, its launcher does."""
    session = make(store, registered(SMALL))
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(RefeedError, match="died with exit code 1"):
        launch(session)
    assert session.state() == "interrupted"
    monkeypatch.setattr("sys.executable", str(store.path / "no python"))
    session = make(store, registered(SMALL))
    with pytest.raises(FileNotFoundError):
        launch(session)
    assert session.state() == "interrupted"
    with pytest.raises(RefeedError, match="is not running"):
        send(session, "abort")


def test_a_worker_that_never_comes_is_not_waited_for_long(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its launcher may have been killed between the registration and the start."""
    monkeypatch.setattr("sessions.disk.folder.STARTING_SECONDS", 0.5)
    session = make(store, registered(SMALL))
    assert session.state() == "running"
    with pytest.raises(RefeedError, match="is not running; its state is interrupted"):
        send(session, "pause")


def test_pause_holds_before_the_next_problem(store: Store) -> None:
    """A pause is obeyed between problems and resume goes on."""
    session = make(store, registered(SMALL, **LONG))
    launch(session)
    assert send(session, "pause").startswith("pausing before the next problem; ")
    wait_for(lambda: session.summary().paused)
    assert session.state() == "paused"
    wait_for(lambda: send(session, "pause").startswith("paused already; "))  # the record comes before the wait
    before = session.summary().events
    time.sleep(0.5)
    assert session.summary().events == before
    send(session, "resume")
    wait_for(lambda: session.summary().events > before + 1)
    send(session, "abort")
    wait_for_end(session)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_closes_the_journal_and_resume_continues(store: Store, number: signal.Signals) -> None:
    """Pre-emption: the journal says interrupted, and a second worker measures only what had not closed."""
    session = make(store, registered(SMALL, problems=4))
    launch(session)
    wait_for(lambda: session.summary().measured >= 1)
    os.kill(pid_of(session), number)
    wait_for_end(session)
    state = state_of(session)
    assert state.ended is not None
    assert (state.ended.state, state.ended.exit_code) == ("interrupted", 128 + number)
    closed = list(state.measured)
    launch(session)
    wait_for_end(session)
    state = state_of(session)
    assert session.state() == "finished", log_tail(session)
    assert state.measured == [0, 1, 2, 3]
    assert state.measured[: len(closed)] == closed
    assert len(state.runs) == 2


def test_kill_9_loses_no_closed_problem(store: Store) -> None:
    """After SIGKILL the lock is free, the state is interrupted, and resume keeps every closed line byte for byte."""
    session = make(store, registered(SMALL, problems=4))
    launch(session)
    wait_for(lambda: session.summary().measured >= 2)
    os.kill(pid_of(session), signal.SIGKILL)
    wait_for_end(session)
    assert session.state() == "interrupted"
    digest = session.registration().digest
    torn = verify(session.journal_path, digest).torn
    whole = session.journal_path.read_bytes()
    kept = whole[: len(whole) - torn]
    launch(session)
    wait_for_end(session)
    assert session.state() == "finished", log_tail(session)
    assert session.journal_path.read_bytes().startswith(kept)
    events = list(read(session.journal_path, digest))
    assert [event.problem for event in events if isinstance(event, ProblemClosed)] == [0, 1, 2, 3]
    assert sum(isinstance(event, Opened) for event in events) == 2


def test_a_dead_worker_is_not_asked(store: Store) -> None:
    """After kill -9, asking says that the session is not running, and leaves no request."""
    session = make(store, registered(SMALL, **LONG))
    launch(session)
    os.kill(pid_of(session), signal.SIGKILL)
    wait_for_end(session)
    with pytest.raises(RefeedError, match="not running") as caught:
        send(session, "abort")
    assert caught.value.kind == "session"
    assert look(session.requests_path).requests == ()


def test_a_worker_that_cannot_start_says_why(store: Store) -> None:
    """A damaged spec is reported by launch itself, with the worker's own words."""
    session = make(store, registered(SMALL))
    spec = session.spec_path
    spec.write_bytes(spec.read_bytes().replace(b'"k":2', b'"k":3'))
    with pytest.raises(RefeedError, match="hashes to") as caught:
        launch(SessionFolder(session.path))
    assert caught.value.kind == "integrity"


def test_a_model_without_weights_ends_as_failed_with_the_cause(store: Store, tmp_path: Path) -> None:
    """Once ready, an engine that cannot load is an Ended event with one line of cause."""
    model = tmp_path / "model"
    model.mkdir()
    for file in BUNDLED_PATH.iterdir():
        (model / file.name).write_bytes(file.read_bytes())
    (model / "model.safetensors").unlink()
    session = make(store, registered(SMALL, model=str(model)))
    launch(session)
    wait_for_end(session)
    state = state_of(session)
    assert state.ended is not None
    assert (state.ended.state, state.ended.exit_code) == ("failed", 1)
    assert "model.safetensors" in state.ended.reason


def test_a_variable_that_chooses_kernels_is_compared_before_anything_changes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resume with another one is refused at once: state and journal are as they were. Allowed, it is recorded."""
    session = make(store, registered(SMALL, problems=6))
    launch(session)
    wait_for(lambda: session.summary().measured >= 1)
    os.kill(pid_of(session), signal.SIGTERM)
    wait_for_end(session)
    before = session.journal_path.read_bytes()
    monkeypatch.setenv("ONEDNN_DEFAULT_FPMATH_MODE", "BF16")
    with pytest.raises(RefeedError) as caught:
        launch(session)
    assert "ONEDNN_DEFAULT_FPMATH_MODE" in caught.value.message
    assert (session.journal_path.read_bytes(), session.state()) == (before, "interrupted")
    launch(session, How(allow_changed_engine=True))
    wait_for_end(session)
    state = state_of(session)
    assert session.state() == "finished"
    assert state.engine is not None
    assert "env:ONEDNN_DEFAULT_FPMATH_MODE" in state.engine.changed


def test_an_engine_that_turns_out_changed_leaves_the_session_interrupted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of threads is known once the engine is there; the refusal names it and is no failure of the session.

    Variables that change no logit are no reason to refuse.
    """
    session = make(store, registered(SMALL, problems=6))
    launch(session)
    wait_for(lambda: session.summary().measured >= 1)
    os.kill(pid_of(session), signal.SIGTERM)
    wait_for_end(session)
    threads = embedded_threads() or int(os.environ["OMP_NUM_THREADS"])
    with monkeypatch.context() as other:
        other.setenv("OMP_NUM_THREADS", str(threads + 1))
        launch(session)
        wait_for_end(session)
    state = state_of(session)
    assert state.ended is not None
    assert (state.ended.state, state.ended.exit_code) == ("interrupted", 1)
    assert f"threads was {threads} and is {threads + 1}" in state.ended.reason
    for name in ("NCCL_DEBUG", "TORCH_HOME", "VLLM_ASSETS_CACHE"):
        monkeypatch.setenv(name, "WARN")
    launch(session)
    wait_for_end(session)
    state = state_of(session)
    assert session.state() == "finished"
    assert [one.engine.canary for one in state.runs if one.engine] == [state.engine.canary] * 2  # type: ignore[union-attr]


def test_the_stop_rule_and_the_hours_end_a_campaign_cleanly(store: Store) -> None:
    """max_hours shorter than a problem stops as `stopped`, exit code 0, with the limit's name."""
    session = make(store, registered(SMALL, max_hours=1e-5))
    launch(session)
    wait_for_end(session)
    state = state_of(session)
    assert state.ended is not None
    assert (state.ended.state, state.ended.exit_code) == ("stopped", 0)
    assert "max_hours" in state.ended.reason
    assert not any(isinstance(event, PassEnded) for event in read(session.journal_path, session.registration().digest))


def test_an_error_after_ready_touches_no_file_that_took_the_pipe_s_number(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the launcher was told, the ready pipe is closed; an end that cannot be written goes to the log alone."""
    session = make(store, registered(SMALL))
    read_fd, write_fd = os.pipe()
    other = session.path / "other"

    def fail(*_parts: object) -> int:
        taken = os.open(other, os.O_CREAT | os.O_RDWR)
        assert taken == write_fd, "the number was not free"
        raise RefeedError("failed", "the disk is full")

    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    monkeypatch.setattr("engine.worker.__main__.attended", fail)
    assert main([str(session.path), "--ready-fd", str(write_fd)]) == 1
    for number, handler in handlers.items():
        signal.signal(number, handler)
    os.close(write_fd)
    assert other.read_bytes() == b""
    assert b'"ok":true' in os.read(read_fd, 4096)
    os.close(read_fd)


def test_a_task_that_changed_since_registration_is_refused(store: Store, tmp_path: Path) -> None:
    """Data enters by content hash: another line in the file is another campaign."""
    data = tmp_path / "task.jsonl"
    rows = [{"question": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(3)]
    data.write_bytes(b"\n".join(msgspec.json.encode(row) for row in rows))
    session = make(store, registered(SMALL, task=f"jsonl:{data}", problems=1))
    data.write_bytes(data.read_bytes().replace(b"What is 1", b"What was 1"))
    launch(session)
    wait_for_end(session)
    state = state_of(session)
    assert state.ended is not None
    assert state.ended.state == "failed"
    assert "was registered" in state.ended.reason


def test_a_model_that_changed_since_registration_is_refused(store: Store, tmp_path: Path) -> None:
    """A campaign that stopped does not go on with other weights under the same path."""
    model = tmp_path / "model"
    shutil.copytree(BUNDLED_PATH, model)
    session = make(store, registered(SMALL, model=str(model), problems=1))
    weights = bytearray((model / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (model / "model.safetensors").write_bytes(weights)
    launch(session)
    wait_for_end(session)
    state = state_of(session)
    assert state.ended is not None
    assert state.ended.state == "failed"
    assert "was registered" in state.ended.reason
    assert state.engine is None
