from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from sessions.disk.journal import Journal
from sessions.disk.texts import write as write_texts
from sessions.events import CacheFailure, CacheProof, Ended, Notice
from sessions.report.audit import Session, audit
from sessions.state.summary import load as load_summary
from tests.helpers.cli_sessions import CROSSED, FLIPPED, MIXED, SAME, SILENT, SPEC, campaign, measured, write
from tests.helpers.session_events import closed, engine_ready, opened, pivot, trunks_done
from tests.helpers.session_texts import example, its_pivot
from tui import cli, errors
from tui.viewer.report_text import render

REPO = Path(__file__).resolve().parent.parent
NET_KEYS = {"disagree", "rate", "zero_crossings", "reversals", "ci95"}
TWO = msgspec.structs.replace(SPEC, k=2)
LENIENT = msgspec.structs.replace(SPEC, problems=6, decision=(0.1, 0.2))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home for every test."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("COLUMNS", raising=False)
    return tmp_path / "home"


def report(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """Text that `refeed-tui report` prints."""
    assert cli.run(["report", *args]) == errors.DONE
    return capsys.readouterr().out


def report_json(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    """What `refeed-tui report --json` prints."""
    return json.loads(report(capsys, *args, "--json"))


def test_json_has_every_promised_key(capsys: pytest.CaptureFixture[str]) -> None:
    """The keys of design/contract.md are there, with the counts that the journal holds."""
    folder = write(campaign())
    made = report_json(capsys, folder.id)
    assert made["sessions"] == [folder.id]
    assert (made["pivots"], made["problems"], made["informative_problems"], made["k"]) == (9, 3, 3, [4])
    for conditioning in ("common", "exact1"):
        assert set(made[conditioning]) == {"n", "refeed", "floor", "excess"}
        assert set(made[conditioning]["refeed"]) == set(made[conditioning]["floor"]) == NET_KEYS
    assert (made["common"]["n"], made["common"]["refeed"]["disagree"], made["common"]["floor"]["disagree"]) == (7, 2, 1)
    assert made["common"]["refeed"]["reversals"] == 1
    assert made["common"]["excess"] == pytest.approx(1 / 7)
    assert set(made["eligibility"]) == {"exact1", "only_refeed", "only_floor"}
    assert set(made["pooled_excess"]) == {"value", "se", "t", "df", "p", "ci95", "sign_flip_p", "ci95_bootstrap"}
    assert {"n", "mean", "sd", "t", "df", "p", "refeed_worse", "floor_worse", "equal", "sign_flip_p"} == set(
        made["clustered"]
    )
    assert {"alpha", "symmetry", "betting", "t_e", "path"} <= set(made["sequential"])
    assert set(made["mcnemar"]) == {"b", "c", "z", "z_clustered"}
    assert set(made["bias"]) == {"mean", "t", "t_cr2", "ci95"}
    assert set(made["selection"]) == {"0.5", "0.75"}
    assert set(made["margin"]) == {"below_0.3", "from_0.3"}
    assert set(made["probe"]) == {"pivots", "refeed", "replica"}
    assert made["cache"] == {
        "checked": 9, "verified": 9, "not_instrumented": 0, "rate": 1.0, "proof": {"ledger": 9, "counts": 0},
        "failures": [],
    }  # fmt: skip
    assert set(made["decision"]) == {"rule", "verdict"}
    assert isinstance(made["notes"], list)


def test_text_fits_80_columns_and_holds_no_escapes_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """Off a terminal the report is pure text of at most 80 columns."""
    folder = write(campaign())
    shown = report(capsys, folder.id)
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    for title in ("Table 1", "Valid at every look", "Margin", "Greedy probes", "Cache checks", "Decision"):
        assert title in shown
    assert "9 of 9 checked pivots verified, 100.0% (9 by ledger)" in shown
    assert "3 of 3 problems informative" in shown


def test_where_eligibility_comes_from_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """A pass can make pivots eligible by itself: text and JSON count those of the re-feed pass and of the replica."""
    folder = write(campaign([(SAME, (0, 0, 1), (0, 0, -1)), ((0, 1, 0), (0, 1, 1), SILENT)]))
    made = report_json(capsys, folder.id)
    assert made["eligibility"] == {"exact1": 1, "only_refeed": 2, "only_floor": 1}
    shown = " ".join(report(capsys, folder.id).split())
    assert "not 0: 1 in exact-1; 2 only in the re-feed pass, 1 only in the replica" in shown


def test_uninformative_problems_are_counted_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    """A problem without an eligible pivot stays in the count of problems."""
    folder = write(campaign([(SAME, CROSSED), (SILENT, SILENT), ()]))
    assert "1 of 3 problems informative" in report(capsys, folder.id)


def test_all_equal_is_undefined_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    """A t of equal differences is undefined, never 0; nothing seen is a bound, never zero."""
    folder = write(campaign([(SAME,), (SAME, SAME), (SAME,)]))
    shown = " ".join(report(capsys, folder.id).split())
    assert "undefined: all 3 equal" in shown
    assert "Nothing seen is not zero" in shown
    made = report_json(capsys, folder.id)
    assert made["clustered"]["t"] is None
    assert made["common"]["refeed"]["rate"] == 0


def test_a_campaign_without_pivots_still_reports(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing eligible: every number that cannot be is null, and the text says why."""
    folder = write(campaign([(), (), ()]))
    assert "No pivot is eligible" in report(capsys, folder.id)
    assert report_json(capsys, folder.id)["pooled_excess"]["value"] is None


def test_failed_pivots_are_shown_and_not_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """A failed check stays in the denominator of the cache rate, is said in words, and is no evidence."""
    spoilt = pivot(0, 7, 300, FLIPPED, cache=CacheProof(state="failed", proof="ledger", reason="hit 96 of 112 tokens"))
    events = [opened(), engine_ready(), *measured(0, (SAME, CROSSED))[:-1], spoilt, closed(0, 3)]
    folder = write([*events, Ended(state="finished", exit_code=0, reason="done")])
    made = report_json(capsys, folder.id)
    assert (made["pivots"], made["cache"]["checked"], made["cache"]["verified"]) == (2, 3, 2)
    assert "hit 96 of 112 tokens" in made["cache"]["failures"][0]
    shown = " ".join(report(capsys, folder.id).split())
    assert "rollout 7, position 300: hit 96 of 112 tokens" in shown
    assert "FAILED: problem 0" in shown
    assert "1 pivot not counted: they failed their cache checks" in shown


def test_a_torn_journal_is_said_wherever_its_report_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """The report, the JSON, and the reports after `attach` and `replay` in plain lines all name the torn bytes."""
    folder = write(campaign()[:-1])
    with folder.journal_path.open("ab") as journal:
        journal.write(b"torn")
    note = "4 bytes after the last event are torn and not read"
    assert note in report_json(capsys, folder.id)["notes"]
    for command, code in (("report", errors.DONE), ("attach", errors.FAILED), ("replay", errors.DONE)):
        plain = [] if command == "report" else ["--plain"]
        assert cli.run([command, folder.id, *plain]) == code
        assert note in " ".join(capsys.readouterr().out.split()), command


def test_a_note_is_no_markup_on_any_console(capsys: pytest.CaptureFixture[str]) -> None:
    """Brackets of a warning are printed as they are, also by a console that reads markup and emoji codes."""
    text = "[/bold] [red]not red[/] :smile:"
    folder = write([opened(), Notice(kind="warning", text=text), engine_ready(), *measured(0, MIXED[0])])
    Console(width=120).print(*render(audit([Session.load(folder)])))
    assert f"warning: {text}" in capsys.readouterr().out


def test_an_unfinished_campaign_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """A dead worker's session is reported up to its last closed problem, with the reason."""
    folder = write([opened(), engine_ready(), *measured(0, MIXED[0]), pivot(1, nets=CROSSED)])
    made = report_json(capsys, folder.id)
    assert made["pivots"] == 3
    assert any("interrupted" in note and "1 of 3 problems" in note for note in made["notes"])


def test_what_every_run_warned_of_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    """An engine warns of the same at every start; another warning has a line of its own."""
    same, other = (Notice(kind="warning", text=text) for text in ("proved by counts", "an untested version"))
    folder = write([opened(), same, engine_ready(), opened(), same, other, engine_ready(), *measured(0, MIXED[0])])
    warnings = [note for note in report_json(capsys, folder.id)["notes"] if note.startswith("warning: ")]
    assert warnings == ["warning: proved by counts", "warning: an untested version"]


def test_a_retry_after_a_cache_abort_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever resumes after a failed check cannot hide it."""
    failure = CacheFailure(problem=0, attempt=1, stage="exact-1", request="r", rollout=0, position=145, expected=144,
                           found=128, reason="16 tokens missing", policy="abort")  # fmt: skip
    folder = write(
        [opened(), engine_ready(), failure, Ended(state="aborted", exit_code=4, reason="cache"), *campaign()]
    )
    assert "RETRY after a cache abort" in report(capsys, folder.id)
    died = write([opened(), engine_ready(), failure, *campaign()])
    assert "RETRY after a cache abort" in report(capsys, died.id), "killed before it could end"
    user = write(
        [opened(), engine_ready(), Ended(state="aborted", exit_code=1, reason="user"), opened(), failure, *campaign()]
    )
    notes = [note for note in report_json(capsys, user.id)["notes"] if "continued" in note]
    assert [note.startswith("RETRY") for note in notes] == [False, True]


def test_resumes_past_the_stop_and_on_other_machines_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    """Past the stop, another version, host, machine or engine: each is a note of the report."""
    first, *body = campaign()
    again = msgspec.structs.replace(opened(), wall=5.0, host="other", version="0.2.0", past_stop=True)
    engine = msgspec.structs.replace(
        engine_ready(), changed=("torch",), machine={"cpu": "four cores", "warning 1": "x"}
    )
    folder = write([first, engine_ready(), *body[1:4], again, engine, *body[1:]])
    said = " ".join(report_json(capsys, folder.id)["notes"])
    for mark in (
        "PAST its stop rule: run 2",
        "on another host",
        "refeed-tui 0.1.0 became 0.2.0",
        "machine changed: cpu",
        "CHANGED ENGINE, numerics differ from the first run's: torch",
    ):
        assert mark in said
    assert "machine changed: cpu;" in said


def test_going_on_past_the_stop_rule_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """A run that was allowed past its crossing says so in every report; one that was not does not."""
    stop = Ended(state="stopped", exit_code=0, reason="stop rule")
    past = msgspec.structs.replace(opened(), past_stop=True)
    folder = write([opened(), engine_ready(), *measured(0, MIXED[0]), stop, past, *campaign(start=1)[1:]])
    assert "PAST its stop rule: run 2" in " ".join(report(capsys, folder.id).split())
    plain = write([opened(), engine_ready(), *measured(0, MIXED[0]), stop, *campaign(start=1)])
    assert "PAST" not in report(capsys, plain.id)


@pytest.mark.parametrize(
    ("right", "says"), [(0, "0 of 8 trunks are right: a model that hardly solves"), (5, ""), (8, "hardly ever fails")]
)
def test_a_model_that_hardly_solves_its_task_is_said(capsys: pytest.CaptureFixture[str], right: int, says: str) -> None:
    """Where no trunk or every trunk is right little can be measured, and the report says why."""
    folder = write([opened(), engine_ready(), trunks_done(0, right=right), pivot(0, nets=SILENT), closed(0, 1)])
    shown = " ".join(report(capsys, folder.id).split())
    assert ("trunks are right" in shown) == (says != "")
    assert says in shown


def test_pooling_takes_the_same_settings_in_argument_order(capsys: pytest.CaptureFixture[str]) -> None:
    """Two windows of one campaign pool; pivots that both hold count once, and that is said."""
    one = write(campaign(MIXED))
    other = write(campaign(MIXED, start=2), msgspec.structs.replace(SPEC, start=2))
    made = report_json(capsys, one.id, other.id, "--pool")
    assert made["sessions"] == [one.id, other.id]
    assert made["problems"] == 5
    assert made["pivots"] == 9 + 9 - 3
    assert any("pooling dropped 3 pivots" in note for note in made["notes"])
    assert made["cache"]["checked"] == 18


def test_pooling_different_settings_exits_2_and_names_them(capsys: pytest.CaptureFixture[str]) -> None:
    """K = 4 and K = 8 are different campaigns."""
    one = write(campaign(MIXED))
    other = write(campaign(MIXED, k=8), msgspec.structs.replace(SPEC, k=8))
    assert cli.run(["report", one.id, other.id, "--pool"]) == errors.USAGE
    assert "k (4 and 8)" in capsys.readouterr().err


def test_a_session_cannot_be_pooled_with_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """The same session twice is a mistake, not more evidence."""
    one = write(campaign(MIXED))
    assert cli.run(["report", one.id, one.id, "--pool"]) == errors.USAGE
    assert "given twice" in capsys.readouterr().err


def test_several_sessions_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    """Without --pool each session has its own entry and its own column."""
    one, other = write(campaign(MIXED), name="first"), write(campaign(MIXED), name="second")
    made = report_json(capsys, "first", "second")
    assert [entry["sessions"] for entry in made["reports"]] == [[one.id], [other.id]]
    shown = report(capsys, "first", "second")
    assert "first" in (heading := shown.splitlines()[0])
    assert "second" in heading


def test_against_subtracts_a_session(capsys: pytest.CaptureFixture[str]) -> None:
    """--against adds the difference of rates and excess, problems paired where both measured them."""
    one = write(campaign([(CROSSED, SAME), (CROSSED, CROSSED), (SAME, CROSSED)]), name="stock")
    write(campaign([(SAME, SAME), (SAME, SAME), (SAME, CROSSED)]), name="invariant")
    made = report_json(capsys, "stock", "--against", "invariant")
    assert made["sessions"] == [one.id]
    assert made["difference"]["excess"]["value"] == pytest.approx(4 / 6 - 1 / 6)
    assert made["difference"]["shared_problems"] == 3
    assert "differs by +50.0pp" in report(capsys, "stock", "--against", "invariant")
    both = report_json(capsys, "stock", "invariant", "--against", "invariant")
    assert all("difference" in entry for entry in both["reports"])
    assert "difference " in report(capsys, "stock", "invariant", "--against", "invariant")
    assert "difference " not in report(capsys, "stock", "invariant")


def test_against_says_what_limits_the_other_session(capsys: pytest.CaptureFixture[str]) -> None:
    """A difference to a campaign that was cut short carries that session's notes, named."""
    write(campaign(MIXED), name="whole")
    cut = write(campaign(MIXED)[:-2], name="cut")
    note = f"{cut.id}, compared with: the campaign is interrupted: 2 of 3 problems measured"
    assert note in report_json(capsys, "whole", "--against", "cut")["notes"]
    assert note in " ".join(report(capsys, "whole", "--against", "cut").split())
    assert "compared with" not in report(capsys, "whole")


def test_against_names_the_settings_that_differ(capsys: pytest.CaptureFixture[str]) -> None:
    """A difference between sessions of unlike settings says which, beside the windows of problems."""
    write(campaign(MIXED), name="one")
    write(campaign(MIXED), msgspec.structs.replace(SPEC, start=5, temperature=0.5), name="other")
    assert report_json(capsys, "one", "--against", "other")["difference"]["differs_in"] == ["temperature"]
    assert "differ in temperature" in report(capsys, "one", "--against", "other")


def test_a_verdict_says_everywhere_what_its_interval_leaves_open(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One changed pivot in three problems: headline, decision, columns, JSON and HTML say that the interval has 0."""
    problems = [(SAME, FLIPPED), (SAME, SAME), (SAME, SAME)]
    write(campaign(problems), name="one")
    write(campaign(problems), name="two")
    words = "load-bearing, by the point estimate; its interval includes 0"
    assert " ".join(report(capsys, "one").split()).count(words) == 2
    rows = [line.split() for line in report(capsys, "one", "two").splitlines()]
    assert rows[rows.index(["verdict", "load-bearing", "load-bearing"]) + 1] == [
        "but",
        *["interval", "includes", "0"] * 2,
    ]
    notes = report_json(capsys, "one")["notes"]
    assert "decision.verdict: by the point estimate; its interval includes 0" in notes
    assert cli.run(["export", "one", "--format", "html", "--out", str(home / "out")]) == errors.DONE
    (page,) = (home / "out").glob("*.html")
    assert page.read_text().count(words) == 2


def test_a_verdict_says_in_every_form_that_its_interval_reaches_past_its_threshold(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Above the load-bearing threshold with an interval that reaches below it, though not to 0: nowhere said flat."""
    write(campaign([(FLIPPED, FLIPPED, SAME, SAME, SAME, SAME), (FLIPPED, *[SAME] * 5)] * 3), LENIENT, name="one")
    write(campaign([(FLIPPED, FLIPPED, SAME, SAME, SAME, SAME), (FLIPPED, *[SAME] * 5)] * 3), LENIENT, name="two")
    found = report_json(capsys, "one")
    low = found["pooled_excess"]["ci95"][0]
    assert 0 < low < 0.2 < found["pooled_excess"]["value"]
    but = f"by the point estimate; its interval reaches down to {100 * low:+.1f}pp"
    assert found["decision"]["verdict"] == "load-bearing"
    assert f"decision.verdict: {but}" in found["notes"]
    assert " ".join(report(capsys, "one").split()).count(f"load-bearing, {but}") == 2
    rows = [line.split() for line in report(capsys, "one", "two").splitlines()]
    verdict = rows.index(["verdict", "load-bearing", "load-bearing"])
    assert rows[verdict + 1] == ["but", *["down", "to", f"{100 * low:+.1f}pp"] * 2]
    assert cli.run(["export", "one", "--format", "html,md,latex", "--out", str(home / "out")]) == errors.DONE
    for ending, times in (("html", 2), ("md", 2), ("tex", 1)):
        (page,) = (home / "out").glob(f"*.{ending}")
        assert page.read_text().count(f"load-bearing, {but}") == times, ending


def test_a_verdict_before_the_planned_end_is_one_so_far(capsys: pytest.CaptureFixture[str]) -> None:
    """An aborted or interrupted campaign has a verdict so far; one that reached its planned end has a verdict."""
    whole = campaign(MIXED)
    assert isinstance(whole[-1], Ended)
    write(whole, name="whole")
    write(whole[:-1], name="cut")
    write([*whole[:-1], Ended(state="aborted", exit_code=1, reason="aborted by the user")], name="aborted")
    stopped = [*whole[:-1], Ended(state="stopped", exit_code=0, reason="stopped")]
    write(stopped, name="hours")
    write(stopped, msgspec.structs.replace(SPEC, stop="symmetry"), name="hours before the rule")
    expected = {"whole": False, "cut": True, "aborted": True, "hours": True, "hours before the rule": True}
    for name, so_far in expected.items():
        shown = " ".join(report(capsys, name).split())
        assert shown.count("load-bearing so far") == (2 if so_far else 0)
        assert ": load-bearing" in shown


def test_equal_indices_of_different_tasks_are_different_problems(capsys: pytest.CaptureFixture[str]) -> None:
    """Problem 0 of another task is not problem 0 of this one."""
    write(campaign(MIXED), name="one")
    write(campaign(MIXED), msgspec.structs.replace(SPEC, task_digest="cd" * 32), name="other")
    assert report_json(capsys, "one", "--against", "other")["difference"]["shared_problems"] == 0


def test_a_damaged_journal_exits_5(capsys: pytest.CaptureFixture[str]) -> None:
    """A changed byte ends every reader with the integrity code and the line's number."""
    folder = write(campaign())
    lines = folder.journal_path.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b'"net":1', b'"net":2', 1)
    folder.journal_path.write_bytes(b"".join(lines))
    for command in (["report", folder.id], ["verify", folder.id]):
        assert cli.run(command) == errors.INTEGRITY
        assert "line 5" in capsys.readouterr().err


def test_a_changed_spec_exits_5(capsys: pytest.CaptureFixture[str]) -> None:
    """A spec that was edited after registration does not verify."""
    folder = write(campaign())
    folder.spec_path.write_bytes(folder.spec_path.read_bytes().replace(b'"k":4', b'"k":8'))
    assert cli.run(["verify", folder.id, "--json"]) == errors.INTEGRITY
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "integrity"


def test_verify_confirms_an_intact_session(capsys: pytest.CaptureFixture[str]) -> None:
    """Verify counts events and says what it cannot detect."""
    folder = write(campaign())
    assert cli.run(["verify", folder.id]) == errors.DONE
    shown = capsys.readouterr().out
    assert "chain unbroken" in shown
    assert "not forgery" in shown
    assert cli.run(["verify", folder.id, "--json"]) == errors.DONE
    said = json.loads(capsys.readouterr().out)
    assert said["intact"] is True
    assert said["events"] == len(campaign())


def test_verify_tells_a_person_how_far_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a terminal, on stderr: 100,000 pivots take most of a minute. A program is told nothing."""
    folder = write(campaign())
    monkeypatch.setattr("tui.setup.launching.SAY_EVERY", 0.0)
    assert cli.run(["verify", folder.id]) == errors.DONE
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("tui.setup.launching.time.monotonic", itertools.count().__next__)
    assert cli.run(["verify", folder.id]) == errors.DONE
    told = capsys.readouterr().err.splitlines()
    assert told[0] == f"session {folder.id}: counting its pivots again, 0%"
    assert len(told) == len(campaign())


def test_verify_looks_at_texts_too(capsys: pytest.CaptureFixture[str]) -> None:
    """A changed side file is an integrity error that names it; a missing one is said and harms no number."""
    folder = write([opened()], TWO)
    name, sha256 = write_texts(folder.texts_path, example())
    digest = folder.registration().digest
    with Journal.open(folder.journal_path, digest) as journal:
        journal.append(its_pivot())
        journal.append(msgspec.structs.replace(closed(7, attempt=2), texts=name, texts_sha256=sha256))
    assert cli.run(["verify", folder.id]) == errors.DONE
    shown = capsys.readouterr().out
    assert "texts    1 file as" in shown
    assert "recount  1 pivot follows from 12 continuations and 6 probes" in shown
    content = (folder.texts_path / name).read_bytes()
    (folder.texts_path / name).write_bytes(content[:-1] + b"x")
    assert cli.run(["verify", folder.id]) == errors.INTEGRITY
    assert name in capsys.readouterr().err
    (folder.texts_path / name).rename(folder.texts_path / "problem-9-attempt-0.json.gz")
    assert cli.run(["verify", folder.id, "--json"]) == errors.DONE
    said = json.loads(capsys.readouterr().out)
    assert (said["intact"], said["complete"]) == (True, False)
    assert said["texts"] == {"match": 0, "missing": 1, "unnamed": ["problem-9-attempt-0.json.gz"]}
    not_counted = {"missing": 1, "textless": 0, "unclosed": 0}
    assert said["recount"] == {"pivots": 0, "continuations": 0, "probes": 0, "not_counted": not_counted}
    assert cli.run(["verify", folder.id]) == errors.DONE
    shown = capsys.readouterr().out
    assert f"session {folder.id}: spec and journal intact; 1 of 1 pivot could not be counted again" in shown
    assert "1 file missing: 1 pivot could not be counted again" in shown
    assert "1 file in texts/ that the journal does not name: problem-9-attempt-0.json.gz;" in shown


def test_verify_says_what_a_cut_at_the_end_of_a_line_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    """The chain of what is left holds; the texts of what is gone, and a summary that knew of it, tell."""
    folder = write([opened()], TWO)
    name, sha256 = write_texts(folder.texts_path, example())
    with Journal.open(folder.journal_path, folder.registration().digest) as journal:
        journal.append(its_pivot())
        journal.append(msgspec.structs.replace(closed(7, attempt=2), texts=name, texts_sha256=sha256))
    assert folder.summary().measured == 1
    lines = folder.journal_path.read_bytes().splitlines(keepends=True)
    folder.journal_path.write_bytes(b"".join(lines[:-1]))
    assert cli.run(["verify", folder.id]) == errors.DONE
    shown = capsys.readouterr().out
    assert f"session {folder.id}: intact" in shown, "of what is there, that is so"
    assert f"1 file in texts/ that the journal does not name: {name}; " in shown
    assert "1 pivot of attempts that did not close" in shown
    assert "it had read 3 events, and 2 are there (was the journal cut?); made anew" in shown


def test_verify_makes_anew_what_list_remembers_wrongly(capsys: pytest.CaptureFixture[str]) -> None:
    """summary.json is a cache that `list` believes: an edited number is found, said and gone."""
    folder = write(campaign())
    right = folder.summary()
    assert cli.run(["verify", folder.id, "--json"]) == errors.DONE
    assert json.loads(capsys.readouterr().out)["summary"] == {"matched": True}
    cached = json.loads(folder.summary_path.read_bytes())
    counts = {**cached["evidence"], "problems": 2}
    for field, value in (
        ("evidence", counts),
        ("waiting", [[1, 1, 0, 9, [1, 0, 0]]]),
        ("done", []),
        ("offset", 40),
        ("broken", "x"),
        ("events", 99),
        ("link", "0" * 16),
    ):
        folder.summary_path.write_text(json.dumps({**cached, field: value}))
        assert cli.run(["verify", folder.id, "--json"]) == errors.DONE
        said = json.loads(capsys.readouterr().out)
        assert (said["intact"], said["summary"]) == (True, {"matched": False})
        assert any("summary.json" in note and note.endswith("; made anew") for note in said["notes"])
        assert load_summary(folder.summary_path, right.digest) == right
    folder.summary_path.unlink()
    assert cli.run(["verify", folder.id, "--json"]) == errors.DONE
    assert json.loads(capsys.readouterr().out)["summary"] == {"matched": True}, "there is none that could be wrong"


def test_a_pivot_that_does_not_follow_from_its_texts_exits_5(capsys: pytest.CaptureFixture[str]) -> None:
    """Chain and hashes hold, but one estimate is another than its continuations say: the place and both are named."""
    folder = write([opened()], TWO)
    name, sha256 = write_texts(folder.texts_path, example())
    pivot = its_pivot()
    better = msgspec.structs.replace(pivot.refeed, net=2, actual=pivot.exact1.actual)
    with Journal.open(folder.journal_path, folder.registration().digest) as journal:
        journal.append(msgspec.structs.replace(pivot, refeed=better))
        journal.append(msgspec.structs.replace(closed(7, attempt=2), texts=name, texts_sha256=sha256))
    assert cli.run(["verify", folder.id]) == errors.INTEGRITY
    said = capsys.readouterr()
    assert said.out == ""
    assert (
        "problem 7, attempt 2, rollout 0, position 4, re-feed, actual arm: correct is 2 in the journal, "
        "but 1 by its texts" in said.err
    )


def test_list_shows_sessions_newest_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Each session is one entry with the promised keys."""
    old = write(campaign(), name="old")
    new = write([opened(), engine_ready(), *measured(0, MIXED[0])])
    assert cli.run(["list", "--json"]) == errors.DONE
    listed = json.loads(capsys.readouterr().out)["sessions"]
    assert {entry["id"]: entry["state"] for entry in listed} == {old.id: "finished", new.id: "interrupted"}
    entry = next(entry for entry in listed if entry["id"] == old.id)
    assert set(entry) == {"id", "name", "model", "engine", "state", "started", "problems", "pivots", "headline"}
    assert (entry["name"], entry["model"], entry["engine"]) == ("old", "bundled", "embedded")
    assert (entry["problems"], entry["pivots"]) == (3, 9)
    assert entry["headline"].startswith("+14.3pp")
    assert cli.run(["list"]) == errors.DONE
    assert "3/3" in capsys.readouterr().out


def test_list_marks_batch_invariant_sessions_and_says_what_the_mark_means(capsys: pytest.CaptureFixture[str]) -> None:
    """The mark stands at the model and widens the list by one column; without such a session there is none."""
    write(campaign(), name="stock")
    assert cli.run(["list"]) == errors.DONE
    before = capsys.readouterr().out
    assert "batch-invariant" not in before
    assert "*" not in before
    write(campaign(), msgspec.structs.replace(SPEC, batch_invariant=True), name="exact")
    assert cli.run(["list"]) == errors.DONE
    head, *listed, explained = capsys.readouterr().out.splitlines()
    exact, stock = sorted(listed, key=lambda line: "stock" in line)
    assert "exact  bundled*  " in exact
    assert "stock  bundled   " in stock
    assert explained == "* batch-invariant"
    assert max(map(len, (head, exact, stock))) == max(map(len, before.splitlines())) + 1


def test_list_survives_a_damaged_session(capsys: pytest.CaptureFixture[str]) -> None:
    """One broken folder is listed as damaged and hides no other."""
    good, bad = write(campaign()), write(campaign())
    bad.spec_path.write_text("{")
    assert cli.run(["list"]) == errors.DONE
    shown = capsys.readouterr().out
    assert good.id in shown
    assert "DAMAGED" in shown


HOSTILE = "a\x1b]0;owned\x07\x1b[2J\x9b1m\u202eb"


def test_hostile_text_in_a_session_reaches_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever a folder from a stranger says, only printable characters are printed."""
    spec = msgspec.structs.replace(SPEC, model=HOSTILE, task=HOSTILE)
    failure = CacheFailure(problem=0, attempt=1, stage="exact-1", request=HOSTILE, rollout=None, position=None,
                           expected=None, found=None, reason=HOSTILE, policy="record")  # fmt: skip
    end = Ended(state="failed", exit_code=1, reason=HOSTILE)
    folder = write([opened(HOSTILE), engine_ready(), failure, *measured(0, MIXED[0]), end], spec)
    for command in (["report", folder.id], ["list"], ["verify", folder.id], ["report", folder.id, "--json"]):
        assert cli.run(command) == errors.DONE
        out, err = capsys.readouterr()
        unsafe = [c for c in out + err if unicodedata.category(c) in {"Cc", "Cf"} and c != "\n"]
        assert not unsafe, command


@pytest.mark.parametrize(
    "environ", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0"}]
)
def test_ascii_locales_get_ascii(environ: dict[str, str]) -> None:
    """Where the locale knows no UTF-8 every sign of the report is ASCII."""
    folder = write(campaign())
    command = [sys.executable, "-m", "tui.cli", "report", folder.id]
    clean = {k: v for k, v in os.environ.items() if k not in {"LC_ALL", "LANG", "LC_CTYPE", "PYTHONUTF8"}}
    done = subprocess.run(command, cwd=REPO, env={**clean, **environ}, capture_output=True, timeout=60, check=True)
    assert done.stdout.isascii()
    assert b"Table 1" in done.stdout


def test_plan_says_what_a_decision_takes(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan has a row for each procedure, in text and JSON."""
    folder = write(campaign([(CROSSED, SAME, CROSSED)] * 2 + [(CROSSED, CROSSED, SAME, SAME)] * 4 + [(SAME, SAME)]))
    assert cli.run(["plan", folder.id]) == errors.DONE
    shown = capsys.readouterr().out
    assert "symmetry e-process" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert cli.run(["plan", folder.id, "--json", "--alpha", "0.1"]) == errors.DONE
    made = json.loads(capsys.readouterr().out)
    assert made["alpha"] == 0.1
    assert {row["procedure"] for row in made["rows"]} == {"symmetry", "betting", "fixed_t"}


def test_plan_of_too_little_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    """One problem has no spread to plan from."""
    folder = write(campaign([(CROSSED,)]))
    assert cli.run(["plan", folder.id]) == errors.DONE
    assert "no plan" in capsys.readouterr().out
