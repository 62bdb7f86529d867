"""A worker that runs vLLM has a guardian, or says that it has none."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from engine.tasks.registry import open_task
from engine.worker.lifecycle import UNGUARDED
from engine.worker.supervisor import launch
from sessions.events import Ended, Notice
from sessions.spec import CampaignSpec, register
from sessions.store import Store
from tests.helpers.cli_sessions import REPO
from tests.helpers.processes import gone
from tests.helpers.workers import events_of

if TYPE_CHECKING:
    from pathlib import Path

    from sessions.store import SessionFolder

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

PATIENCE = 120.0


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SessionFolder:
    """A campaign on vLLM whose model is nowhere, so that it ends soon."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("PYTHONPATH", str(REPO))
    spec = CampaignSpec(
        engine="vllm",
        model=str(tmp_path / "nowhere"),
        task="arithmetic",
        task_digest=open_task("arithmetic").digest,
        problems=12,
    )
    return Store(tmp_path / "home").create(register(spec))


def warned(session: SessionFolder) -> bool:
    """Whether its journal, which has an end, says that the worker had no guardian."""
    events = events_of(session)
    assert isinstance(events[-1], Ended)
    assert "nowhere" in events[-1].reason, "it came as far as the engine"
    return any(isinstance(event, Notice) and event.text == UNGUARDED for event in events)


def test_a_worker_that_was_started_by_hand_says_that_nobody_guards_it(session: SessionFolder) -> None:
    """Its session is the shell's."""
    command = [sys.executable, "-P", "-m", "engine.worker", str(session.path)]
    subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
    assert warned(session)


def test_a_launched_worker_is_guarded(session: SessionFolder) -> None:
    """`launch` starts it in a session of its own; nothing stays after its end, the guardian included."""
    launch(session)
    run = session.run()
    assert run is not None
    assert gone(run.pid, PATIENCE)
    assert not warned(session)
