"""What `resume` continues and what it refuses, and commands that are told of events."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

import msgspec
import pytest

from engine.backends.load import known
from engine.registration import resolve
from sessions.disk.folder import RunInfo, lock
from sessions.disk.hooks import kept
from sessions.disk.journal import Journal, read
from sessions.events import Ended, Event, Notice, Opened, Paused
from sessions.store import SessionFolder, Store
from tests.helpers.cli_sessions import FLIPPED, SPEC, measured, worker_home, write
from tests.helpers.session_events import engine_ready, opened
from tui import cli, errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE = 60.0
APPEND = "import sys; open(sys.argv[1], 'ab').write(sys.stdin.buffer.read())"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home; workers that a test leaves behind are killed."""
    yield from worker_home(tmp_path, monkeypatch)


def stopped(**settings: object) -> SessionFolder:
    """A session of twelve problems that was stopped, as registered, after eight.

    Its engine differs from a real one only in what is known once that has loaded.
    """
    spec = resolve(msgspec.structs.replace(SPEC, task_digest=None, problems=12, **settings))
    body = [event for problem in range(8) for event in measured(problem, (FLIPPED, FLIPPED))]
    engine = msgspec.structs.replace(engine_ready(), numerics={**known(spec, os.environ), "kernels": "split"})
    return write([opened(), engine, *body, Ended(state="stopped", exit_code=0, reason="as registered")], spec)


def wait_for_end(folder: SessionFolder) -> None:
    """Wait until no worker runs."""
    deadline = time.monotonic() + PATIENCE
    while folder.live():
        assert time.monotonic() < deadline, folder.log_path.read_text()
        time.sleep(0.05)


def files(folder: SessionFolder) -> dict[str, bytes]:
    """Everything in a session's folder, its summary up to date."""
    folder.summary()
    return {str(path.relative_to(folder.path)): path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}


def test_a_session_that_stopped_by_its_rule_continues_only_past_its_stop(capsys: pytest.CaptureFixture[str]) -> None:
    """Without --past-stop nothing is recorded; with it the run is recorded as what it is."""
    folder = stopped(stop="symmetry")
    before = files(folder)
    assert cli.run(["resume", folder.id]) == errors.USAGE
    said = capsys.readouterr().err
    assert "stopped as registered: stop rule: the symmetry e-process crossed 1/alpha = 20" in said
    assert "--past-stop" in said
    after = files(folder)
    assert before.items() <= after.items()
    assert after.keys() - before.keys() == {"lock", "worker.log"}, "no record but what the refusing worker logged"
    assert folder.state() == "stopped"
    assert cli.run(["resume", folder.id, "--past-stop"]) == errors.DONE
    wait_for_end(folder)
    runs = [e for e in read(folder.journal_path, folder.registration().digest) if isinstance(e, Opened)]
    assert [run.past_stop for run in runs] == [False, True]
    capsys.readouterr()
    assert cli.run(["report", folder.id, "--json"]) == errors.DONE
    assert any(note.startswith("PAST its stop rule: run 2") for note in json.loads(capsys.readouterr().out)["notes"])


WITHOUT = """
from importlib.machinery import PathFinder
found = PathFinder.find_spec
PathFinder.find_spec = lambda name, path=None, target=None: None if name in {names} else found(name, path, target)
"""


