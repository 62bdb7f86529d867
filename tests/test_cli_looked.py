"""Campaigns whose end looks at the data could choose: every form of a report says what that does, and what holds."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from sessions.events import Ended
from sessions.report.audit import Session, audit
from sessions.report.limits import AT_A_STOP, AT_EVERY_LOOK
from tests.helpers.cli_sessions import CROSSED, SAME, SPEC, campaign, measured, write
from tests.helpers.session_events import engine_ready, opened
from tui import cli, errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sessions.events import Event
    from sessions.store import SessionFolder
    from stats.sequential import StopRule
    from tests.helpers.cli_sessions import Nets

REPO = Path(__file__).resolve().parent.parent
CHANGED: tuple[tuple[Nets, ...], ...] = ((CROSSED,) * 4, (CROSSED, CROSSED, CROSSED, SAME)) * 4
"""Re-feed alone changes all or three quarters of four pivots in eight problems: every e-process crosses."""
FEW: tuple[tuple[Nets, ...], ...] = ((CROSSED, SAME), (SAME, SAME), (CROSSED, SAME))
"""No e-process crosses in three problems."""
STOPPED = Ended(state="stopped", exit_code=0, reason="stop rule: the e-process crossed 1/alpha = 20")
FINISHED = Ended(state="finished", exit_code=0, reason="all problems measured")
OPTIMISTIC = "so fixed-n intervals and p values (CR2, bootstrap, sign-flip, plain t) are optimistic"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home for every test."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("COLUMNS", raising=False)
    return tmp_path


def looking(
    problems: Sequence[Sequence[Nets]], ends: Iterable[Event], stop: StopRule = "symmetry", registered: int = 40
) -> SessionFolder:
    """A campaign under a stop rule."""
    spec = msgspec.structs.replace(SPEC, stop=stop, problems=registered, min_problems=2)
    return write([*campaign(problems)[:-1], *ends], spec)


def printed(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """What a command prints, its lines joined."""
    assert cli.run(list(args)) == errors.DONE
    return " ".join(capsys.readouterr().out.split())


def forms(folder: SessionFolder, out: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What each form of a session's report says, markup taken away, lines joined; the notes of JSON and of exports."""
    said = {"text": printed(capsys, "report", folder.id)}
    said["json"] = "\n".join(json.loads(printed(capsys, "report", folder.id, "--json"))["notes"])
    assert cli.run(["export", folder.id, "--format", "html,md,latex,csv", "--out", str(out)]) == errors.DONE
    said["stderr"] = capsys.readouterr().err
    for form, ending in (("html", "*.html"), ("md", f"{folder.id}.md"), ("latex", "*.tex")):
        (path,) = out.glob(ending)
        said[form] = path.read_text()
    said["html"] = html.unescape(re.sub(r"<[^>]*>", " ", said["html"]))
    said["md"] = re.sub(r"\\([\\`*_{}\[\]<>#|~&])", r"\1", said["md"])
    return {form: " ".join(text.split()) for form, text in said.items()}


def bound(folder: SessionFolder, process: str, capsys: pytest.CaptureFixture[str]) -> Any:
    """The lower bound by an e-process, as JSON has it."""
    assert cli.run(["report", folder.id, "--json"]) == errors.DONE
    return json.loads(capsys.readouterr().out)["sequential"][process]["lower"]


@pytest.mark.parametrize("stop", ["symmetry", "betting"])
def test_every_form_says_that_a_campaign_stopped_by_its_rule_and_what_holds(
    home: Path, capsys: pytest.CaptureFixture[str], stop: StopRule
) -> None:
    """One sentence with the bound by the registered process: text, html, md, LaTeX comments, JSON, export's stderr."""
    folder = looking(CHANGED, [STOPPED], stop)
    lower = bound(folder, stop, capsys)
    assert 0 < lower < 0.875
    holds = f"mean per-problem excess at least {100 * lower:+.1f}pp (one-sided, alpha = 0.05)"
    sentence = f"the campaign looked at its data after every problem and stopped by its rule, {OPTIMISTIC}"
    said = forms(folder, home / "out", capsys)
    for form, text in said.items():
        assert text.count(sentence) == 1, form
        assert f"; what holds is the {stop} e-process: {holds}" in text, form
        headline = f"looks at the data could end the campaign; by its {stop} e-process: {holds}."
        assert (headline in text) == (form not in {"json", "stderr"}), form  # those have notes alone
        assert ("valid once, at the planned end, and here nobody fixed n" in text) == (form not in {"json", "stderr"})
    for form in ("text", "html", "md"):
        assert "Excess of re-feed over the floor (fixed-n: optimistic here, see the notes)" in said[form]


@pytest.mark.parametrize(
    ("problems", "ends", "registered", "says"),
    [
        (CHANGED, [], 40, "looks at its data after every problem and stops by its rule,"),
        (FEW, [], 40, "looks at its data after every problem and stops by its rule,"),
        (FEW, [STOPPED], 40, "looks at its data after every problem and stops by its rule,"),  # hours ran out before
        (FEW, [FINISHED], 3, "looked at its data after every problem and would have stopped by its rule,"),
    ],
)
def test_a_rule_that_did_not_end_the_campaign_looked_all_the_same(
    capsys: pytest.CaptureFixture[str],
    problems: Sequence[Sequence[Nets]],
    ends: list[Event],
    registered: int,
    says: str,
) -> None:
    """Running, out of hours, or at the last problem without a crossing: the sentence says which, and has the bound."""
    folder = looking(problems, ends, registered=registered)
    shown = printed(capsys, "report", folder.id)
    assert f"the campaign {says} {OPTIMISTIC}" in shown
    assert "by its symmetry e-process: " in shown


