"""What a screen of 80x24 leaves out, it leaves out whole: no word, number or name is cut that is said nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.helpers.tui_journals import Script
from tests.helpers.tui_pilot import opened, screen_text, settle, until
from tui.dashboard.panels.live import recent, recent_title
from tui.dashboard.screens.home import HomeScreen
from tui.dashboard.screens.new import NewScreen
from tui.dashboard.widgets.lines import Lines
from tui.dashboard.widgets.plot import Plot
from tui.dashboard.widgets.table import LineTable
from tui.setup.draft import NAMES
from tui.viewer.session import LiveSession

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot

    from tui.dashboard.app import RefeedApp


async def panel(app: RefeedApp, pilot: Pilot[int], key: str) -> str:
    """Show a panel and return the screen's text."""
    await pilot.press(key)
    await pilot.pause(0.1)
    await settle(app, pilot)
    return screen_text(app)


async def test_a_log_that_scrolls_is_broken_for_the_room_beside_its_scrollbar(tmp_path: Path) -> None:
    """The lines of a finished session are broken once, before there is a scrollbar; no word ends in a cut mark."""
    script = Script(tmp_path)
    script.begin()
    for problem in range(20):
        script.problem(problem, script.nets(10 + problem))
    script.finish()
    async with opened(script.folder) as (app, pilot):
        await pilot.press("7")
        await pilot.pause(1.2)  # nothing is painted again while nothing happens
        text = screen_text(app)
        table = app.screen.query_one("#log-table", LineTable)
        kept = [table.rows.cells(row)[0][0] for row in range(len(table.rows))]
        room = table.room
    assert max(len(line) for line in kept) <= room
    assert "~" not in text


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_both_curves_of_the_probes_are_named(tmp_path: Path, size: tuple[int, int]) -> None:
    """Both reach 100% at the right edge, where one name hid the other; without colours it was the only difference."""
    script = Script(tmp_path)
    script.begin()
    script.problem(0, script.nets())
    script.finish()
    async with opened(script.folder, size) as (app, pilot):
        await panel(app, pilot, "4")
        plot = app.screen.query_one("#probe", Plot).text
    assert "re-feed" in plot
    assert "replica" in plot


async def test_probes_that_are_all_bit_exact_share_one_name(tmp_path: Path) -> None:
    """In batch-invariant mode both curves are one."""
    script = Script(tmp_path)
    script.begin()
    script.trunks(0)
    script.passes(0)
    for number in range(4):
        script.say(script.pivot(0, 3 * number, (1, 1, 1)))  # the builder shifts the others
    script.close(0, 4)
    script.finish()
    async with opened(script.folder) as (app, pilot):
        await panel(app, pilot, "4")
        assert "replica, re-feed" in app.screen.query_one("#probe", Plot).text


def test_a_recent_pivot_keeps_its_position_and_its_quotes(tmp_path: Path) -> None:
    """A position that loses its last digit is another position."""
    script = Script(tmp_path)
    script.begin()
    import msgspec  # noqa: PLC0415

    pivot = script.pivot(1318, 0, (1, 1, 1))
    far = msgspec.structs.replace(pivot, rollout=10, position=1024, actual_text="crayons", alternative_text="pencils")
    session = LiveSession.of(script.folder, "attach")
    session.take([far])
    for width in (78, 118):
        (line,) = recent(session.state, 1, width)
        text = "".join(part for part, _ in line)
        assert text.startswith("1318 r10 @1024 ")
        assert text.count('"') == 4
        assert len(text) <= width
        title = recent_title(width)[0][0]
        assert len(title) <= width
        for column in ("re-feed", "floor", "cache"):
            assert title.index(column) == {"re-feed": 38, "floor": 47, "cache": 56}[column]
        assert text[38:42] == text[47:51] == "same"
        assert text[56:58] == "ok"
        assert title.endswith(("arms", "alternative"))


async def test_a_long_value_of_a_new_campaign_can_be_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table has 24 cells for it; below, the field under the cursor says what it means and what it is."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path))
    path = "/mnt/shared/" + "a-folder-with-a-long-name/" * 4 + "snapshot"
    async with opened(None, (80, 24), "home") as (app, pilot):
        await pilot.press("n")
        await pilot.pause(0.3)
        screen = app.screen
        assert isinstance(screen, NewScreen)
        for name, value in (("model", path), ("prompt", "Think step by step. " * 6)):
            screen.draft.set(name, value)
            screen._show()
            screen.query_one(LineTable).jump(NAMES.index(name))
            await pilot.pause(0.3)
            shown = screen.query_one("#new-meaning", Lines).text.replace("\n", "")
            assert len(max(screen_text(app).split("\n"), key=len)) == 80
            assert value.replace(" ", "") in shown.replace(" ", "")


LONG_NAME = "a-name-that-somebody-gave-at-night-and-that-no-table-has-room-1"


async def test_a_long_name_can_be_read_at_home_and_in_a_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list cuts it; the line below says it whole, for the session under the cursor, as the comparison does."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path))
    scripts = [Script(tmp_path, name=name) for name in (LONG_NAME, "short")]
    for script in scripts:
        script.begin()
        script.problem(0, script.nets())
        script.finish()
    async with opened(None, (80, 24), "home") as (app, pilot):
        await until(app, pilot, "2 sessions")
        screen = app.screen
        assert isinstance(screen, HomeScreen)
        table = screen.query_one(LineTable)
        told = {}
        for row in range(2):
            table.jump(row)
            await pilot.pause(0.1)
            assert screen.entry is not None
            told[screen.entry.row.name] = screen.query_one("#home-detail", Lines).text.replace("\n", " ")
        await pilot.press("c")
        compared = await until(app, pilot, "excess")
    assert all(name is not None and name in text for name, text in told.items())
    assert all(script.folder.id in told[script.folder.name] for script in scripts)
    assert LONG_NAME in "".join(line.strip() for line in compared.split("\n"))


async def test_the_way_out_and_the_help_stand_in_the_bottom_line_of_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 80 columns keys are left out; those by which the others are found are not among them."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path))
    async with opened(None, (80, 24), "home") as (app, pilot):
        last = (await until(app, pilot, "no sessions yet")).split("\n")[-1]
    for said in ("q quit", "? help", "n new", "enter open"):
        assert said in last


async def test_a_finished_campaign_without_evidence_promises_none(tmp_path: Path) -> None:
    """No problem "has to close" in a session whose problems all closed without a pivot."""
    script = Script(tmp_path)
    script.begin()
    script.problem(0, [])
    script.finish()
    async with opened(script.folder) as (app, pilot):
        assert "no measured problem had a pivot that counts" in await panel(app, pilot, "3")