@pytest.mark.parametrize(("engine", "lacks"), [("embedded", "torch"), ("vllm", "vllm")])
def test_a_resume_without_the_engines_packages_is_refused_and_changes_nothing(
    engine: str, lacks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `launch` refuses it: not "going on", with a run in the journal that failed a moment later."""
    spec = msgspec.structs.replace(resolve(msgspec.structs.replace(SPEC, task_digest=None)), engine=engine)
    folder = write([opened(), engine_ready(), *measured(0, (FLIPPED,))], spec)
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "sitecustomize.py").write_text(WITHOUT.format(names={lacks}))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'without'}{os.pathsep}{os.environ['PYTHONPATH']}")
    before = files(folder)
    assert cli.run(["resume", folder.id]) == errors.FAILED
    said = capsys.readouterr()
    assert "going on" not in said.out
    assert f"the {engine} engine needs {lacks}, which this environment lacks" in said.err
    after = files(folder)
    assert before.items() <= after.items()
    assert after.keys() - before.keys() == {"lock", "worker.log"}, "no record but what the refusing worker logged"


def test_hours_that_are_used_up_are_not_continued(capsys: pytest.CaptureFixture[str]) -> None:
    """The limit is in the digest: --past-stop does not lift it, and the answer says what does."""
    folder = stopped(max_hours=1e-7)
    for flags in ([], ["--past-stop"]):
        assert cli.run(["resume", folder.id, *flags]) == errors.USAGE
        said = capsys.readouterr().err
        assert "max_hours = 1e-07" in said
        assert "register a new campaign" in said


def test_a_worker_that_died_past_a_crossing_may_record_its_end() -> None:
    """Killed between the crossing and its end, the session is resumed to that end, not refused for ever."""
    folder = stopped(stop="symmetry")
    whole = folder.journal_path.read_bytes()
    folder.journal_path.write_bytes(whole[: whole.rindex(b'{"event":"ended"')])
    assert cli.run(["resume", folder.id, "--allow-changed-engine"]) == errors.DONE  # the written engine is no real one
    wait_for_end(folder)
    assert folder.state() == "stopped", folder.log_path.read_text()
    assert "the symmetry e-process crossed" in folder.summary().reason


def test_imports_and_finished_sessions_have_nothing_to_resume(capsys: pytest.CaptureFixture[str]) -> None:
    """Both are said, and nothing is written."""
    done = write([opened(), Ended(state="finished", exit_code=0, reason="all")])
    imported = write(
        [msgspec.structs.replace(opened(), source="x.json"), Ended(state="finished", exit_code=0, reason="i")]
    )
    for folder, says in ((done, "is finished"), (imported, "was imported")):
        before = files(folder)
        assert cli.run(["resume", folder.id]) == errors.USAGE
        assert says in capsys.readouterr().err
        assert files(folder) == before


def test_a_flipped_byte_stops_a_resume_and_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """The worker checks the whole chain before it says ready; exit 5 names the line, and nothing is cut off."""
    folder = write([opened(), engine_ready(), *measured(0, (FLIPPED,))])
    damaged = folder.journal_path.read_bytes().replace(b'"position":145', b'"position":144')
    folder.journal_path.write_bytes(damaged)
    assert cli.run(["resume", folder.id]) == errors.INTEGRITY
    assert "line 4 does not continue the hash chain" in capsys.readouterr().err
    assert folder.journal_path.read_bytes() == damaged


def test_a_clock_that_went_back_is_recorded_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Order is seq's; the gap of a resume is what the clocks said, and a negative one is named as such."""
    late = iter([(5000.0, float(at)) for at in range(3)] + [(1400.0, float(at)) for at in range(9)])
    folder = write([])
    with Journal.open(folder.journal_path, folder.registration().digest, clock=lambda: next(late)) as journal:
        body: list[Event] = [opened(), engine_ready(), Notice(kind="x", text="y"), opened(), *measured(0, (FLIPPED,))]
        for event in body:
            journal.append(event)
    assert cli.run(["verify", folder.id]) == errors.DONE
    assert cli.run(["list", "--json"]) == errors.DONE
    capsys.readouterr()
    assert cli.run(["report", folder.id, "--json"]) == errors.DONE
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert "run 2 continued (the clock stepped back 1:00:00) after run 1 died" in notes


@pytest.mark.parametrize("command", ["no-such-program-here x", "sh -c 'oops", ""])
def test_a_command_that_cannot_run_stops_the_launch(
    command: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2 before anything is registered."""
    assert cli.run(["launch", "smoke", "--detach", "--on-event", command]) == errors.USAGE
    assert "--on-event" in capsys.readouterr().err
    assert not (home / "sessions").exists()


def test_a_launch_whose_command_cannot_be_kept_starts_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 1 with the cause, and the session that was registered is not listed as running."""
    home.mkdir()
    (home / "on-event").touch()
    assert cli.run(["launch", "smoke", "--detach", "--on-event", "cat"]) == errors.FAILED
    assert str(home / "on-event") in capsys.readouterr().err
    (folder,) = Store().folders()
    assert folder.state() == "interrupted"


def test_a_launched_campaign_tells_its_end_and_a_resume_keeps_or_changes_the_command(tmp_path: Path) -> None:
    """The command survives death and resume and can be replaced; a resume that is refused leaves it alone."""
    tell = f'{sys.executable} -c "{APPEND.replace(chr(34), "")}" '
    first, second = tmp_path / "first", tmp_path / "second"
    assert cli.run(["launch", "smoke", "--detach", "--name", "told", "--on-event", tell + str(first)]) == errors.DONE
    folder = Store().find("told")
    run = folder.run()
    assert run is not None
    os.kill(run.pid, signal.SIGTERM)
    wait_for_end(folder)
    assert json.loads(first.read_text())["state"] == "interrupted"
    found = kept(folder)
    assert found is not None
    assert found.argv[-1] == str(first)
    assert cli.run(["resume", "told", "--on-event", tell + str(second)]) == errors.DONE
    wait_for_end(folder)
    (message,) = [json.loads(line) for line in second.read_text().splitlines()]
    assert (message["event"], message["state"], message["name"]) == ("ended", "finished", "told")
    assert len(first.read_text().splitlines()) == 1
    now = kept(folder)
    assert now is not None
    assert now.argv[-1] == str(second)
    assert cli.run(["resume", "told", "--on-event", ""]) == errors.USAGE, "it is finished"
    assert kept(folder) == now, "what is refused changes nothing"


def test_an_end_in_the_journal_is_the_last_word(capsys: pytest.CaptureFixture[str]) -> None:
    """A Notice after the end (a command that failed) changes neither the state nor the report."""
    folder = write(
        [opened(), engine_ready(), *measured(0, (FLIPPED,)), Ended(state="finished", exit_code=0, reason="all")]
    )
    digest = folder.registration().digest
    assert cli.run(["report", folder.id, "--json"]) == errors.DONE
    before = capsys.readouterr().out
    with Journal.open(folder.journal_path, digest) as journal:
        journal.append(Notice(kind="on-event", text="--on-event mail: exit code 1"))
    assert folder.state() == "finished"
    assert cli.run(["report", folder.id, "--json"]) == errors.DONE
    assert capsys.readouterr().out == before
    assert cli.run(["attach", folder.id, "--plain"]) == errors.DONE
    assert "ON-EVENT: --on-event mail: exit code 1" in capsys.readouterr().out


def test_a_session_on_another_host_is_followed_and_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where its lock is not seen, fresh writing tells that it runs; a silent one is not called dead."""
    monkeypatch.setattr("sessions.store.FRESH_SECONDS", 2.0)
    folder = write([opened(), engine_ready(), *measured(0, (FLIPPED,))])
    RunInfo(pid=1, started=1, boot="x", host="other").write(folder.run_path)
    assert cli.run(["report", folder.id]) == errors.DONE  # what takes seconds to import on a busy machine is there then
    capsys.readouterr()
    os.utime(folder.journal_path)
    assert cli.run(["attach", folder.id, "--plain"]) == errors.FAILED
    said = capsys.readouterr()
    assert said.out.count("runs on host other") == 1
    assert "the worker is silent on host other, or died there" in said.err


def test_flags_of_a_new_worker_are_not_taken_by_a_running_one(capsys: pytest.CaptureFixture[str]) -> None:
    """`resume --past-stop` of a paused campaign would silently mean nothing."""
    folder = write([opened(), engine_ready(), Paused()])
    with lock(folder.lock_path):
        assert cli.run(["resume", folder.id, "--past-stop"]) == errors.USAGE
    assert "has a worker already" in capsys.readouterr().err


def test_a_home_given_as_a_relative_path_is_the_same_for_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker runs in its session's folder, and still finds the command that is kept in the home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFEED_TUI_HOME", "home")
    tell = f'{sys.executable} -c "{APPEND}" {tmp_path / "said"}'
    assert cli.run(["launch", "smoke", "--detach", "--max-hours", "0.00001", "--on-event", tell]) == errors.DONE
    folder = Store().newest()
    wait_for_end(folder)
    assert json.loads((tmp_path / "said").read_text())["state"] == "stopped"


def test_a_command_for_a_session_outside_the_home_is_refused_before_a_worker_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A worker would say the same, but only once it had checked what may be hundreds of gigabytes of weights."""
    folder = write([opened(), engine_ready()])
    outside = SessionFolder(folder.path.rename(tmp_path / "outside"))
    before = files(outside)
    assert cli.run(["resume", str(outside.path), "--on-event", "cat"]) == errors.USAGE
    assert "is outside" in capsys.readouterr().err
    assert files(outside) == before
