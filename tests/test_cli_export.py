from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import pytest

from sessions.export import FORMATS
from tests.cli_sessions import campaign, write
from tui import cli, errors

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty home and working folder for every test."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def test_export_writes_files_and_names_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row a pivot, in a folder of the session's id unless --out says another."""
    folder = write(campaign())
    assert cli.run(["export", folder.id, "--format", "csv"]) == errors.DONE
    named = capsys.readouterr().out.splitlines()
    pivots = next(path for path in (tmp_path / folder.id).iterdir() if "pivots" in path.name)
    assert f"{folder.id}/{pivots.name}" in named
    with pivots.open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 9


def test_every_format_exports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All formats that help names are there, several at once, and JSON lists the files."""
    folder = write(campaign(), name="night")
    args = ["export", "night", "--format", ",".join(FORMATS), "--out", str(tmp_path / "out"), "--json"]
    assert cli.run(args) == errors.DONE
    made = json.loads(capsys.readouterr().out)
    assert made["session"] == folder.id
    assert len(made["files"]) >= len(FORMATS)
    assert cli.run(["export", "--help"]) == errors.DONE
    shown = capsys.readouterr().out
    assert all(name in shown for name in FORMATS)


@pytest.mark.parametrize("formats", ["xlsx", "csv,xlsx", ","])
def test_an_unknown_format_exits_2(formats: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The line says which formats there are, and nothing is written."""
    folder = write(campaign())
    assert cli.run(["export", folder.id, "--format", formats]) == errors.USAGE
    assert "format" in capsys.readouterr().err
