from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from sessions.spec import from_fields
from sessions.store import SessionFolder, Store
from tests.helpers.cli_sessions import REPO, worker_home
from tests.helpers.embedded_checkpoints import QWEN2, write_checkpoint
from tui import cli, errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHORT_PROBLEMS = ["--rollouts", "2", "--k", "2", "--max-cont-tokens", "64"]
CLOCKED = re.compile(r"^\[(\d+):(\d\d)\] ", flags=re.MULTILINE)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random checkpoint; hot and with a wide margin it has pivots."""
    return write_checkpoint(tmp_path_factory.mktemp("model"), QWEN2)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home for every test; whatever still runs in it at the end is killed."""
    yield from worker_home(tmp_path, monkeypatch)


@pytest.fixture
def settings(model: Path) -> list[str]:
    """Flags of a campaign that takes seconds."""
    return ["smoke", "--model", str(model), "--temperature", "3", "--margin", "40"]


@pytest.fixture
def long_settings(settings: list[str]) -> list[str]:
    """Flags of a campaign that takes longer than any test waits."""
    return [*settings, "--problems", "200", "--rollouts", "8", "--k", "8", "--max-cont-tokens", "300", "--wave", "1"]


def command(*args: str) -> list[str]:
    """The command line of a process of its own."""
    return [sys.executable, "-c", "from tui.cli import main; main()", *args]


