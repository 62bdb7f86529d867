from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from sessions.errors import RefeedError
from sessions.presets import PRESETS
from sessions.spec import CampaignSpec
from tui import cli, errors

if TYPE_CHECKING:
    from sessions.errors import Kind

REPO = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home for every test."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let `refeed-tui paths` end with an error."""

    def fail() -> None:
        raise error

    module = pytest.importorskip("tui.commands.paths")
    monkeypatch.setattr(module, "command", click.Command("paths", callback=fail))


def process(*args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "tui.cli", *args],
        cwd=REPO,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run a piece of Python in a process of its own."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=60, check=True)


@pytest.mark.parametrize("args", [[], ["--help"], ["-h"]])
def test_help_lists_every_subcommand(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Help names each registered subcommand with its line, and exits 0."""
    assert cli.run(args) == errors.DONE
    shown = capsys.readouterr().out
    for name in cli.COMMANDS:
        assert f"\n  {name} " in shown


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_subcommand_has_help_with_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each subcommand explains itself and shows how it is typed."""
    assert cli.run([name, "--help"]) == errors.DONE
    shown = capsys.readouterr().out
    assert "Examples:" in shown
    assert f"refeed-tui {name}" in shown
    assert all(len(line) <= 100 for line in shown.splitlines())


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["presetz"], "did you mean `presets`?"),
        (["zzzzzz"], "`refeed-tui --help` lists them"),
        (["list", "--bogus"], "'--bogus'"),
        (["verify"], "'SESSION'"),
        (["presets", "extra"], "extra"),
    ],
)
def test_usage_errors_are_one_line_and_exit_2(args: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped command says what was wrong and what to do, on one line of stderr."""
    assert cli.run(args) == errors.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def test_no_such_session_exits_3(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown session is named, on one line, without a traceback file."""
    assert cli.run(["verify", "nowhere"]) == errors.NO_SESSION
    assert "nowhere" in (err := capsys.readouterr().err)
    assert "traceback" not in err


def test_json_errors_are_json_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    """With --json an error is an object on stdout, for usage errors too."""
    assert cli.run(["verify", "nowhere", "--json"]) == errors.NO_SESSION
    said = json.loads(capsys.readouterr().out)
    assert said["error"]["kind"] == "session"
    assert "nowhere" in said["error"]["message"]
    assert cli.run(["verify", "--json"]) == errors.USAGE
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "usage"


@pytest.mark.parametrize(("kind", "code"), list(errors.EXIT_CODES.items()))
def test_kinds_of_errors_have_their_exit_codes(
    kind: Kind, code: int, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each kind ends with the promised code and one line, whatever that holds; what was typed wrongly has no file."""
    raising(monkeypatch, RefeedError(kind, "what\nwas \x1b[31mwrong", "what to do"))
    assert cli.run(["paths"]) == code
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "\x1b" not in err
    assert "what to do" in err
    typed = kind in errors.SELF_EXPLAINING
    assert ("traceback in" in err) is not typed
    assert (home / "errors").exists() is not typed


def test_unforeseen_errors_leave_a_traceback_in_a_file(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bug ends with exit code 1 and a line that names the private file with the traceback."""
    raising(monkeypatch, ZeroDivisionError("division by zero"))
    assert cli.run(["paths"]) == errors.FAILED
    err = capsys.readouterr().err
    assert "Traceback" not in err
    (file,) = (home / "errors").iterdir()
    assert str(file) in err
    assert "ZeroDivisionError" in file.read_text()
    assert file.stat().st_mode & 0o077 == 0


def test_debug_prints_the_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """--debug shows the traceback on stderr, before the line."""
    raising(monkeypatch, ZeroDivisionError("division by zero"))
    assert cli.run(["--debug", "paths"]) == errors.FAILED
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_old_tracebacks_are_removed(home: Path) -> None:
    """At most `KEPT_TRACEBACKS` files stay."""
    (home / "errors").mkdir(parents=True)
    for at in range(30):
        (home / "errors" / f"20250101T0000{at:02d}-1.txt").touch()
    newest = errors.write_traceback(ValueError("x"))
    kept = sorted((home / "errors").iterdir())
    assert len(kept) == errors.KEPT_TRACEBACKS
    assert newest in kept


def test_a_home_that_cannot_be_written_still_gets_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The temporary folder takes the file when the home cannot."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path / "file" / "under"))
    path = errors.write_traceback(ValueError("x"))
    try:
        assert "ValueError" in path.read_text()
    finally:
        path.unlink()


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (cli.Signalled(15), 143), (cli.Signalled(1), 129)]
)
def test_signals_have_their_exit_codes(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Interrupt, TERM and HUP end with 130, 143 and 129 and no error line."""
    raising(monkeypatch, error)
    assert cli.run(["paths"]) == code
    assert capsys.readouterr().err == ""


def test_a_reader_that_goes_away_is_no_error() -> None:
    """`refeed-tui presets | head -1` says nothing on stderr."""
    code = (
        "import subprocess, sys\n"
        "command = [sys.executable, '-m', 'tui.cli', 'presets']\n"
        "child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)\n"
        "child.stdout.close()\n"
        "print(child.stderr.read().decode(), child.wait())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "141"


HEAVY = ("textual", "torch", "numpy", "scipy", "rich", "plotext", "transformers", "vllm")


@pytest.mark.parametrize("args", [["--help"], ["list"], ["list", "--json"], ["presets"], ["paths"], ["verify", "x"]])
def test_light_commands_import_nothing_heavy(args: list[str]) -> None:
    """What only looks at folders starts without textual, torch, numpy or rich."""
    code = (
        "import sys\nfrom tui.cli import run\n"
        f"run({args!r})\n"
        f"print('heavy:', sorted(set({HEAVY!r}) & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "heavy: []"


def test_presets_json_can_be_parsed() -> None:
    """`presets --json` prints JSON only, with every preset and its fields."""
    said = json.loads(process("presets", "--json").stdout)
    names = [preset["name"] for preset in said["presets"]]
    assert {"demo", "smoke", "paper-main", "paper-batch-invariant"} <= set(names)
    assert all(preset["description"] and preset["fields"] for preset in said["presets"])


def test_presets_show_their_settings_as_a_spec_file_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Each setting is a line of TOML with the preset's own value, long texts cut; 80 columns are enough."""
    assert cli.run(["presets"]) == errors.DONE
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines) <= 80
    heads = [number for number, line in enumerate(lines) if not line.startswith(" ")]
    assert len(heads) == len(PRESETS)
    for preset, start, end in zip(PRESETS.values(), heads, [*heads[1:], len(lines)], strict=True):
        text = " ".join(line[22:] for line in lines[start:end]).removeprefix(preset.description)
        settings = tomllib.loads("\n".join(re.split(r", (?=\w+ = )", text.strip())))
        defaults = CampaignSpec()
        assert settings.keys() == {name for name in preset.fields if preset.fields[name] != getattr(defaults, name)}
        for name, value in settings.items():
            wanted = preset.fields[name]
            assert value == wanted or (str(value).endswith("...") and str(wanted).startswith(str(value)[:-3]))


def test_paths_names_the_home(home: Path) -> None:
    """`paths` shows where sessions are, under $REFEED_TUI_HOME."""
    assert str(home / "sessions") in process("paths", REFEED_TUI_HOME=str(home)).stdout


def test_empty_home_lists_no_sessions_and_says_how_to_start(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A fresh machine gets an empty list, and a hint."""
    assert cli.run(["list"]) == errors.DONE
    assert "launch demo" in capsys.readouterr().out
    assert not home.exists(), "listing makes no folders"
    assert cli.run(["list", "--json"]) == errors.DONE
    assert json.loads(capsys.readouterr().out) == {"sessions": []}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("args", [("list", "--json"), ("report", "nosuch", "--json"), ("presets",)])
def test_a_stdout_that_cannot_be_written_is_one_line_and_exit_code_1_or_the_error_s_own(args: tuple[str, ...]) -> None:
    """A full disk behind `> file`: no traceback, also where the error itself belongs on stdout."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tui.cli", *args],
            cwd=REPO,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == (errors.NO_SESSION if "nosuch" in args else errors.FAILED)
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("refeed-tui: ")
