"""A worker whose disk fills up, or whose folder cannot be written: a plain message, nothing lost, and resume works."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.worker.supervisor import launch, log_tail, send
from sessions.disk.folder import RunInfo
from sessions.disk.journal import verify
from sessions.disk.requests import look
from sessions.errors import RefeedError
from sessions.events import Ended, Opened, ProblemClosed
from sessions.spec import register
from sessions.store import SessionFolder, Store
from tests.helpers.campaigns import SMALL, registered
from tests.helpers.workers import events_of, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 90.0
REPO = Path(__file__).parents[1]
NOBODY = 65534


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    home = tmp_path / "home"
    home.mkdir()
    return home


def mount(*arguments: str, program: str = "mount") -> subprocess.CompletedProcess[str]:
    """Mount something, or unmount it."""
    found = shutil.which(program)
    return subprocess.run([found or program, *arguments], check=False, capture_output=True, text=True)


@pytest.fixture
def small_disk(home: Path) -> Iterator[Path]:
    """The home on a disk of 1 MiB."""
    done = mount("-t", "tmpfs", "-o", "size=1m", "none", str(home))
    if done.returncode != 0:
        pytest.skip(f"needs the right to mount a tmpfs: {done.stderr.strip()}")
    yield home
    for folder in Store(home).folders():
        kill(folder)
    assert mount("--lazy", str(home), program="umount").returncode == 0


def kill(session: SessionFolder) -> None:
    """Kill a worker that a test left behind."""
    run = session.run()
    if session.live() and run is not None:
        os.kill(run.pid, signal.SIGKILL)


def wait_for_end(session: SessionFolder) -> None:
    """Wait until its worker is gone."""
    wait_for(lambda: not session.live(), session, PATIENCE)


def finish(session: SessionFolder, kept: bytes, problems: int) -> None:
    """Resume to the end: what was recorded stands byte for byte, and each problem closed once."""
    launch(session)
    wait_for_end(session)
    assert session.state() == "finished", log_tail(session)
    assert session.journal_path.read_bytes().startswith(kept)
    closed = [event.problem for event in events_of(session) if isinstance(event, ProblemClosed)]
    assert closed == list(range(problems))


def fill(folder: Path) -> Path:
    """Take what is left of a disk."""
    path = folder / "ballast"
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1 << 8, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return path


def test_a_full_disk_ends_the_campaign_with_a_plain_message(small_disk: Path) -> None:
    """The end is recorded with its cause and what to do; once there is space again, resume finishes the campaign."""
    session = Store(small_disk).create(register(registered(SMALL, problems=3, wave=1)))
    launch(session)
    wait_for(lambda: session.summary().measured >= 1, session, PATIENCE)
    before = session.journal_path.read_bytes()
    ballast = fill(small_disk)
    wait_for_end(session)
    ended = events_of(session)[-1]
    assert isinstance(ended, Ended), log_tail(session)
    assert ended.state == "failed"
    assert "No space left on device; free some space, then `refeed-tui resume`" in ended.reason
    assert session.state() == "failed"
    assert verify(session.journal_path, session.registration().digest).torn == 0
    kept = session.journal_path.read_bytes()
    assert kept.startswith(before[: before.rindex(b"\n") + 1])
    fill(small_disk)
    with pytest.raises(RefeedError, match="No space left"):
        launch(session)
    assert session.journal_path.read_bytes() == kept
    ballast.unlink()
    finish(session, kept, 3)


def test_an_end_that_cannot_be_recorded_is_in_the_log(home: Path) -> None:
    """At the file size limit not even the end fits: the log says why, no closed problem is lost, resume works."""
    session = Store(home).create(register(registered(SMALL, problems=3, wave=1)))
    launch(session)
    wait_for(lambda: session.summary().measured >= 1, session, PATIENCE)
    run = session.run()
    assert run is not None
    before = session.journal_path.read_bytes()
    size = len(before)
    resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (size + 100, size + 100))
    wait_for_end(session)
    assert session.state() == "interrupted"
    assert "the end of this run could not be recorded: cannot append to" in log_tail(session, 1)
    assert "File too large; the file size limit (`ulimit -f`) was reached" in log_tail(session, 1)
    assert verify(session.journal_path, session.registration().digest).torn == 0
    kept = session.journal_path.read_bytes()
    assert kept.startswith(before[: before.rindex(b"\n") + 1])
    finish(session, kept, 3)


# Rights are dropped once all is imported: the interpreter itself may lie where only root may read.
LAUNCH_AS_NOBODY = f"""
import os, sys
from pathlib import Path
from engine.worker.supervisor import launch
from sessions.errors import RefeedError
from sessions.store import SessionFolder

