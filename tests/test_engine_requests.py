"""Requests to a worker as files: obeyed and removed, kept where nobody answers, and nothing but a request obeyed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from engine.protocol.control import Control, StopRequest
from engine.worker.supervisor import launch, send
from engine.worker.watchdog import Watchdog
from sessions.disk.folder import RunInfo, process_state
from sessions.disk.requests import ask, clear, look
from sessions.errors import RefeedError
from sessions.events import Ended, Notice
from sessions.spec import register
from sessions.store import Store
from tests.helpers.campaigns import SMALL, registered
from tests.helpers.cli_sessions import worker_home
from tests.helpers.workers import events_of, wait_for
from tui import cli, errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sessions.store import SessionFolder

PATIENCE = 90.0


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home; workers that a test leaves behind are killed."""
    yield from worker_home(tmp_path, monkeypatch)


@pytest.fixture
def session() -> SessionFolder:
    """A long campaign with a worker."""
    session = Store().create(register(registered(SMALL, problems=40, rollouts=4, k=4)))
    launch(session)
    return session


def pid_of(session: SessionFolder) -> int:
    """The worker's process id."""
    run = session.run()
    assert run is not None
    return run.pid


def notices(session: SessionFolder) -> list[str]:
    """What its journal says of requests."""
    return [event.text for event in events_of(session) if isinstance(event, Notice) and event.kind == "request"]


def test_requests_are_read_in_the_order_in_which_they_were_asked(tmp_path: Path) -> None:
    """The number decides, also beyond four digits; a file in the making does not count."""
    folder = tmp_path / "requests"
    assert look(folder).requests == ()
    names = [ask(folder, command).name for command in ("pause", "resume", "abort")]
    assert names == ["0001-pause.json", "0002-resume.json", "0003-abort.json"]
    (folder / "10000-pause.json").touch()
    (folder / ".0004-abort.json.1234").touch()
    assert [command for _, command in look(folder).requests] == ["pause", "resume", "abort", "pause"]
    assert look(folder).strange == ()
    assert clear(folder) == (*names, "10000-pause.json")
    assert look(folder).requests == ()


def test_what_is_no_request_is_not_obeyed(tmp_path: Path) -> None:
    """Other names, links, pipes and folders of a stranger; a requests folder that is a link elsewhere is refused."""
    folder = tmp_path / "requests"
    folder.mkdir()
    (folder / "0001-delete.json").touch()
    (folder / "abort").touch()
    (folder / "0002-abort.json").symlink_to(tmp_path / "x")
    os.mkfifo(folder / "0003-abort.json")
    (folder / "0004-abort.json").mkdir()
    (folder / "0005-abort.json\x1b[2J").touch()
    found = look(folder)
    assert found.requests == ()
    assert len(found.strange) == 6
    assert all(name.isprintable() for name in found.strange)
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(RefeedError, match="not a plain folder"):
        look(tmp_path / "link")


def test_a_request_that_cannot_be_removed_is_obeyed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause that stays must not undo every resume that follows it."""

    def refuse(folder: Path, name: str) -> None:
        raise RefeedError("failed", f"cannot remove {folder / name}: Read-only file system")

    control, told = Control(), list[str]()
    dog = Watchdog(control, tmp_path / "requests", lambda _: None)
    dog.say = told.append
    ask(tmp_path / "requests", "pause")
    monkeypatch.setattr("sessions.disk.requests.remove", refuse)
    with dog.running():
        wait_until(lambda: control.pause_requested and bool(told))
        control.resume()
        time.sleep(0.5)
        assert not control.pause_requested
    assert len(told) == 1


def wait_until(what: object) -> None:
    """Wait until something holds."""
    assert callable(what)
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_strange_files_are_noted_once_and_the_worker_obeys_what_comes_after(session: SessionFolder) -> None:
    """A person who looks for the reason finds it in the journal."""
    session.requests_path.mkdir(exist_ok=True)
    (session.requests_path / "0007-stop.json").touch()
    wait_for(lambda: notices(session) != [], session, PATIENCE)
    send(session, "abort")
    wait_for(lambda: not session.live(), session, PATIENCE)
    assert session.state() == "aborted"
    assert notices(session) == ["requests/0007-stop.json is no request and is ignored"]
    assert look(session.requests_path).requests == ()


def test_a_stopped_worker_is_said_to_be_stopped_and_obeys_when_it_goes_on(
    session: SessionFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """The request stays; exit code 1, for the session does run here."""
    os.kill(pid_of(session), signal.SIGSTOP)
    wait_for(lambda: process_state(session.run()) == "stopped", session, PATIENCE)
    assert cli.run(["abort", session.id]) == errors.FAILED
    said = capsys.readouterr().err
    assert "asked; it has not answered" in said
    assert "is stopped" in said
    assert [command for _, command in look(session.requests_path).requests] == ["abort"]
    os.kill(pid_of(session), signal.SIGCONT)
    wait_for(lambda: not session.live(), session, PATIENCE)
    assert session.state() == "aborted"


def test_a_request_that_a_dead_worker_left_is_not_obeyed_by_the_next_one(session: SessionFolder) -> None:
    """Whoever continues a session wants it to go on; what was asked before is told."""
    os.kill(pid_of(session), signal.SIGKILL)
    wait_for(lambda: not session.live(), session, PATIENCE)
    path = ask(session.requests_path, "abort")
    launch(session)
    assert not path.exists()
    wait_for(lambda: notices(session) != [], session, PATIENCE)
    assert path.name in notices(session)[0]
    closed = session.summary().measured
    wait_for(lambda: session.summary().measured > closed, session, PATIENCE)
    send(session, "abort")
    wait_for(lambda: not session.live(), session, PATIENCE)


def test_what_a_process_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Running, stopped by a signal, gone, on another host, and never there."""
    assert process_state(None) == "unknown"
    here = RunInfo.here("0")
    assert process_state(here) == "running"
    assert process_state(RunInfo(pid=1, started=1, boot=here.boot, host="far")) == "elsewhere"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        monkeypatch.setattr(os, "getpid", lambda: child.pid)
        run = RunInfo.here("0")
        monkeypatch.undo()
        child.send_signal(signal.SIGSTOP)
        wait_until(lambda: process_state(run) == "stopped")
        child.send_signal(signal.SIGCONT)
        wait_until(lambda: process_state(run) == "running")
        child.kill()
        child.wait()
    assert process_state(run) == "gone"


