"""Data and weights are those of the registration or nothing is measured; a resume that is refused changes nothing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from engine import registration
from engine.backends.load import BUNDLED_PATH
from engine.digests import open_inputs
from engine.worker.supervisor import How, launch, log_tail, send
from sessions.disk.hooks import Change, OnEvent, keep, kept
from sessions.errors import RefeedError
from sessions.events import Ended, EngineReady, Notice, Opened
from sessions.spec import register
from sessions.store import Store
from tests.helpers.campaigns import SMALL, registered
from tests.helpers.cli_sessions import REPO, worker_home
from tests.helpers.workers import events_of, wait_for
from tui import cli, errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sessions.store import SessionFolder

PATIENCE = 90.0
WEIGHTS = "model.safetensors"
HUGE = 64 << 30  # sparse: no disk holds it, and reading it takes a minute at least


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home; workers that a test leaves behind are killed."""
    yield from worker_home(tmp_path, monkeypatch)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A copy of the bundled model."""
    shutil.copytree(BUNDLED_PATH, tmp_path / "model")
    return tmp_path / "model"


def session_of(model: Path, **changes: object) -> SessionFolder:
    """A registered campaign on a model of its own; no worker has started yet."""
    return Store().create(register(registered(SMALL, model=str(model), **changes)))


def flip(path: Path) -> None:
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def interrupted(model: Path) -> SessionFolder:
    """A campaign that measured something and was interrupted."""
    session = session_of(model, problems=40)
    launch(session)
    wait_for(lambda: session.summary().measured >= 1, session, PATIENCE)
    run = session.run()
    assert run is not None
    os.kill(run.pid, signal.SIGTERM)
    wait_for(lambda: not session.live(), session, PATIENCE)
    return session


def vanish(model: Path) -> None:
    """Take the whole folder away."""
    shutil.rmtree(model)


def lose_weights(model: Path) -> None:
    """Take the weights away."""
    (model / WEIGHTS).unlink()


def change_weights(model: Path) -> None:
    """Other weights under the same name."""
    flip(model / WEIGHTS)


@pytest.mark.parametrize(
    ("spoil", "said"), [(vanish, "no model at"), (lose_weights, "now hashes to"), (change_weights, "now hashes to")]
)
def test_weights_that_change_between_registration_and_load_end_the_run_with_the_cause(
    spoil: Callable[[Path], None], said: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The session is failed, its engine never loaded, and a viewer exits 1 with one line: what, and what to do."""
    session = session_of(model)
    spoil(model)
    launch(session)
    assert cli.run(["attach", session.id, "--plain"]) == errors.FAILED
    last = capsys.readouterr().err
    assert last.count("\n") == 1
    assert said in last
    assert "restore it, or register a new campaign" in last
    events = events_of(session)
    assert isinstance(events[-1], Ended)
    assert (events[-1].state, events[-1].exit_code) == ("failed", 1)
    assert not any(isinstance(event, EngineReady) for event in events)


