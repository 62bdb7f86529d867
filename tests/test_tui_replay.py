"""Replays: the same screens on the recorded clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessions.events import Ended, Opened, Paused, ProblemClosed
from tests.helpers.tui_journals import Script, imported
from tests.helpers.tui_pilot import opened, screen_text, settle, until
from tui.dashboard.screens.replay import ReplayScreen
from tui.viewer.tape import Tape

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot

    from sessions.events import AnyEvent
    from tui.dashboard.app import RefeedApp


def recorded(home: Path, problems: int = 10, *, fails: bool = False) -> Script:
    """A session that ended; its e-value crosses."""
    script = Script(home, name="recorded")
    script.begin()
    for problem in range(problems):
        script.problem(problem, script.nets(refeed=0.6, floor=0.02))
    if fails:
        script.trunks(problems)
        script.passes(problems, upto=2, done=0.5)
        script.fail(problems)
    else:
        script.finish()
    script.journal.close()
    return script


def tape_of(shown: ReplayScreen) -> Tape:
    """The recording, which was read."""
    assert shown.tape is not None
    return shown.tape


async def screen(app: RefeedApp, pilot: Pilot[int], *keys: str) -> tuple[ReplayScreen, str]:
    """Press keys, wait for a seek to end."""
    await pilot.press(*keys)
    await pilot.pause(0.05)
    await settle(app, pilot)
    assert isinstance(app.screen, ReplayScreen)
    return app.screen, screen_text(app)


async def test_a_replay_starts_at_the_beginning_and_runs(tmp_path: Path) -> None:
    """Problems appear one after the other until the end, sooner when it is made faster."""
    script = recorded(tmp_path)
    async with opened(script.folder, mode="replay") as (app, pilot):
        assert "REPLAY" in screen_text(app)
        assert isinstance(app.screen, ReplayScreen)
        early = len(app.screen.session.state.measured)
        assert early < 10
        await pilot.press(*["plus"] * 8)
        text = await until(app, pilot, "FINISHED")
    assert "10/20 problems" in text
    assert "ended" in text


async def test_space_holds_the_clock_and_points_step(tmp_path: Path) -> None:
    """Space stops the tape; `.` and `,` move by one event."""
    script = recorded(tmp_path)
    async with opened(script.folder, (120, 40), mode="replay", speed=0.125) as (app, pilot):
        shown, text = await screen(app, pilot, "space")
        assert "held" in text
        position = tape_of(shown).position
        shown, text = await screen(app, pilot, "full_stop", "full_stop", "full_stop")
        assert tape_of(shown).position == position + 3
        assert shown.session.state.events == position + 3
        shown, text = await screen(app, pilot, "comma")
        assert shown.session.state.events == position + 2


async def test_problems_speed_and_seeking(tmp_path: Path) -> None:
    """`n` and `p` go by problems, `+` and `-` change the speed, `t` asks for a task."""
    script = recorded(tmp_path)
    async with opened(script.folder, mode="replay", speed=0.25) as (app, pilot):
        shown, text = await screen(app, pilot, "n", "n", "n")
        assert "3/20 problems" in text
        shown, text = await screen(app, pilot, "p")
        assert "2/20 problems" in text
        shown, text = await screen(app, pilot, "plus")
        assert tape_of(shown).speed == 0.5
        shown, text = await screen(app, pilot, "minus", "minus")
        assert tape_of(shown).speed == 0.125
        await pilot.press("t")
        await pilot.pause(0.1)
        await pilot.press("7", "enter")
        shown, text = await screen(app, pilot)
        assert "7/20 problems" in text


async def test_the_crossing_is_found(tmp_path: Path) -> None:
    """`x` goes to the problem whose closing made the e-value cross, not one event earlier."""
    script = recorded(tmp_path)
    async with opened(script.folder, mode="replay", speed=0.125) as (app, pilot):
        await pilot.press("x")
        await until(app, pilot, "CROSSED")
        shown, text = await screen(app, pilot)
        assert "CROSSED" in text
        crossing = shown.session.state.live.monitor.symmetry.crossing
        assert crossing is not None
        assert len(shown.session.state.measured) == crossing.informative
        shown, text = await screen(app, pilot, "comma")
        assert "CROSSED" not in text


async def test_the_failure_is_found(tmp_path: Path) -> None:
    """`f` goes to the first cache failure; without one it says so."""
    script = recorded(tmp_path, problems=2, fails=True)
    async with opened(script.folder, mode="replay", speed=0.125) as (app, pilot):
        _, text = await screen(app, pilot, "f")
        assert "CACHE FAILED" in text
    clean = recorded(tmp_path, problems=1)
    async with opened(clean.folder, mode="replay", speed=0.125) as (app, pilot):
        _, text = await screen(app, pilot, "f")
        assert "no cache check failed" in text


async def test_a_replay_and_an_attach_end_alike(tmp_path: Path) -> None:
    """Played to its end, a recording shows what attaching to it shows."""
    script = recorded(tmp_path, problems=3)
    async with opened(script.folder) as (app, _):
        attached = screen_text(app).split("\n")[3:-3]
    async with opened(script.folder, (80, 25), mode="replay", speed=4096.0) as (app, pilot):
        await until(app, pilot, "FINISHED")
        await settle(app, pilot)
        replayed = screen_text(app).split("\n")[3:-4]
    assert replayed == attached


async def test_imports_without_a_clock_are_played_evenly(tmp_path: Path) -> None:
    """A recording in which no time passes is played at a fixed pace."""
    folder = imported(tmp_path, "smoke")
    async with opened(folder, mode="replay", speed=0.125) as (app, pilot):
        shown, _ = await screen(app, pilot)
        assert tape_of(shown).length > 0
        assert tape_of(shown).at == sorted(tape_of(shown).at)


async def test_a_replay_has_no_worker_to_command(tmp_path: Path) -> None:
    """Abort and pause do nothing in a replay, and say why."""
    script = recorded(tmp_path, problems=1)
    async with opened(script.folder, mode="replay") as (app, pilot):
        _, text = await screen(app, pilot, "A")
        assert "this is a replay" in text


def test_gaps_between_runs_are_shortened() -> None:
    """The tape goes on at a later run's own clock, after at most a short gap."""
    events: list[AnyEvent] = [
        Opened(session="s", version="1", seq=0, mono=0.0),
        ProblemClosed(problem=0, attempt=0, outcome="measured", pivots=0, seconds=1.0, seq=1, mono=50.0),
        Opened(session="s", version="1", seq=2, mono=0.1),
        Ended(state="finished", exit_code=0, reason="", seq=3, mono=10.1),
    ]
    tape = Tape(events)
    assert tape.at == pytest.approx([0.0, 50.0, 50.1, 60.1])


async def test_a_replayed_pause_offers_no_key_of_a_worker(tmp_path: Path) -> None:
    """What was held then is not held now, and there is nothing to resume."""
    script = Script(tmp_path)
    script.begin()
    script.say(Paused())
    async with opened(script.folder, (120, 40), mode="replay", speed=0.125) as (app, pilot):
        shown, text = await screen(app, pilot, "space")
        shown.seek(len(tape_of(shown).events))
        await settle(app, pilot)
        text = screen_text(app)
    assert "was held and billed meanwhile" in text
    assert "P goes on" not in text


async def test_a_verdict_in_the_middle_of_a_replayed_import_is_one_so_far(tmp_path: Path) -> None:
    """Imports know no planned end but that of their file; before it a verdict is as unfinished as a campaign's."""
    folder = imported(tmp_path)
    async with opened(folder, (120, 40), mode="replay", speed=0.125) as (app, pilot):
        shown, text = await screen(app, pilot, "space", *["n"] * 5)
        assert "LOAD-BEARING so far" in text
        shown.seek(len(tape_of(shown).events))
        await settle(app, pilot)
        text = screen_text(app)
        assert "LOAD-BEARING" in text
        assert "so far" not in text
