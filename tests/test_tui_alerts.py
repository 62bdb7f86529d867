"""What rings: an end, a failed cache check, a crossing; nothing else, and never what stood there before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from sessions.events import Ended, Notice
from sessions.spec import CampaignSpec
from sessions.state.fold import new_state
from tests.helpers.session_events import cache_failure
from tests.helpers.tui_journals import Script
from tests.helpers.tui_pilot import living, opened, screen_text, when
from tui.dashboard.app import RefeedApp
from tui.dashboard.terminal import alert, crossed, notification

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from sessions.state.campaign import CampaignState
    from stats.sequential import StopRule

FAILURE = msgspec.structs.replace(cache_failure(3, policy="record"), reason="evicted \x1b]9;evil\x07")
END = Ended(state="aborted", exit_code=4, reason="cache check failed")


def state_with(*xs: float, stop: StopRule = "none") -> CampaignState:
    """A state whose e-processes saw these problems."""
    state = new_state(CampaignSpec(stop=stop))
    for problem, x in enumerate(xs):
        state.live.monitor.update(problem, int(10 * x), 10)
    return state


def test_an_end_rings_before_a_failure_and_a_failure_before_a_crossing() -> None:
    """One line a batch: the most serious one."""
    state = state_with(*[1.0] * 10)
    assert crossed(state)
    assert "aborted: cache check failed" in alert([FAILURE, END], state, had_crossed=False)
    assert "problem 3" in alert([FAILURE], state, had_crossed=False)
    assert "crossed 1/alpha = 20" in alert([], state, had_crossed=False)


def test_the_crossing_that_rings_is_that_of_the_registered_stop_rule() -> None:
    """Small effects that never change sign let symmetry cross alone, large ones with an exception betting alone."""
    small, large = [0.1] * 12, [1.0, 1.0, 1.0, -0.5] * 3
    assert crossed(state_with(*small))
    assert crossed(state_with(*small, stop="symmetry"))
    assert alert([], state_with(*small, stop="betting"), had_crossed=False) == ""
    assert alert([], state_with(*large, stop="symmetry"), had_crossed=False) == ""
    said = alert([], state_with(*large, stop="betting"), had_crossed=False)
    assert said == "refeed-tui: the betting e-value crossed 1/alpha = 20"


def test_what_is_not_worth_a_bell_says_nothing() -> None:
    """A notice, a crossing that is old, a campaign below the line."""
    assert alert([Notice(kind="x", text="y")], state_with(0.1), had_crossed=False) == ""
    assert alert([], state_with(*[1.0] * 10), had_crossed=True) == ""


def test_nothing_of_a_reason_can_end_the_sequence() -> None:
    """Control characters of a stranger's journal do not reach the terminal through the notification."""
    text = alert([FAILURE], state_with(), had_crossed=False)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert notification(text).count("\x1b") == 1


async def test_only_what_happens_while_watched_rings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attaching to a session that ended long ago is silent; an end that comes while it is watched is heard."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path))
    heard: list[str] = []
    monkeypatch.setattr(RefeedApp, "wake", lambda _app, text: heard.append(text))
    old = Script(tmp_path / "old")
    old.say(END)
    async with opened(old.folder):
        pass
    assert [text for text in heard if text] == []
    script = Script(tmp_path / "new")
    script.begin()
    with living(script.folder):
        async with opened(script.folder) as (app, pilot):
            script.say(END)
            await when(pilot, lambda: any(heard), lambda: f"nobody was called:\n{screen_text(app)}")
    assert any("aborted: cache check failed" in text for text in heard)