def process(*args: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, to its end."""
    return subprocess.run(command(*args), cwd=REPO, capture_output=True, text=True, timeout=120, check=False)


def run_json(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    """What a command prints as JSON."""
    assert cli.run([*args, "--json"]) == errors.DONE
    return json.loads(capsys.readouterr().out)


def session(name: str) -> SessionFolder:
    """A session of this test's home."""
    return Store().find(name)


def wait_for_problem(folder: SessionFolder, measured: int = 1) -> None:
    """Wait until so many problems are measured."""
    deadline = time.monotonic() + 60
    while folder.summary().measured < measured:
        assert time.monotonic() < deadline, folder.log_path.read_text()
        time.sleep(0.1)


def test_a_dry_run_prints_a_spec_that_registers_the_same_campaign(
    settings: list[str], home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The printed TOML has every field resolved, reads back, and has the same digest; nothing is created."""
    made = run_json(capsys, "launch", *settings, "--dry-run", "--price-per-hour", "2")
    assert (made["spec"]["engine"], made["spec"]["numerics"], made["spec"]["cont_temperature"]) == (
        "embedded",
        "split",
        3,
    )
    assert len(made["digest"]) == 64
    assert made["missing"] == []
    assert made["estimate"]["most_tokens"] >= made["estimate"]["likely_tokens"] > 0
    assert made["estimate"]["cost"] == pytest.approx(made["estimate"]["seconds"] * 2 / 3600)
    assert cli.run(["launch", *settings, "--dry-run"]) == errors.DONE
    printed = capsys.readouterr().out
    assert f"# digest: {made['digest']}" in printed
    assert "# tokens: about" in printed
    assert "# time: under a minute at an assumed" in printed
    path = tmp_path / "spec.toml"
    path.write_text(printed)
    assert from_fields(dict(tomllib.loads(printed))).task_digest == made["spec"]["task_digest"]
    assert run_json(capsys, "launch", str(path), "--dry-run")["digest"] == made["digest"]
    assert not (home / "sessions").exists()


def test_a_dry_run_needs_neither_the_engine_nor_the_tasks_data(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a paper preset would cost can be asked on a laptop; what is missing is said, the digest provisional."""
    monkeypatch.setattr("engine.registration._installed", lambda module: module != "vllm")
    made = run_json(capsys, "launch", "paper-main", "--dry-run", "--price-per-hour", "2")
    assert (made["spec"]["engine"], made["spec"]["task"], made["spec"]["wave"]) == ("vllm", "gsm8k", 1)
    assert any("pip install '.[vllm]'" in lack for lack in made["missing"])
    assert made["estimate"]["cost"] > 0
    assert cli.run(["launch", "paper-main", "--dry-run"]) == errors.DONE
    assert f"{made['digest']} (provisional)" in capsys.readouterr().out
    assert cli.run(["launch", "paper-main", "--detach"]) == errors.FAILED
    assert Store().folders() == ()


def test_a_pinned_model_that_changed_is_a_spec_error(
    settings: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A spec file that names a digest is a promise about the bytes."""
    assert cli.run(["launch", *settings, "--dry-run"]) == errors.DONE
    path = tmp_path / "spec.toml"
    path.write_text(re.sub(r'model_digest = "\w+"', f'model_digest = "{"0" * 64}"', capsys.readouterr().out))
    assert cli.run(["launch", str(path), "--dry-run"]) == errors.USAGE
    assert "`model_digest`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--k", "0"], "`k`"),
        (["--k", "four"], "--k"),
        (["--max-cost", "3"], "`max_cost`"),
        (["--task", "chess"], "chess"),
        (["--task", "jsonl:/nowhere.jsonl"], "/nowhere.jsonl"),
        (["--decision", "0.5,0.1"], "`decision`"),
        (["--json"], "--detach"),
        (["--name", "a/b"], "a/b"),
    ],
)
def test_bad_specs_exit_2_and_start_nothing(
    flags: list[str], named: str, settings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that names the field and its value, before any work."""
    assert cli.run(["launch", *settings, *flags]) == errors.USAGE
    err = capsys.readouterr().err
    assert named in err
    assert err.count("\n") == 1
    assert Store().folders() == ()


def test_plain_prints_progress_then_the_report_and_the_campaigns_exit_code(settings: list[str]) -> None:
    """Off a terminal, launch follows the journal to its end; one line a problem, then Table 1."""
    done = process("launch", *settings, "--name", "plain")
    assert (done.returncode, done.stderr) == (errors.DONE, "")
    lines = done.stdout.splitlines()
    assert sum(" closed: " in line for line in lines) == 2
    assert any("Table 1" in line for line in lines)
    assert "checked pivots verified, 100.0%" in done.stdout
    clocks = [60 * int(minutes) + int(seconds) for minutes, seconds in CLOCKED.findall(done.stdout)]
    assert clocks == sorted(clocks)
    assert session("plain").state() == "finished"


def test_detach_prints_the_id_alone_and_returns(settings: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A script gets the id; attach follows it to its end."""
    done = process("launch", *settings, "--detach")
    assert (done.returncode, done.stderr) == (errors.DONE, "")
    identifier = done.stdout.strip()
    assert session(identifier).id == identifier
    assert cli.run(["attach", identifier]) == errors.DONE
    assert "Table 1" in capsys.readouterr().out


def test_detach_json_says_where_the_session_is(settings: list[str]) -> None:
    """`launch --detach --json` is JSON only."""
    made = json.loads(process("launch", *settings, "--detach", "--name", "night", "--json").stdout)
    folder = session("night")
    assert made == {
        "id": folder.id,
        "name": "night",
        "folder": str(folder.path),
        "digest": folder.registration().digest,
    }
    assert cli.run(["attach", "night"]) == errors.DONE


def test_an_engine_that_cannot_start_fails_the_campaign(settings: list[str], model: Path, tmp_path: Path) -> None:
    """A checkpoint that cannot be run ends the session as failed, exit 1, with the cause in words."""
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in model.iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    (broken / "config.json").write_text('{"architectures": ["MambaForCausalLM"]}')
    done = process("launch", *settings, "--model", str(broken), "--name", "broken")
    assert done.returncode == errors.FAILED
    assert "Mamba" in done.stderr
    assert done.stderr.count("\n") == 1
    assert session("broken").state() == "failed"


def test_ctrl_c_detaches_and_the_campaign_goes_on(long_settings: list[str]) -> None:
    """The first interrupt says how to come back and how to abort; abort then ends it with the worker gone."""
    viewer = subprocess.Popen(
        command("launch", *long_settings, "--name", "going"), cwd=REPO, stdout=subprocess.PIPE, text=True
    )
    assert viewer.stdout is not None
    assert any("engine ready" in line for line in viewer.stdout)
    viewer.send_signal(signal.SIGINT)
    out, _ = viewer.communicate(timeout=30)
    assert viewer.returncode == 130
    folder = session("going")
    assert f"refeed-tui attach {folder.id}" in out
    assert f"refeed-tui abort {folder.id}" in out
    assert folder.live()
    done = process("abort", "going")
    assert (done.returncode, done.stderr) == (0, "")
    run = folder.run()
    assert run is not None
    assert not run.alive(), "its memory is free for the next campaign"
    assert not folder.live()
    assert folder.state() == "aborted"


def test_pause_and_resume_hold_and_continue_a_campaign(long_settings: list[str]) -> None:
    """Pause takes effect at the next problem; resume takes it back; both need a running worker."""
    assert process("launch", *long_settings, *SHORT_PROBLEMS, "--detach", "--name", "held").returncode == errors.DONE
    folder = session("held")
    wait_for_problem(folder)
    assert cli.run(["pause", "held"]) == errors.DONE
    deadline = time.monotonic() + 60
    while folder.state() != "paused":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    measured = folder.summary().measured
    assert cli.run(["resume", "held"]) == errors.DONE
    wait_for_problem(folder, measured + 1)
    assert cli.run(["abort", "held"]) == errors.DONE


def test_a_killed_worker_is_interrupted_and_resume_continues_it(
    settings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Kill -9 loses the open problem alone; resume measures the rest."""
    args = [*settings, "--problems", "4", "--max-cont-tokens", "120", "--wave", "1"]
    assert process("launch", *args, "--detach", "--name", "shot").returncode == errors.DONE
    folder = session("shot")
    wait_for_problem(folder)
    run = folder.run()
    assert run is not None
    os.kill(run.pid, signal.SIGKILL)
    assert cli.run(["attach", "shot"]) == errors.FAILED
    assert "was interrupted" in capsys.readouterr().err
    assert folder.state() == "interrupted"
    done = process("resume", "shot", "--plain")
    assert (done.returncode, done.stderr) == (errors.DONE, "")
    assert "run 2 continued" in done.stdout
    assert folder.summary().measured == 4
    assert cli.run(["verify", "shot"]) == errors.DONE


def test_control_of_what_does_not_run_says_so(settings: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Abort and pause need a worker (exit 3); a finished session has nothing to resume (exit 2)."""
    assert process("launch", *settings, "--name", "over").returncode == errors.DONE
    for what in ("abort", "pause"):
        assert cli.run([what, "over"]) == errors.NO_SESSION
        assert "not running" in capsys.readouterr().err
    assert cli.run(["resume", "over"]) == errors.USAGE
    assert "finished" in capsys.readouterr().err


def test_the_launcher_and_the_plain_viewer_never_load_torch_or_textual(settings: list[str]) -> None:
    """Torch belongs to the worker, textual to the dashboard."""
    code = (
        "import sys\nfrom tui.cli import run\n"
        f"codes = [run(['launch', *{settings!r}, '--dry-run']), run(['launch', *{settings!r}, '--plain'])]\n"
        "print(codes, sorted({'torch', 'textual', 'transformers', 'vllm'} & set(sys.modules)))\n"
    )
    command_line = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command_line, cwd=REPO, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines()[-1] == "[0, 0] []"
