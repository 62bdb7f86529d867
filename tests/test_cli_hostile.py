"""A stranger's session through every command: nothing of it acts on the terminal or outside its folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessions.disk.folder import RunInfo
from sessions.disk.journal import Chain
from sessions.events import CacheFailure, Ended, EngineReady, Event, Notice, Opened, Pivot, ProblemClosed
from sessions.spec import CampaignSpec, register
from sessions.store import SessionFolder, Store
from sessions.text import json_printable
from tests.helpers.session_events import closed, engine_ready, opened, pivot, trunks_done
from tui import cli

REPO = Path(__file__).parents[1]
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\u2028\r\nrefeed-tui: all is well\x00\x7f"


def evil_events() -> list[Event]:
    """A campaign that says something evil in every text that it has."""
    replace = msgspec.structs.replace
    numerics = {"torch": "2.13", EVIL: EVIL}
    failure = CacheFailure(problem=0, attempt=1, stage=EVIL, request=EVIL, rollout=0, position=177, expected=1, found=2,
                           reason=EVIL, policy=EVIL)  # fmt: skip
    first: Opened = replace(opened(), host=EVIL, version=EVIL)
    engine: EngineReady = replace(engine_ready(), engine=EVIL, model=EVIL, numerics=numerics, machine={EVIL: EVIL})
    one: Pivot = replace(pivot(0, nets=(1, 1, -1)), actual_text=EVIL, alternative_text=EVIL)
    end: ProblemClosed = replace(closed(0, 1), reason=EVIL, texts=f"../{EVIL}", texts_sha256=EVIL)
    again: Opened = replace(opened(), host="box", version="1")
    return [
        first,
        engine,
        Notice(kind=EVIL, text=EVIL),
        Notice(kind="warning", text=EVIL),
        trunks_done(0),
        one,
        failure,
        end,
        again,
        replace(engine, changed=(EVIL,), machine={}),
        Ended(state="aborted", exit_code=1, reason=EVIL),
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SessionFolder:
    """A stranger's folder beside an empty home, its chain and digest in order."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    spec = CampaignSpec(
        engine="embedded", model=EVIL, task=EVIL, prompt=EVIL, system_prompt=EVIL, revision=EVIL, problems=3
    )
    made = Store(tmp_path / "theirs").create(register(spec))
    stored = json.loads(made.spec_path.read_bytes())
    made.spec_path.write_bytes(made.spec_path.read_bytes()[:-1] + b',"name":' + json.dumps(EVIL).encode() + b"}")
    chain = Chain(stored["digest"])
    with made.journal_path.open("wb") as file:
        for seq, event in enumerate(evil_events()):
            line, link = chain.extend(msgspec.json.encode(msgspec.structs.replace(event, seq=seq)))
            file.write(line)
            chain.advance(link)
    RunInfo(pid=1, started=1, boot=EVIL, host=EVIL, version=EVIL).write(made.run_path)
    made.log_path.write_text(EVIL)
    os.utime(made.journal_path, (1, 1))
    return SessionFolder(made.path)


def harmless(text: str) -> str:
    """Fail on any character that acts on a terminal; newlines end the program's own lines."""
    acting = sorted({c for c in text if c != "\n" and unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}})
    assert not acting, [hex(ord(c)) for c in acting]
    assert not any(line.startswith("refeed-tui: all is well") for line in text.splitlines())
    return text


BAD_NAME = "is no name of a side file; the journal was not written by us"
EVERY = "csv,jsonl,parquet,thaw,md,latex,html"


@dataclass(frozen=True)
class Answer:
    """What a command has to answer about the stranger's session.

    Attributes:
        arguments: its words; {} is the folder.
        code: its exit code, as in the contract.
        out: what stdout says, in part.
        err: what stderr says, in part; empty where it must be.
        lines: of stderr, where it says anything: an error has one.
    """

    arguments: tuple[str, ...]
    code: int
    out: str = ""
    err: str = ""
    lines: int = 1


