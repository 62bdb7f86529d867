from __future__ import annotations

import csv
import html
import json
import re
from typing import TYPE_CHECKING

import msgspec
import pytest

from sessions.exchange.export import FORMATS
from sessions.report.audit import Session, audit
from sessions.report.document import Chart, Facts, Grid
from tests.helpers.cli_sessions import FLIPPED, SAME, SPEC, campaign, write
from tui import cli, errors

if TYPE_CHECKING:
    from pathlib import Path

    from sessions.store import SessionFolder


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


def test_what_limits_the_numbers_is_said_beside_bare_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables hold data alone: a torn journal and a campaign cut short stand on stderr, or in the JSON; else nothing."""
    whole = write(campaign())
    assert cli.run(["export", whole.id, "--format", "csv"]) == errors.DONE
    assert capsys.readouterr().err == ""
    folder = write(campaign()[:-2])
    with folder.journal_path.open("ab") as journal:
        journal.write(b'{"event":"ended"')
    expected = [
        "the campaign is interrupted: 2 of 3 problems measured",
        "16 bytes after the last event are torn and not read",
        "3 pivots not counted: they wait for their problem to close",
    ]
    for formats in ("csv", "jsonl", "parquet", "thaw", "bundle"):
        assert cli.run(["export", folder.id, "--format", formats, "--out", str(tmp_path / formats)]) == errors.DONE
        out, err = capsys.readouterr()
        assert err.splitlines() == [f"note: {note}" for note in expected]
        assert "note" not in out
        assert not any(b"torn" in path.read_bytes() for path in (tmp_path / formats).iterdir())
    assert cli.run(["export", folder.id, "--format", "csv", "--json"]) == errors.DONE
    out, err = capsys.readouterr()
    assert (json.loads(out)["notes"], err) == (expected, "")


def _said(form: str, content: str) -> str:
    """What a report says, without the marks of its form, in one line."""
    if form == "html":
        content = html.unescape(re.sub(r"<[^>]*>", " ", content))
    elif form == "md":
        content = re.sub(r"\\([\\`*_{}\[\]<>#|~&])", r"\1", content)
    return " ".join(content.split())


def _forms(folder: SessionFolder, out: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What each form of a session's report says."""
    assert cli.run(["report", folder.id]) == errors.DONE
    said = {"text": _said("text", capsys.readouterr().out)}
    assert cli.run(["export", folder.id, "--format", "html,md,latex", "--out", str(out)]) == errors.DONE
    capsys.readouterr()
    for form, ending in (("html", "*.html"), ("md", "*.md"), ("latex", "*.tex")):
        (path,) = out.glob(ending)
        said[form] = _said(form, path.read_text())
    return said


# Every pivot of 200 problems changes but one: the t is so large that its p underflows, and so many problems that the
# sign-flip test is a Monte Carlo.
STARK = [[FLIPPED] * 4] * 199 + [[FLIPPED] * 3 + [SAME]]
PUBLISHED = msgspec.structs.replace(SPEC, problems=300, pivot_filter="published", max_pivots=4)


def test_every_form_of_a_report_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows, caveats and spellings of the text report stand in HTML and Markdown; LaTeX has what limits its row."""
    folder = write(campaign(STARK)[:-1], PUBLISHED)
    with folder.journal_path.open("ab") as journal:
        journal.write(b"torn")
    said = _forms(folder, tmp_path / "out", capsys)
    limits = (
        "excess +99.9pp [+99.6, +100.1]: load-bearing so far.",
        "plain t(199) = 799.00: fixed-n only, valid once, at the planned end; its one-sided p first fell below alpha",
        "the campaign is interrupted: 200 of 300 problems measured",
        "4 bytes after the last event are torn and not read",
        "published pivot filter: 0 of 800 pivots are cleared of its fault",
        "Monte Carlo: 100,000 draws, seed 0",
        "800 of 800 checked pivots verified, 100.0% (800 by ledger)",
        folder.registration().digest,
    )
    rows = (
        "(bfloat16), arithmetic; 20",
        " UTC, ",
        "[+99.6, +100.1], by CR2: SE 0.1pp, t = 799.00, df = 199.0, p < 1e-300",
        "(one-sided, Monte Carlo)",
        "sign, for display",
        "by arm",
        "near the cut",
        "re-feed rate difference undefined",
    )
    for form in said:
        for limit in limits:
            assert limit in said[form], (form, limit)
        for row in rows if form != "latex" else ():
            assert row in said[form], (form, row)
        assert "p = 0" not in said[form].replace("p = 0.", "")
        assert ": load-bearing." not in said[form]


def test_forms_lay_out_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each cell, fact and sentence of a session's document is in text, HTML and Markdown."""
    folder = write(campaign(), name="night")
    said = _forms(folder, tmp_path / "out", capsys)
    written = audit([Session.load(folder)]).document()
    sentences = [written.subject, *written.opening, written.headline, *written.notes, written.closing]
    for section in written.sections:
        sentences.append(section.title)
        for part in section.body:
            match part:
                case Grid():
                    sentences += [*part.columns, *(cell for row in part.rows for cell in row)]
                case Facts():
                    sentences += [fact for _, fact in part.rows]
                case str():
                    sentences.append(part)
                case _:
                    assert isinstance(part, Chart)
    assert len(sentences) > 100
    for form in ("text", "html", "md"):
        packed = said[form].replace(" ", "")  # a table of text may break a header
        assert not [sentence for sentence in sentences if sentence.replace(" ", "") not in packed], form
