"""A list, a report and a screen count a journal alike, also one that this program would not write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sessions.disk.journal import read
from tests.helpers.cli_sessions import write
from tests.helpers.session_events import closed, opened, pivot
from tui import cli, errors
from tui.viewer.session import LiveSession

if TYPE_CHECKING:
    from pathlib import Path

    from sessions.store import SessionFolder


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path))


def screen(folder: SessionFolder) -> LiveSession:
    """What a viewer holds once it read the journal to its end."""
    session = LiveSession.of(folder, "attach")
    session.take(list(read(folder.journal_path, folder.registration().digest)))
    return session


def test_a_pivot_that_is_written_twice_counts_once_in_list_report_and_screen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One of two pivots changed its sign; it came twice, and a third came after its problem had closed."""
    changed, same = pivot(0, position=145, nets=(1, 1, -1)), pivot(0, position=161, nets=(1, 1, 1))
    folder = write([opened(), changed, changed, same, closed(0, 3), pivot(0, position=177, nets=(1, 1, -1)), closed(0)])
    assert cli.run(["list", "--json"]) == errors.DONE
    (listed,) = json.loads(capsys.readouterr().out)["sessions"]
    assert (listed["problems"], listed["pivots"], listed["headline"]) == (1, 2, "+50.0pp (50.0% vs 0.0%)")
    assert cli.run(["report", folder.id, "--json"]) == errors.DONE
    told = json.loads(capsys.readouterr().out)
    assert (told["problems"], told["pivots"], told["pooled_excess"]["value"]) == (1, 2, 0.5)
    live = screen(folder).state.live
    assert (live.problems, live.pivots, live.pooled_excess().value) == (1, 2, 0.5)


def test_a_pivot_that_contradicts_itself_is_refused_by_list_report_and_screen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It says k = 6 where 4 is registered: `list` shows the damage and no number of what comes after."""
    folder = write([opened(), pivot(0, nets=(1, 1, 1), k=6), closed(0)])
    assert cli.run(["list", "--json"]) == errors.DONE
    (listed,) = json.loads(capsys.readouterr().out)["sessions"]
    assert (listed["pivots"], listed["headline"].startswith("DAMAGED: events.jsonl line 2 says k = 6")) == (0, True)
    assert cli.run(["report", folder.id]) == errors.INTEGRITY
    assert "line 2" in screen(folder).broken