@pytest.mark.parametrize("spoil", [vanish, change_weights])
def test_a_resume_with_other_weights_is_refused_and_changes_nothing(
    spoil: Callable[[Path], None], model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not "going on" and a failure a moment later: exit 1, the journal as it was, the command of its events kept."""
    session = interrupted(model)
    first = OnEvent.parse("sh -c 'exit 0'")
    keep(session, first)
    journal = session.journal_path.read_bytes()
    spoil(model)
    capsys.readouterr()
    assert cli.run(["resume", session.id, "--on-event", "cat"]) == errors.FAILED
    said = capsys.readouterr()
    assert "going on" not in said.out
    assert str(model) in said.err
    assert "restore it, or register a new campaign" in said.err
    assert session.journal_path.read_bytes() == journal
    assert session.state() == "interrupted"
    assert kept(session) == first
    assert not session.live()


def test_a_torn_line_is_left_by_a_refused_resume_and_told_by_the_next_run(model: Path) -> None:
    """Cut off by a run that never began, it would be gone without a word; a whole one still counts before the run."""
    session = interrupted(model)
    whole = session.journal_path.read_bytes()
    for torn, did in ((whole + b'{"torn', "bytes was cut off"), (whole[:-1], "was kept: only its newline was missing")):
        session.journal_path.write_bytes(torn)
        change_weights(model)
        with pytest.raises(RefeedError, match="now hashes to"):
            launch(session)
        assert session.journal_path.read_bytes() == torn
        change_weights(model)  # back
        launch(session)
        told = [event.text for event in events_of(session) if isinstance(event, Notice) and event.kind == "recovered"]
        assert len(told) == 1
        assert told[0].endswith(did)
        send(session, "abort")
        wait_for(lambda: not session.live(), session, PATIENCE)


def test_a_resume_that_goes_on_takes_the_new_command(model: Path) -> None:
    """The worker keeps it once nothing speaks against the run; no list of processes shows it."""
    session = interrupted(model)
    keep(session, OnEvent.parse("sh -c 'exit 0'"))
    wanted = OnEvent.parse("sh -c 'exit 3'")
    launch(session, How(change=Change(wanted)))
    assert kept(session) == wanted
    run = session.run()
    assert run is not None
    command = (session.path / f"/proc/{run.pid}/cmdline").read_bytes()
    assert b"exit 3" not in command
    send(session, "abort")
    wait_for(lambda: not session.live(), session, PATIENCE)
    assert sum(isinstance(event, Opened) for event in events_of(session)) == 2


def test_a_launcher_hears_how_far_large_weights_are_and_may_stop_meanwhile(model: Path) -> None:
    """A resume reads them before it says ready; an abort ends that at once, and no run has begun."""
    session = interrupted(model)
    journal = session.journal_path.read_bytes()
    with (model / "more.safetensors").open("wb") as file:
        file.truncate(HUGE)
    told: list[tuple[str, float]] = []

    def hear(stage: str, fraction: float) -> None:
        if not told:
            assert "nothing that is recorded is lost" in send(session, "abort")
        told.append((stage, fraction))

    with pytest.raises(RefeedError, match="aborted by the user, before this run began") as caught:
        launch(session, hear=hear)
    assert caught.value.hint == "nothing changed"
    assert {stage for stage, _ in told} == {"checking the weights"}
    assert 0 < told[0][1] <= told[-1][1] < 0.9, "it was read to its end"
    assert session.journal_path.read_bytes() == journal
    wait_for(lambda: not session.live(), session, PATIENCE)


def test_an_interrupted_resume_leaves_its_worker_going_on(model: Path) -> None:
    """Ctrl-C or a lost connection while weights are checked: the worker says so to nobody, and measures."""
    session = interrupted(model)
    with (model / "more.bin").open("wb") as file:
        file.truncate(HUGE)
    command = [sys.executable, "-P", "-m", "tui.cli", "resume", session.id]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPO) as asker:
        assert asker.stdout is not None
        assert "checking the weights" in asker.stdout.readline()
        (model / "more.bin").unlink()  # it is still read: as large as it was, and then not what was registered
        asker.send_signal(signal.SIGINT)
        _, said = asker.communicate(timeout=30)
    assert asker.returncode == 130
    assert f"`refeed-tui abort {session.id}` stops it" in said
    assert session.live()
    assert cli.run(["abort", session.id]) == errors.DONE


def test_files_that_change_while_an_engine_loads_are_found(model: Path) -> None:
    """What was hashed need not be what was loaded half a minute later; a stat tells, and costs nothing."""
    spec = registered(SMALL, model=str(model))
    inputs = open_inputs(spec)
    inputs.require_still()
    flip(model / WEIGHTS)  # of the same size
    with pytest.raises(RefeedError, match=r"model\.safetensors of the model changed while the engine loaded it"):
        inputs.require_still()
    flip(model / WEIGHTS)
    inputs = open_inputs(spec)
    (model / WEIGHTS).unlink()
    with pytest.raises(RefeedError, match=r"model\.safetensors of the model cannot be read"):
        inputs.require_still()
    assert open_inputs(registered(SMALL)).task is not None


def test_a_worker_refuses_weights_that_changed_while_its_engine_loaded(model: Path) -> None:
    """A real worker, whose engine loads and then finds its file written anew."""
    session = session_of(model)
    code = (
        "import sys\nfrom pathlib import Path\nfrom engine.worker import __main__ as worker, lifecycle as run\n"
        f"weights, real = Path({str(model / WEIGHTS)!r}), run.load\n"
        "def load(*given):\n    loaded = real(*given)\n    weights.write_bytes(weights.read_bytes())\n"
        "    return loaded\n"
        "run.load = load\nsys.exit(worker.main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(session.path)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 1, done.stderr
    reason = session.summary().reason
    assert "changed while the engine loaded it" in reason
    assert session.state() == "failed"
    assert not any(isinstance(event, EngineReady) for event in events_of(session)), log_tail(session)


def test_hashing_tells_how_far_it_is_and_is_the_same_told_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shares of all bytes, growing to one; what the listener raises ends it."""
    monkeypatch.setattr(registration, "HEAR_SECONDS", 0.0)
    monkeypatch.setattr(registration, "PART", 1000)
    for name, size in (("a", 3000), ("b", 0), ("c", 1500)):
        (tmp_path / name).write_bytes(os.urandom(size))
    told: list[float] = []
    digest = registration.model_digest(tmp_path, lambda _stage, fraction: told.append(fraction))
    assert told == pytest.approx([1000 / 4500, 2000 / 4500, 3000 / 4500, 4000 / 4500, 1.0])
    assert digest == registration.model_digest(tmp_path)
    monkeypatch.setattr(registration, "PART", 1 << 22)
    assert digest == registration.model_digest(tmp_path)

    def stop(_stage: str, _fraction: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        registration.model_digest(tmp_path, stop)


def test_a_file_of_a_model_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a network volume that went away between listing and reading."""
    gone = tmp_path / "gone.safetensors"
    monkeypatch.setattr(registration, "files_of", lambda _folder: (gone,))
    with pytest.raises(RefeedError, match=r"gone\.safetensors of the model cannot be read: No such file"):
        registration.model_digest(tmp_path)
