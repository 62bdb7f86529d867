"""A real vLLM that loads is left at once when its campaign is to stop, and weights that change are refused."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from engine.backends.load import BUNDLED_PATH
from engine.backends.vllm.environment import MULTIPROCESS
from engine.registration import resolve
from engine.worker.supervisor import launch, log_tail, send
from sessions.events import Ended, EngineReady, Notice
from sessions.spec import from_fields, register
from sessions.store import Store
from tests.helpers.cli_sessions import worker_home
from tests.helpers.processes import gone, kill_all, processes_of
from tests.helpers.workers import events_of, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sessions.store import SessionFolder

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

PATIENCE = 180.0


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home; workers that a test leaves behind are killed, with all that they started."""
    yield from worker_home(tmp_path, monkeypatch)
    for session in Store().folders():
        run = session.run()
        if run is not None:
            kill_all(run.pid)


@pytest.fixture
def session(tmp_path: Path) -> SessionFolder:
    """A campaign on a copy of the bundled model."""
    shutil.copytree(BUNDLED_PATH, tmp_path / "model")
    fields = {"engine": "vllm", "model": str(tmp_path / "model"), "task": "arithmetic", "problems": 2, "rollouts": 2}
    return Store().create(register(resolve(from_fields(fields | {"max_trunk_tokens": 100, "max_cont_tokens": 40}))))


def heard(session: SessionFolder) -> set[str]:
    """Stages of loading so far."""
    if not session.journal_path.exists():
        return set()
    return {event.text for event in events_of(session) if isinstance(event, Notice)}


@pytest.mark.parametrize("apart", ["0", "1"])
def test_an_abort_ends_a_loading_engine_and_leaves_nothing(
    apart: str, session: SessionFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the engine core starts, in the worker or in a process of its own, which goes with it."""
    monkeypatch.setenv(MULTIPROCESS, apart)
    launch(session)
    run = session.run()
    assert run is not None
    wait_for(lambda: "starting the engine core" in heard(session), session, PATIENCE)
    if apart == "1":
        wait_for(lambda: len(processes_of(run.pid)) >= 4, session, PATIENCE)  # guardian, tracker, and the core
    send(session, "abort")
    assert gone(run.pid), log_tail(session)
    end = events_of(session)[-1]
    assert isinstance(end, Ended)
    assert (end.state, end.exit_code, end.reason) == ("aborted", 1, "aborted by the user")
    assert not any(isinstance(event, EngineReady) for event in events_of(session))


def test_weights_that_vanish_or_change_before_the_load_end_the_run_with_the_cause(
    session: SessionFolder, tmp_path: Path
) -> None:
    """Refused before vLLM is imported, each with what to do."""
    weights = tmp_path / "model" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    for spoil, said in ((None, "now hashes to"), (tmp_path / "model", "no model at")):
        other = Store().create(session.registration())
        if spoil is not None:
            shutil.rmtree(spoil)
        launch(other)
        wait_for(lambda: other.summary().ended != "", other, PATIENCE)  # noqa: B023 - waited for here
        assert (other.summary().ended, said in other.summary().reason) == ("failed", True)
        assert "restore it, or register a new campaign" in other.summary().reason
        assert "importing vLLM" not in heard(other)