# A real worker whose chat template never returns: no engine step ends, and no check of ours is reached.
SHORT_GRACE = """
import sys
from engine.worker import watchdog
watchdog.GRACE = 1.0
from engine.worker import __main__ as worker
from engine.backends.embedded.backend import EmbeddedBackend
def spin(*_):
    while True:
        sum(range(1000))
EmbeddedBackend.encode_chat = spin
sys.exit(worker.main(sys.argv[1:]))
"""


def hung(session: SessionFolder) -> subprocess.Popen[bytes]:
    """Start a worker that hangs once its engine is ready."""
    with session.log_path.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-c", SHORT_GRACE, str(session.path)], stderr=log, start_new_session=True
        )


@pytest.mark.parametrize("by", ["limit", "abort", "signal"])
def test_a_step_that_never_returns_is_left_with_its_end_recorded(by: str, tmp_path: Path) -> None:
    """Time limit, abort and signal each end a worker that hangs, and the command of its events hears of it."""
    from sessions.disk.hooks import OnEvent, keep  # noqa: PLC0415 - this test only

    limit = {"max_hours": 2e-3} if by == "limit" else {}
    session = Store().create(register(registered(SMALL, problems=2, **limit)))
    code = "import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())"
    keep(session, OnEvent.parse(f'{sys.executable} -c "{code}" {tmp_path / "told"}'))
    process = hung(session)
    try:
        ready = "engine-ready"
        wait_for(lambda: session.journal_path.exists() and ready in session.journal_path.read_text(), session, PATIENCE)
        if by == "abort":
            send(session, "abort")
        elif by == "signal":
            process.send_signal(signal.SIGTERM)
        code_wanted = {"limit": 0, "abort": 1, "signal": 143}[by]
        assert process.wait(PATIENCE) == code_wanted
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()
    end = events_of(session)[-1]
    assert isinstance(end, Ended)
    assert (end.state, end.exit_code) == (
        {"limit": "stopped", "abort": "aborted", "signal": "interrupted"}[by],
        code_wanted,
    )
    assert not session.live()
    assert f'"state":"{end.state}"' in (tmp_path / "told").read_text()


def test_a_thread_that_hangs_where_no_python_runs_hears_a_signal(tmp_path: Path) -> None:
    """A handler of Python's waits for the main thread; the watchdog does not."""
    code = (
        "import ctypes, os, sys, signal; from pathlib import Path\n"
        "from engine.worker import watchdog\nfrom engine.worker.__main__ import catch_signals\n"
        "from engine.protocol.control import Control\nwatchdog.GRACE = 0.5\ncontrol = Control()\n"
        "catch_signals(control)\n"
        "with watchdog.Watchdog(control, Path(sys.argv[1]), lambda asked: os._exit(asked.exit_code)).running():\n"
        "    lock = ctypes.create_string_buffer(64); libc = ctypes.CDLL(None)\n"
        "    libc.pthread_mutex_lock(lock); print('up', flush=True); libc.pthread_mutex_lock(lock)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "requests")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 143


def test_a_stop_that_is_heeded_in_time_leaves_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading has a short grace, unless processes would be left behind; an engine that does not close is left."""
    monkeypatch.setattr("engine.worker.watchdog.LOADING_GRACE", 0.2)
    left: list[StopRequest] = []

    def watch(*, stop: bool, guarded: bool = True, closing: float | None = None) -> list[StopRequest]:
        left.clear()
        control = Control()
        dog = Watchdog(control, tmp_path / "requests", left.append)
        if not guarded:
            dog.unguarded()
        if stop:
            control.stop("enough", "aborted", 1)
        if closing is not None:
            dog.close_within(closing)
        with dog.running(), dog.loading():
            time.sleep(1.0)
        return left

    assert watch(stop=False) == []
    assert watch(stop=True, guarded=False) == []
    assert [asked.reason for asked in watch(stop=True)] == ["enough"]
    assert [asked.state for asked in watch(stop=False, closing=0.2)] == ["failed"]
    assert [asked.state for asked in watch(stop=True, closing=60.0)] == []
