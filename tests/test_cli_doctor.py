from __future__ import annotations

import json
import types
from typing import TYPE_CHECKING

import pytest

from tests.cli_sessions import campaign, write
from tui import cli, doctor, errors

if TYPE_CHECKING:
    from pathlib import Path


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
    assert doctor.interrupted().status == "ok"
    dead = write(campaign()[:-1])
    found = doctor.interrupted()
    assert found.status == "note"
    assert dead.id in found.detail


def test_a_long_runtime_folder_is_noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A socket's path may have 107 bytes."""
    folder = tmp_path / ("x" * 90)
    folder.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    assert doctor.sockets().status == "note"


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


@pytest.mark.parametrize(("version", "status"), [(None, "note"), ("0.22.1+cu129", "ok"), ("0.25.0", "note")])
def test_untested_versions_of_vllm_are_noted(version: str | None, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other versions may work; start-up decides."""
    monkeypatch.setattr(doctor, "_version", lambda _: version)
    assert doctor.vllm_engine().status == status