ANSWERS = (
    Answer(("report", "{}"), 0, "FAILED: problem 0, attempt 2, rollout 0, position 177:"),
    Answer(("report", "{}", "--json"), 0, '"checked": 2,'),
    Answer(("attach", "{}", "--plain"), 1, "CACHE CHECK FAILED: task 0", err=" aborted: "),  # the campaign's own
    Answer(("replay", "{}", "--plain"), 0, "CACHE CHECK FAILED: task 0"),
    Answer(("verify", "{}"), 5, err=BAD_NAME),
    Answer(("verify", "{}", "--json"), 5, '"kind": "integrity"', err=BAD_NAME),
    Answer(("plan", "{}"), 0, "no plan: needs at least 2 informative problems"),
    Answer(("plan", "{}", "--json"), 0, '"why": "needs at least 2 informative problems"'),
    Answer(("abort", "{}"), 3, err="is not running; its state is aborted"),
    Answer(("pause", "{}"), 3, err="is not running; its state is aborted"),
    Answer(("resume", "{}", "--allow-changed-engine"), 2, err=" is unknown; give arithmetic, "),
    Answer(
        ("export", "{}", "--format", EVERY, "--out", "out"),
        0,
        "-pivots.csv\n",
        err="note: the campaign is aborted (",
        lines=3,
    ),
    Answer(("export", "{}", "--format", "bundle", "--out", "out"), 5, err=BAD_NAME),
)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: " ".join(answer.arguments[::2])[:30])
def test_no_command_lets_a_strangers_text_act(
    folder: SessionFolder, answer: Answer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Escapes, bidirectional controls and false lines come out as visible text, beside the one right answer."""
    code = cli.run([word.replace("{}", str(folder.path)) for word in answer.arguments])
    said = capsys.readouterr()
    assert code == answer.code, said.err
    assert answer.out in harmless(said.out)
    assert (said.out == "") is (answer.out == "")
    assert answer.err in harmless(said.err)
    assert said.err.count("\n") == (answer.lines if answer.err else 0), said.err


def test_a_strangers_session_that_cannot_be_resumed_stays_as_it_is(
    folder: SessionFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """`resume` starts its worker, which finds the task unknown before it records anything."""
    before = folder.journal_path.read_bytes()
    assert cli.run(["resume", str(folder.path), "--allow-changed-engine"]) == 2
    assert re.search(r"task '\\x1b.*' is unknown; give arithmetic, .*", harmless(capsys.readouterr().err))
    assert folder.journal_path.read_bytes() == before
    assert folder.state() == "aborted"
    assert not folder.live()


def test_exported_reports_hold_nothing_that_acts(folder: SessionFolder, tmp_path: Path) -> None:
    """Files that people open in terminals and browsers are as safe as the screen."""
    assert cli.run(["export", str(folder.path), "--format", "csv,jsonl,thaw,md,latex,html", "--out", "out"]) == 0
    files = list((tmp_path / "out").iterdir())
    assert len(files) == 13
    for path in files:
        harmless(path.read_text())


def test_every_acting_character_is_escaped_in_json_and_reads_back() -> None:
    """All of Unicode: the file holds none of them, and says the same."""
    text = "".join(chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF)
    encoded = json_printable(msgspec.json.encode(text))
    assert json.loads(encoded) == text
    assert msgspec.json.decode(encoded) == text
    harmless(encoded.decode())


def test_a_listed_stranger_is_one_safe_row(
    folder: SessionFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that somebody copied into the home, its name as evil as its content."""
    store = tmp_path / "home" / "sessions"
    store.mkdir(parents=True)
    folder.path.rename(store / folder.path.name)
    (store / EVIL.replace("\x00", "").replace("/", "")).symlink_to("/")
    for arguments in (["list"], ["list", "--json"], ["doctor", "--json"]):
        cli.run(arguments)
        said = capsys.readouterr()
        harmless(said.out)
        harmless(said.err)
        if arguments[0] == "list":
            assert said.out.count(folder.id) == 1


def entries(root: Path) -> dict[str, Any]:
    """Every file below a folder, with its content."""
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["summary.json", ".reserve", "lock"])
def test_reading_writes_into_the_sessions_folder_alone(
    folder: SessionFolder, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Texts named `../..` and files that are links lead nowhere; a lock that is one is refused where it is asked."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    (folder.path / name).unlink(missing_ok=True)
    (folder.path / name).symlink_to(outside / "precious")
    before = entries(outside)
    for answer in ANSWERS:
        refused = name == "lock" and answer.arguments[0] != "plan" and answer.err != BAD_NAME
        assert cli.run([word.replace("{}", str(folder.path)) for word in answer.arguments]) == (
            5 if refused else answer.code
        )
        assert (f"{name} is not a regular file" in capsys.readouterr().err) is refused
    assert entries(outside) == before


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_log_that_is_no_file_is_neither_written_nor_waited_for(
    folder: SessionFolder, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`resume` appends to worker.log and `attach` reads its end: not through a link, and not from a pipe."""
    profile = tmp_path / "profile"
    profile.write_text("precious")
    folder.log_path.unlink()
    if kind == "link":
        folder.log_path.symlink_to(profile)
    else:
        os.mkfifo(folder.log_path)
    whole = folder.journal_path.read_bytes()
    folder.journal_path.write_bytes(whole[: whole.rindex(b'{"event":"ended"')])
    os.utime(folder.journal_path, (1, 1))
    assert cli.run(["resume", str(folder.path), "--allow-changed-engine"]) == 5
    assert "worker.log is not a regular file" in capsys.readouterr().err
    assert cli.run(["attach", str(folder.path), "--plain"]) == 1
    assert "precious" not in capsys.readouterr().out
    assert profile.read_text() == "precious"


def test_imports_of_evil_files_are_refused_in_safe_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a file to import is called and holds, the answer is one safe line, and nothing stays."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path / "home"))
    path = tmp_path / EVIL.replace("\x00", "").replace("/", "")
    command = [sys.executable, "-c", "from tui.cli import main; main()", "import", str(path)]
    for content in (EVIL.encode(), b'{"config":' * 50_000, json.dumps({EVIL: EVIL}).encode(), b"PK\x03\x04" + b"\x1b"):
        path.write_bytes(content)
        done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == (5 if content.startswith(b"PK") else 2), done.stderr  # a bundle that is damaged
        assert harmless(done.stderr).count("\n") == 1
        assert harmless(done.stdout) == ""
    assert Store(tmp_path / "home").folders() == ()
