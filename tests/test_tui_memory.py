"""A dashboard that is used for long holds the session that is looked at, and nothing of those before."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from sessions.state.campaign import CampaignState
from tests.helpers.tui_journals import Script
from tests.helpers.tui_pilot import living, opened, session_of, settle
from tui.dashboard.screens.campaign import CampaignScreen
from tui.dashboard.screens.home import HomeScreen
from tui.dashboard.screens.inspector import InspectorScreen
from tui.dashboard.screens.replay import ReplayScreen

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from textual.pilot import Pilot

    from tui.dashboard.app import RefeedApp


def campaigns() -> list[CampaignState]:
    """Every folded campaign that is still held by anything."""
    gc.collect()
    kept = [one for one in gc.get_objects() if type(one) is CampaignState]  # isinstance would ask lazy modules, too
    return [one for one in kept if one.events > 0]


def drawn() -> int:
    """Style caches that are still held by anything, each with the lines that a widget drew."""
    gc.collect()
    return sum(type(one).__name__ == "StylesCache" for one in gc.get_objects())


async def open_again(app: RefeedApp, pilot: Pilot[int], key: str = "enter") -> None:
    """Go to the list and open the session anew."""
    await pilot.press("0")
    for _ in range(200):
        await pilot.pause(0.02)
        if isinstance(app.screen, HomeScreen) and app.screen.entry is not None:
            break
    await pilot.press(key)
    for _ in range(200):
        await pilot.pause(0.02)
        if isinstance(app.screen, CampaignScreen):
            break
    await settle(app, pilot)


async def look_around(app: RefeedApp, pilot: Pilot[int]) -> None:
    """Use every panel, the inspector, help, and other sizes."""
    for key in "12345678":
        await pilot.press(key)
        await settle(app, pilot)
    await pilot.press("2", "enter")
    await pilot.pause(0.1)
    assert isinstance(app.screen, InspectorScreen)
    await pilot.press("n", "escape", "question_mark", "escape", "w")
    for size in ((80, 24), (120, 40)):
        await pilot.resize_terminal(*size)
        await settle(app, pilot)


async def test_sessions_that_were_left_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Going back and forth between list and session holds one campaign, and what one screen drew."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path))
    script = Script(tmp_path, name="night")
    script.begin()
    for problem in range(3):
        script.problem(problem, script.nets())
    before = len(campaigns())
    with living(script.folder):
        async with opened(script.folder, (120, 40)) as (app, pilot):
            await look_around(app, pilot)
            await open_again(app, pilot)
            once = drawn()
            for _ in range(2):
                await look_around(app, pilot)
                await open_again(app, pilot)
            held = [state for state in campaigns() if state is not session_of(app).state]
            assert len(held) == before
            assert drawn() < 1.8 * once


async def test_a_recording_is_forgotten_with_its_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All events of a replay are a few hundred MB after a night; they go with the screen."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path))
    script = Script(tmp_path, name="night")
    script.begin()
    script.problem(0, script.nets())
    script.finish()
    async with opened(script.folder, (120, 40)) as (app, pilot):
        await open_again(app, pilot, "r")
        replayed = app.screen
        assert isinstance(replayed, ReplayScreen)
        assert replayed.tape is not None
        await open_again(app, pilot)
        assert replayed.tape is None
