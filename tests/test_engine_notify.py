"""Commands that are told of events: real processes, real campaigns."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.worker.hooks import Notifier
from engine.worker.supervisor import launch, log_tail
from sessions.disk.hooks import OnEvent, keep, kept
from sessions.disk.journal import read
from sessions.errors import RefeedError
from sessions.events import Ended, Event, Notice, Paused
from sessions.spec import CampaignSpec, register
from sessions.state.fold import fold, new_state
from sessions.store import SessionFolder, Store
from tests.helpers.campaigns import SMALL, registered
from tests.helpers.session_events import closed, opened, pivot
from tests.test_sessions_state import failure

if TYPE_CHECKING:
    from sessions.state.campaign import CampaignState

END = Ended(state="stopped", exit_code=0, reason="enough")
APPEND = "import sys; open(sys.argv[1], 'ab').write(sys.stdin.buffer.read())"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SessionFolder:
    """A session of a home that the environment names."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return Store().create(register(CampaignSpec(problems=12, model="bundled"), name="night"))


def script(*words: str) -> OnEvent:
    """A command of Python source and arguments."""
    return OnEvent((sys.executable, "-c", *words))


def told(session: SessionFolder, on_event: OnEvent | None, events: list[Event], seconds: float = 20.0) -> list[str]:
    """Let a notifier hear events, wait for it, and return what it complains of."""
    state: CampaignState = new_state(session.spec())
    notifier = Notifier(on_event, session, state, seconds)
    for event in events:
        fold(state, event)
        notifier.hear(event)
    notifier.close()
    return notifier.complaints()


def problem(index: int, net: int) -> list[Event]:
    """A measured problem whose two pivots changed by `net` when re-fed."""
    return [pivot(index, 0, 145, (1, 1, net)), pivot(index, 1, 161, (1, 1, net)), closed(index, 2)]


def test_every_kind_of_event_is_one_object_on_stdin(session: SessionFolder, tmp_path: Path) -> None:
    """Crossing, a failed check (once a problem), a pause and the end arrive in order, with the numbers so far."""
    crossing = [event for index in range(8) for event in problem(index, -1)]
    events = [opened(), *crossing, failure(9, 0, 145), failure(9, 1, 161), Paused(), END]
    assert told(session, script(APPEND, str(tmp_path / "said")), events) == []
    said = [json.loads(line) for line in (tmp_path / "said").read_text().splitlines()]
    assert [message["event"] for message in said] == ["crossed", "cache-failed", "paused", "ended"]
    assert "over 1/alpha = 20" in said[0]["reason"]
    assert said[-1]["text"].startswith(f"night ({session.id}) stopped: enough; 8 of 12 problems, excess +100.0pp")
    numbers = {key: said[-1][key] for key in ("state", "exit_code", "problems", "registered", "pivots", "excess")}
    assert numbers == {
        "state": "stopped",
        "exit_code": 0,
        "problems": 8,
        "registered": 12,
        "pivots": 16,
        "excess": 1.0,
    }


def test_a_crossing_of_an_earlier_run_is_not_told_again(session: SessionFolder, tmp_path: Path) -> None:
    """A resumed session crosses once."""
    state = new_state(session.spec())
    for event in (opened(), *(event for index in range(8) for event in problem(index, -1))):
        fold(state, event)
    notifier = Notifier(script(APPEND, str(tmp_path / "said")), session, state)
    for event in (opened(), *problem(8, -1), END):
        fold(state, event)
        notifier.hear(event)
    notifier.close()
    assert [json.loads(line)["event"] for line in (tmp_path / "said").read_text().splitlines()] == ["ended"]


def test_without_eligible_pivots_the_rates_are_null(session: SessionFolder, tmp_path: Path) -> None:
    """Nothing that cannot be computed is sent as a number."""
    told(session, script(APPEND, str(tmp_path / "said")), [opened(), END])
    said = json.loads((tmp_path / "said").read_text())
    assert (said["refeed"], said["floor"], said["excess"], said["pivots"]) == (None, None, None, 0)


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("import sys; sys.stdin.read(); sys.exit(7)", "exit code 7"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "exit code -11"),
        ("import sys; sys.stdin.close()", ""),
    ],
)
def test_a_command_that_fails_is_complained_of(session: SessionFolder, source: str, complaint: str) -> None:
    """Its exit code is said; one that does not read its input is no failure."""
    (*found,) = told(session, script(source), [opened(), END])
    assert [complaint in one for one in found] == ([True] if complaint else [])


def test_a_program_that_vanished_is_complained_of(session: SessionFolder) -> None:
    """The notifier survives it."""
    (found,) = told(session, OnEvent(("/nowhere/program",)), [opened(), END])
    assert "cannot be run" in found