def test_a_campaign_that_went_on_past_its_stop_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Who continues after a crossing chose the end by the data all the more."""
    past = msgspec.structs.replace(opened(), past_stop=True)
    folder = looking(CHANGED, [STOPPED, past, engine_ready(), *measured(8, FEW[0]), FINISHED], registered=9)
    assert "after every problem and went on past the stop of its rule, so" in printed(capsys, "report", folder.id)


def test_a_number_fixed_in_advance_is_not_called_optimistic(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a stop rule no look could end the campaign, crossed or not."""
    folder = write([*campaign(CHANGED)[:-1], FINISHED], msgspec.structs.replace(SPEC, problems=8))
    for form, text in forms(folder, home / "out", capsys).items():
        assert "optimistic" not in text, form
        assert "nobody fixed" not in text, form


def test_an_import_does_not_know_how_it_was_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither said to be optimistic nor to be planned; a `stop` in its spec is the importer's default at best."""
    start = msgspec.structs.replace(opened(), source="primary.json", source_sha256="ef" * 32)
    spec = msgspec.structs.replace(SPEC, stop="symmetry", problems=8, min_problems=2)
    folder = write([start, *campaign(CHANGED)[2:-1], FINISHED], spec)
    shown = printed(capsys, "report", folder.id)
    assert "imported from primary.json" in shown
    assert "optimistic" not in shown
    assert "took 8" in printed(capsys, "plan", folder.id).split("t, fixed in advance")[1]


def test_a_pool_has_the_bound_of_all_its_evidence_and_a_sentence_for_each_session() -> None:
    """Its headline has the pooled bound; the sentences of the sessions have their own."""
    one = looking(CHANGED, [STOPPED])
    spec = msgspec.structs.replace(one.spec(), start=8)
    other = write([*campaign(CHANGED, start=8)[:-1], STOPPED], spec)
    made = audit([Session.load(one), Session.load(other)])
    lower = made.report.sequential.symmetry.lower
    assert lower is not None
    assert (
        f"by its symmetry e-process: mean per-problem excess at least {100 * lower:+.1f}pp" in made.document().headline
    )
    notes = [note for note in made.report.notes if OPTIMISTIC in note]
    assert [note.split(":")[0] for note in notes] == [one.id, other.id]
    assert not any(f"{100 * lower:+.1f}pp" in note for note in notes)


def test_side_by_side_and_against_say_it_of_each_session(capsys: pytest.CaptureFixture[str]) -> None:
    """Columns have the bound where there was a rule; the session compared with is told of too."""
    one = looking(CHANGED, [STOPPED])
    fixed = write([*campaign(CHANGED)[:-1], FINISHED], msgspec.structs.replace(SPEC, problems=8))
    assert cli.run(["report", one.id, fixed.id]) == errors.DONE
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    (row,) = (row for row in rows if row[:2] == ["at", "least"])
    assert row[2].endswith("pp")
    assert row[3] == "-"
    assert f"{one.id}, compared with: the campaign looked" in printed(capsys, "report", fixed.id, "--against", one.id)


def test_the_false_alarms_of_the_sentence_are_the_measured_ones() -> None:
    """They are read off benchmarks/results/peeking_size.json, over both published runs."""
    sizes = json.loads((REPO / "benchmarks/results/peeking_size.json").read_text())["sizes"]

    def span(prefix: str, *, but: str = "!") -> str:
        found = [
            round(100 * measured["size"])
            for run in sizes.values()
            for name, measured in run["procedures"].items()
            if name.startswith(prefix) and but not in name
        ]
        return f"{min(found)} to {max(found)}%"

    assert span("plain_t_two_sided_at_the_stop") == AT_A_STOP
    assert span("plain_t", but="_at_the_") == AT_EVERY_LOOK


def test_a_plan_does_not_say_that_a_fixed_t_took_what_a_look_chose(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody fixed the number of a campaign that its rule could end; with a fixed number the t took all of it."""
    for folder in (looking(CHANGED, [STOPPED]), looking(CHANGED, [])):
        assert cli.run(["plan", folder.id]) == errors.DONE
        shown = capsys.readouterr().out
        (row,) = (line for line in shown.splitlines() if line.startswith("t, fixed in advance"))
        assert "nobody fixed a number of problems" in row
        assert "took" not in row
        assert max(map(len, shown.splitlines())) <= 80
        rows = json.loads(printed(capsys, "plan", folder.id, "--json"))["rows"]
        assert {row["procedure"]: (row["took"], row["why"]) for row in rows}["fixed_t"] == (
            None,
            "nobody fixed a number of problems",
        )
    fixed = write([*campaign(CHANGED)[:-1], FINISHED], msgspec.structs.replace(SPEC, problems=8))
    assert "took 8" in printed(capsys, "plan", fixed.id).split("t, fixed in advance")[1]
