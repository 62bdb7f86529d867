from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sessions.exchange.bundle import pack
from tests.helpers.cli_sessions import campaign, write
from tests.helpers.published import published_folder
from tui import cli, errors
from tui.commands.imports import parse_settings

REPO = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty home for every test."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path / "home"))


def run_json(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    """What a command prints as JSON."""
    assert cli.run([*args, "--json"]) == errors.DONE
    return json.loads(capsys.readouterr().out)


def imported(capsys: pytest.CaptureFixture[str], *names: str) -> None:
    """Import published runs under their own names."""
    for name in names:
        (made,) = run_json(capsys, "import", str(published_folder() / f"{name}.json"), "--name", name)["sessions"]
        assert made["name"] == name


def test_the_pooled_main_configuration_reports_the_papers_table_1(capsys: pytest.CaptureFixture[str]) -> None:
    """import, import, report --pool: 1,567 pivots, 636 eligible, 215 and 96, z = 8.61, t = 5.51 (paper, Table 1)."""
    imported(capsys, "primary", "screened")
    made = run_json(capsys, "report", "primary", "screened", "--pool")
    assert (made["pivots"], made["common"]["n"], made["exact1"]["n"]) == (1567, 636, 515)
    assert (made["common"]["refeed"]["disagree"], made["common"]["floor"]["disagree"]) == (215, 96)
    assert (made["common"]["refeed"]["reversals"], made["common"]["floor"]["reversals"]) == (25, 7)
    assert made["mcnemar"]["z"] == pytest.approx(8.6105, abs=1e-4)
    assert made["clustered"]["t"] == pytest.approx(5.513465911)
    assert made["pooled_excess"]["se"] == pytest.approx(0.0378994640)
    assert cli.run(["report", "primary", "screened", "--pool"]) == errors.DONE
    shown = capsys.readouterr().out
    assert "any pass not 0 re-feed 636     215   33.8% [28.1, 40.0]" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_runs_of_different_k_do_not_pool(capsys: pytest.CaptureFixture[str]) -> None:
    """Primary and k8 differ in K: exit 2, and the line names the field."""
    imported(capsys, "primary", "k8")
    assert cli.run(["report", "primary", "k8", "--pool"]) == errors.USAGE
    assert "k (4 and 8)" in capsys.readouterr().err


def test_nothing_seen_is_reported_as_a_bound(capsys: pytest.CaptureFixture[str]) -> None:
    """0 of 106 in the batch-invariant run is at most 25.9% of problems, not zero."""
    imported(capsys, "batchinv")
    assert cli.run(["report", "batchinv"]) == errors.DONE
    shown = " ".join(capsys.readouterr().out.split())
    assert "0 of 106 credit estimates (0.0%)" in shown
    assert "at most 25.9%" in shown


def test_an_imported_session_is_listed_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    """Its state is imported, and attach shows it and ends with 0."""
    imported(capsys, "smoke")
    (entry,) = run_json(capsys, "list")["sessions"]
    assert entry["state"] == "imported"
    assert entry["started"] is None
    assert cli.run(["attach", "smoke"]) == errors.DONE
    assert "imported from smoke.json" in capsys.readouterr().out


def test_a_published_file_names_its_session_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The stem is the name that a person expects; imported again, the name is taken, and that is said."""
    path = str(published_folder() / "smoke.json")
    (first,) = run_json(capsys, "import", path)["sessions"]
    assert first["name"] == "smoke"
    assert cli.run(["import", path, "--json"]) == errors.DONE
    said = capsys.readouterr()
    (second,) = json.loads(said.out)["sessions"]
    assert second["name"] is None
    taken = f"the name 'smoke' is taken by session {first['id']}"
    assert said.err == f"refeed-tui: session {second['id']} has no name: {taken}; `--name` gives one\n"


def test_a_bundle_whose_name_is_taken_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It keeps the name that its session had elsewhere, which then finds two."""
    here = write(campaign(), name="night")
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path / "elsewhere"))
    there = write(campaign(), name="night")
    bundle = pack(there, tmp_path / "night.zip")
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path / "home"))
    assert cli.run(["import", str(bundle)]) == errors.DONE
    said = capsys.readouterr().err
    assert "'night' fits 2 sessions: " in said
    assert here.id in said
    assert there.id in said
    assert said.endswith("; name one by id\n")


def test_a_name_that_is_taken_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Two sessions of one name could not be told apart by it."""
    imported(capsys, "smoke")
    path = str(published_folder() / "smoke.json")
    assert cli.run(["import", path, "--name", "smoke"]) == errors.USAGE
    assert "is taken by session" in capsys.readouterr().err
    assert cli.run(["import", path, "--name", "again"]) == errors.DONE
    assert " as again " in capsys.readouterr().out


def test_one_name_for_several_files_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """--name cannot name two sessions."""
    assert cli.run(["import", "a.json", "b.json", "--name", "x"]) == errors.USAGE
    assert "2 files" in capsys.readouterr().err


@pytest.mark.parametrize(("content", "said"), [(None, "not there"), ("{", "bad.json"), ('{"pivots": 3}', "bad.json")])
def test_a_bad_file_exits_2_and_is_named(
    content: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is no published file makes no session."""
    path = tmp_path / "bad.json"
    if content is not None:
        path.write_text(content)
    assert cli.run(["import", str(path)]) == errors.USAGE
    assert said in capsys.readouterr().err
    assert run_json(capsys, "list")["sessions"] == []


def test_settings_are_toml_values_and_bare_words() -> None:
    """--set reads numbers and booleans as such, and anything else as text."""
    given = ("block_size=32", "batch_invariant=true", "model=org/name", 'prompt="a = b"')
    assert parse_settings(given) == {"block_size": 32, "batch_invariant": True, "model": "org/name", "prompt": "a = b"}


def test_settings_without_a_field_are_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    """--set needs FIELD=VALUE."""
    assert cli.run(["import", "x.json", "--set", "block_size"]) == errors.USAGE
    assert "FIELD=VALUE" in capsys.readouterr().err


def test_the_pooled_report_never_imports_scipy_stats(capsys: pytest.CaptureFixture[str]) -> None:
    """Importing scipy.stats costs most of a second; what the report costs is in benchmarks/."""
    imported(capsys, "primary", "screened")
    code = (
        "import sys\nfrom tui.cli import run\n"
        "code = run(['report', 'primary', 'screened', '--pool'])\n"
        "print(code, 'scipy.stats' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1].split() == ["0", "False"]


def test_an_import_survives_the_loss_of_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A session holds all it needs."""
    copy = shutil.copy(published_folder() / "smoke.json", tmp_path / "copy.json")
    assert cli.run(["import", str(copy), "--name", "kept"]) == errors.DONE
    Path(copy).unlink()
    capsys.readouterr()
    assert run_json(capsys, "report", "kept")["pivots"] > 0
