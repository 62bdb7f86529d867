"""A session on a shared disk whose worker is of another host: what can be known from here, and what cannot."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from sessions.disk.folder import RunInfo
from sessions.disk.requests import look
from sessions.store import FRESH_SECONDS
from tests.helpers.tui_journals import Script
from tests.helpers.tui_pilot import living, opened, screen_text, session_of
from tui.viewer.plain import PlainFollower
from tui.viewer.session import Worker

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot

FAR = "gpu-node-17"


def far(home: Path) -> Script:
    """A campaign in its third problem that a worker on another host measures."""
    script = Script(home, name="audit")
    script.begin()
    for problem in range(2):
        script.problem(problem, script.nets())
    script.trunks(2)
    run = RunInfo(pid=1, started=1, boot="another", host=FAR)
    run.write(script.folder.run_path)
    return script


def silent(script: Script) -> None:
    """Let its last event be older than what still passes for fresh."""
    then = time.time() - FRESH_SECONDS - 5
    os.utime(script.folder.journal_path, (then, then))


async def asked(pilot: Pilot[int], key: str) -> str:
    """Press a key and return what the screen says then."""
    await pilot.press(key)
    await pilot.pause(0.2)
    return screen_text(pilot.app)  # type: ignore[arg-type]


@pytest.mark.parametrize("lock_seen", [False, True])
async def test_a_worker_on_another_host_runs_and_can_be_asked(
    tmp_path: Path, lock_seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its host is named, and what is asked from here waits for it in the session's folder."""
    monkeypatch.setattr("engine.worker.supervisor.FAR_SECONDS", 0.3)
    script = far(tmp_path)
    if lock_seen:  # NFS passes flock on
        with living(script.folder):
            await runs_there(script)
    else:
        await runs_there(script)


async def runs_there(script: Script) -> None:
    """Watch it."""
    async with opened(script.folder) as (app, pilot):
        text = screen_text(app)
        parting = session_of(app).parting().words
        question = await asked(pilot, "A")
        await pilot.press("y")
        for _ in range(200):
            if look(script.folder.requests_path).requests:
                break
            await pilot.pause(0.05)
    assert "Abort" in question
    assert "RUNNING · on gpu-node-17" in text
    assert "leave (campaign goes on)" in text
    assert "P pause" in text
    assert "A abort" in text
    assert [command for _, command in look(script.folder.requests_path).requests] == ["abort"]
    assert f"abort {script.folder.id}" in parting


async def test_a_pause_over_there_is_ended_from_here(tmp_path: Path) -> None:
    """A request is a file, and the disk is shared."""
    script = far(tmp_path)
    script.pause()
    async with opened(script.folder) as (app, _):
        text = screen_text(app)
    assert "the machine stays held and billed" in text
    assert "P resume" in text


@pytest.mark.parametrize("paused", [False, True])
async def test_a_silent_worker_on_another_host_is_not_called_dead(tmp_path: Path, paused: bool) -> None:
    """A pause or a load of minutes looks like a death from here: nothing is claimed, and no resume is advised."""
    script = far(tmp_path)
    if paused:
        script.pause()
    silent(script)
    async with opened(script.folder) as (app, _):
        text = screen_text(app)
    told = " ".join(text.split())
    assert "NOT SEEN" in text
    assert f"silent on host {FAR}, or died there; `refeed-tui list` there says which" in told
    for claimed in ("INTERRUPTED", "worker died", "refeed-tui resume", "P pause", "P resume"):
        assert claimed not in text


async def test_whoever_leaves_after_it_fell_silent_is_told_the_same(tmp_path: Path) -> None:
    """The shell's last words do not call it dead either."""
    script = far(tmp_path)
    async with opened(script.folder) as (app, pilot):
        assert "RUNNING" in screen_text(app)
        silent(script)
        for _ in range(100):
            await pilot.pause(0.05)
            if not session_of(app).live:
                break
        last = session_of(app).parting().words
    assert "not seen any more" in last
    assert "died there; `refeed-tui list` there says which" in last
    assert "interrupted" not in last


def test_plain_lines_do_not_call_it_dead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`attach --plain` ends with exit code 1, as nothing more can be followed, and says what is known."""
    script = far(tmp_path)
    script.pause()
    silent(script)
    follower = PlainFollower(script.folder)
    assert follower.run() == 1
    follower.say_end()
    told = capsys.readouterr().err
    assert f"silent on host {FAR}, or died there" in told
    assert "interrupted" not in told


def test_a_host_of_a_strangers_run_file_is_one_safe_line(tmp_path: Path) -> None:
    """Whoever made the folder chose that name."""
    script = far(tmp_path)
    RunInfo(pid=1, started=1, boot="b", host="x\x1b]0;owned\x07" * 40).write(script.folder.run_path)
    found = Worker.of(script.folder)
    assert found.live
    assert found.host.isprintable()
    assert len(found.host) <= 40


def test_a_run_file_that_cannot_be_understood_does_not_hide_a_held_lock(tmp_path: Path) -> None:
    """The lock alone tells that a worker lives."""
    script = far(tmp_path)
    script.folder.run_path.write_text("{")
    with living(script.folder):
        assert Worker.of(script.folder) == Worker(live=True)
    assert Worker.of(script.folder) == Worker()