def test_a_command_that_hangs_is_killed_with_its_children(session: SessionFolder, tmp_path: Path) -> None:
    """Neither the command nor what it started outlives its time; hearing does not wait for that."""
    source = (
        "import subprocess, sys, time; p = subprocess.Popen(['sleep', '600']);"
        "open(sys.argv[1], 'w').write(str(p.pid)); time.sleep(600)"
    )
    state = new_state(session.spec())
    notifier = Notifier(script(source, str(tmp_path / "pid")), session, state, seconds=3.0)
    for event in (opened(), END):
        fold(state, event)
        notifier.hear(event)
    assert notifier.complaints() == [], "hearing waited for the command to be killed"
    notifier.close()
    assert any("took more than 3 s and was killed" in one for one in notifier.complaints())
    child = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}/stat").exists() and " Z " not in Path(f"/proc/{child}/stat").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_nothing_is_interpreted_by_a_shell(session: SessionFolder, tmp_path: Path) -> None:
    """Semicolons, substitutions and variables are arguments like any other."""
    victim = tmp_path / "victim"
    on_event = OnEvent.parse(
        f"{sys.executable} -c {shlex.quote(APPEND)} {tmp_path}/said ; touch {victim} $(touch {victim}) $HOME"
    )
    assert on_event.argv[4:] == (";", "touch", str(victim), "$(touch", f"{victim})", "$HOME")
    assert told(session, on_event, [opened(), END]) == []
    assert (tmp_path / "said").exists()
    assert not victim.exists()


@pytest.mark.parametrize(
    ("command", "says"), [("", "names no"), ("mail 'me", "cannot be split"), ("no-such-program x", "no program")]
)
def test_a_command_that_cannot_run_is_refused_before_the_launch(command: str, says: str) -> None:
    """A typing error is found now, not at the end of the night."""
    with pytest.raises(RefeedError, match=says) as caught:
        OnEvent.parse(command)
    assert caught.value.kind == "usage"


def test_a_command_is_kept_in_the_home_and_nowhere_else(session: SessionFolder, tmp_path: Path) -> None:
    """A resume finds it; a copy of the session elsewhere, or one that a stranger made, brings none along."""
    on_event = OnEvent.parse("true 'a b'")
    keep(session, on_event)
    assert kept(session) == on_event
    assert kept(SessionFolder(session.path)) == on_event
    (tmp_path / "link").symlink_to(tmp_path / "home")
    assert kept(SessionFolder(tmp_path / "link" / "sessions" / session.id)) == on_event, (
        "the same place by another name"
    )
    stranger = SessionFolder(tmp_path / "theirs" / "sessions" / session.id)
    (tmp_path / "theirs" / "on-event").mkdir(parents=True)
    (tmp_path / "theirs" / "on-event" / f"{session.id}.json").write_text('{"argv":["/bin/touch","/tmp/x"]}')
    assert kept(stranger) is None
    with pytest.raises(RefeedError, match="is outside"):
        keep(stranger, on_event)
    assert not any(b"a b" in path.read_bytes() for path in session.path.rglob("*") if path.is_file())
    keep(session, None)
    assert kept(session) is None


@pytest.mark.usefixtures("session")
def test_a_worker_tells_its_end_and_records_a_failed_telling(tmp_path: Path) -> None:
    """A real campaign, aborted by a signal, then resumed: both ends are told, failures are Notices."""
    folder = Store().create(register(registered(SMALL, problems=6)))
    source = f"{APPEND}; sys.exit(3)"
    keep(folder, script(source, str(tmp_path / "said")))
    launch(folder)
    deadline = time.monotonic() + 90
    while folder.summary().measured < 1:
        assert time.monotonic() < deadline, log_tail(folder)
        time.sleep(0.05)
    run = folder.run()
    assert run is not None
    os.kill(run.pid, signal.SIGTERM)
    while folder.live():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    launch(folder)
    while folder.live():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    said = [json.loads(line) for line in (tmp_path / "said").read_text().splitlines()]
    assert [(message["event"], message["state"]) for message in said] == [
        ("ended", "interrupted"),
        ("ended", "finished"),
    ]
    notices = [
        event
        for event in read(folder.journal_path, folder.registration().digest)
        if isinstance(event, Notice) and event.kind == "on-event"
    ]
    assert len(notices) == 2
    assert "exit code 3" in notices[0].text
    assert folder.state() == "finished"


def test_a_command_gets_no_tokens(session: SessionFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub's token stays with the worker; a cloud's key, with which the command may stop the machine, does not."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "github_token", "RUNPOD_API_KEY", "TOKENIZERS_PARALLELISM"):
        monkeypatch.setenv(name, "set")
    look = "import os, sys; open(sys.argv[1], 'w').write('\\n'.join(n for n in os.environ if os.environ[n] == 'set'))"
    assert told(session, script(look, str(tmp_path / "names")), [END]) == []
    assert set((tmp_path / "names").read_text().split()) == {"RUNPOD_API_KEY", "TOKENIZERS_PARALLELISM"}