session = SessionFolder(Path(sys.argv[1]))
if os.getuid() == 0:
    os.setgroups([])
    os.setgid({NOBODY})
    os.setuid({NOBODY})
try:
    launch(session)
except RefeedError as error:
    print(error)
"""


def test_a_folder_that_may_not_be_written_is_said_by_launch() -> None:
    """Permissions: the cause comes at once, and nothing is left behind."""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders admit no other user
        session = Store(Path(folder)).create(register(registered(SMALL)))
        there = [Path(folder), *sorted(Path(folder).rglob("*"))]
        if os.getuid() == 0:
            for path in there:
                os.chown(path, NOBODY, NOBODY)
        session.path.chmod(0o500)
        command = [sys.executable, "-c", LAUNCH_AS_NOBODY, str(session.path)]
        said = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert said.stdout.startswith(f"cannot open {session.log_path}: Permission denied; check the owner"), said
        assert [Path(folder), *sorted(Path(folder).rglob("*"))] == there


def test_a_read_only_file_system_is_said_by_launch_and_can_be_read(small_disk: Path) -> None:
    """A finished campaign on a read-only volume is listed and reported; resuming one says why it cannot."""
    session = Store(small_disk).create(register(registered(SMALL, problems=2, wave=1)))
    launch(session)
    wait_for(lambda: session.summary().measured >= 1, session, PATIENCE)
    send(session, "abort")
    wait_for_end(session)
    # Busy until the worker is gone.
    wait_for(lambda: mount("-o", "remount,ro", str(small_disk)).returncode == 0, session, PATIENCE)
    again = SessionFolder(session.path)
    assert again.state() == "aborted"
    assert again.summary().measured >= 1
    with pytest.raises(RefeedError, match="Read-only file system; the file system is read-only"):
        launch(again)
    assert mount("-o", "remount,rw", str(small_disk)).returncode == 0
    finish(session, session.journal_path.read_bytes(), 2)


def test_a_session_that_runs_on_another_host_is_left_alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the lock of another host is not seen, its fresh writing is; after an old one the session is continued."""
    session = Store(home).create(register(registered(SMALL, problems=1)))
    launch(session)
    wait_for_end(session)
    whole = session.journal_path.read_bytes()
    session.journal_path.write_bytes(whole[: whole.rindex(b'{"event":"problem-closed"')])
    session.summary_path.unlink()
    RunInfo(pid=1, started=1, boot="x", host="other\x1b[2J").write(session.run_path)
    with pytest.raises(RefeedError, match=r"running on host other\\x1b\[2J: it wrote moments ago") as caught:
        launch(session)
    assert caught.value.kind == "session"
    monkeypatch.setattr("engine.worker.supervisor.FAR_SECONDS", 0.3)
    with pytest.raises(RefeedError, match=r"has not answered: .* is on host other\\x1b\[2J") as caught:
        send(session, "abort")
    assert caught.value.kind == "failed"
    assert [command for _, command in look(session.requests_path).requests] == ["abort"]
    assert session.state() == "running"
    an_hour_ago = time.time() - 3600
    os.utime(session.journal_path, (an_hour_ago, an_hour_ago))
    assert session.state() == "interrupted"
    launch(session)
    wait_for_end(session)
    assert session.state() == "finished"
    assert sum(isinstance(event, Opened) for event in events_of(session)) == 2
