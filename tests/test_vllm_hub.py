"""A whole start of vLLM from a hub: the worker's environment names one here, which serves the bundled model."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from engine.backends.load import BUNDLED_PATH
from engine.registration import resolve
from engine.worker.supervisor import launch, log_tail, send
from sessions.events import EngineReady, Notice, ProblemClosed
from sessions.spec import register
from sessions.store import Store
from tests.helpers.campaigns import SMALL
from tests.helpers.hub_server import running
from tests.helpers.workers import events_of, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions.events import AnyEvent
    from sessions.store import SessionFolder
    from tests.helpers.hub_server import Hub

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

MODEL = "org/bundled"
PATIENCE = 120.0


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub that workers find through their environment, with an empty cache; those left behind are killed."""
    with running() as found:
        found.add(MODEL, BUNDLED_PATH)
        monkeypatch.setenv("HF_ENDPOINT", found.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        for variable in ("HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE"):
            monkeypatch.delenv(variable, raising=False)
        yield found
    for session in Store(tmp_path / "home").folders():
        run = session.run()
        if session.live() and run is not None:
            os.kill(run.pid, signal.SIGKILL)


def launched(home: Path) -> SessionFolder:
    """A campaign of one problem of the hub's model, started."""
    wanted = {"engine": "vllm", "model": MODEL, "task": "arithmetic", "max_trunk_tokens": 100, "problems": 1}
    session = Store(home).create(register(resolve(msgspec.structs.replace(SMALL, **wanted))))
    launch(session)
    return session


def finished(home: Path) -> tuple[SessionFolder, list[AnyEvent]]:
    """That campaign, run to its end by a worker."""
    session = launched(home)
    wait_for(lambda: not session.live(), session, PATIENCE)
    return session, events_of(session)


def test_a_campaign_runs_on_a_model_of_the_hub_and_pins_its_commit(hub: Hub, tmp_path: Path) -> None:
    """Looked up, downloaded with its bytes told, loaded by vLLM; the commit is among what decides the numerics."""
    session, events = finished(tmp_path / "home")
    ended = session.summary().ended
    assert ended == "finished", log_tail(session)
    ready = next(event for event in events if isinstance(event, EngineReady))
    assert (ready.model, ready.numerics["weights"]) == (MODEL, hub.repos[MODEL].commit)
    loading = [
        (event.text, event.fraction) for event in events if isinstance(event, Notice) and event.kind == "loading"
    ]
    stages = list(dict.fromkeys(text for text, _ in loading))
    begun = ["looking the model up on the hub", "importing vLLM", "downloading 1.7 MiB", "loading weights"]
    assert [stage for stage in stages if stage in begun] == begun
    assert ("downloading 1.7 MiB", 1.0) in loading
    assert "downloading" not in stages
    assert [event for event in events if isinstance(event, ProblemClosed)]
    assert len(hub.got("GET /cdn")) == 1


def test_a_gated_model_ends_the_worker_before_vllm_is_imported(hub: Hub, tmp_path: Path) -> None:
    """The journal's end says why and what to do, within seconds."""
    hub.repos[MODEL].gated = True
    session, events = finished(tmp_path / "home")
    reason = getattr(events[-1], "reason", "")
    assert f"{MODEL} is gated, and this machine has no token" in reason, log_tail(session)
    assert "HF_TOKEN" in reason
    assert not [event for event in events if isinstance(event, Notice) and event.text == "importing vLLM"]


def test_an_abort_while_a_model_is_downloaded_does_not_wait_for_it(hub: Hub, tmp_path: Path) -> None:
    """The journal ends as was asked, and neither the worker nor the download goes on."""
    hub.repos[MODEL].files["model.safetensors"] = os.urandom(32 << 20)
    hub.paused = threading.Event()
    session = launched(tmp_path / "home")
    run = session.run()
    assert run is not None
    stage = "downloading 32.0 MiB"
    wait_for(
        lambda: any(isinstance(event, Notice) and event.text == stage for event in events_of(session)),
        session,
        PATIENCE,
    )
    send(session, "abort")
    wait_for(lambda: not session.live(), session, seconds=20)
    assert session.state() == "aborted", log_tail(session)
    wait_for(lambda: not Path(f"/proc/{run.pid}").exists(), session, seconds=20)
    fetchers = [
        path for path in Path("/proc").glob("[0-9]*/cmdline") if b"vllm.fetcher\0" + MODEL.encode() in cmd(path)
    ]
    assert fetchers == []


def cmd(path: Path) -> bytes:
    """The command of a process; empty when it is gone."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
