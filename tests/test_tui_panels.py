"""Panels, keys and dialogs of a campaign."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest
from textual.events import Paste
from textual.widgets import Input

from tests.helpers.tui_journals import Script, imported
from tests.helpers.tui_pilot import living, opened, screen_text, session_of, settle, when
from tui.dashboard.panels.pivots import PivotsPane
from tui.dashboard.screens.campaign import CampaignScreen
from tui.dashboard.screens.dialogs import KEYS
from tui.dashboard.screens.inspector import InspectorScreen
from tui.dashboard.widgets.lines import ScrollLines

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot

    from tui.dashboard.app import RefeedApp


def measured(home: Path, problems: int = 4) -> Script:
    """A campaign with some closed problems."""
    script = Script(home, name="audit")
    script.begin()
    for problem in range(problems):
        script.problem(problem, script.nets())
    return script


async def press(app: RefeedApp, pilot: Pilot[int], *keys: str) -> str:
    """Press keys and return the screen's text."""
    await pilot.press(*keys)
    await pilot.pause(0.1)
    if isinstance(app.screen, CampaignScreen):
        await settle(app, pilot)
    return screen_text(app)


PANELS = {
    "2": "48 of 48 pivots, by order of work",
    "3": "re-feed, K = 4, n = ",
    "4": "bit-exact",
    "5": "|credit| >= 0.5",
    "6": "measured",
    "7": "closed: 12 pivots",
    "8": "pooled excess above 0.05 (5pp): load-bearing",
    "1": "symmetry e",
}


async def test_each_digit_shows_its_panel(tmp_path: Path) -> None:
    """Digits switch panels, and each panel shows its own facts."""
    script = measured(tmp_path)
    script.finish()
    async with opened(script.folder) as (app, pilot):
        for key, said in PANELS.items():
            text = await press(app, pilot, key)
            assert said in text
            assert f"[{key} " in text


@pytest.mark.parametrize("size", [(120, 40), (200, 60)])
async def test_every_panel_is_ascii_when_asked(tmp_path: Path, size: tuple[int, int]) -> None:
    """No panel draws a character outside ASCII on a terminal that has none."""
    script = measured(tmp_path, problems=3)
    script.finish()
    async with opened(script.folder, size, ascii_only=True) as (app, pilot):
        for key in "12345678":
            text = await press(app, pilot, key)
            assert text.isascii(), f"panel {key}"


async def test_hidden_panels_are_not_painted(tmp_path: Path) -> None:
    """Plots of a panel that is not shown are not drawn when events come."""
    script = measured(tmp_path)
    with living(script.folder):
        async with opened(script.folder) as (app, pilot):
            await press(app, pilot, "6")
            before = app.screen.query_one("#trend").draws  # type: ignore[attr-defined]
            script.problem(4, script.nets())
            await when(pilot, lambda: "4 measured" in " ".join(screen_text(app).split()), lambda: screen_text(app))
            assert app.screen.query_one("#trend").draws == before  # type: ignore[attr-defined]


async def test_filter_keeps_what_matches_and_says_how_many(tmp_path: Path) -> None:
    """`/` filters by words; a word that means nothing is told, and escape shows everything again."""
    script = measured(tmp_path)
    script.finish()
    async with opened(script.folder) as (app, pilot):
        await press(app, pilot, "2")
        text = await press(app, pilot, "slash", *"task:1", "enter")
        assert "12 of 48 pivots that match 'task:1'" in text
        text = await press(app, pilot, "slash", *"x", "enter")
        text = await press(app, pilot, "slash", *[*["backspace"] * 7, *"task:no"], "enter")
        assert "task: wants a number, not 'no'" in text
        text = await press(app, pilot, "escape")
        assert "48 of 48 pivots" in text


@pytest.mark.parametrize("key", ["slash", "t"])
async def test_what_is_pasted_is_shown_and_does_not_act(tmp_path: Path, key: str) -> None:
    """Escape sequences in pasted text never reach the terminal: neither while it is edited, nor in what is said."""
    script = measured(tmp_path, problems=1)
    script.finish()
    mode: Literal["attach", "replay"] = "replay" if key == "t" else "attach"
    async with opened(script.folder, mode=mode) as (app, pilot):
        await press(app, pilot, "space" if key == "t" else "2")
        await press(app, pilot, key)
        field = app.screen.focused
        assert isinstance(field, Input)
        field.post_message(Paste("\x1b]0;owned\x07\x9b2J[bold]\u202e" + "x" * 90))
        await pilot.pause(0.2)
        edited = screen_text(app)
        await pilot.press("home")
        await pilot.pause(0.1)
        edited += screen_text(app)
        said = await press(app, pilot, "enter")
    assert r"\x1b]0;owned\x07\x9b2J[bold]\u202e" in edited
    for control in ("\x1b", "\x07", "\x9b", "\u202e"):
        assert control not in edited
        assert control not in said
    assert key == "t" or "by order of work" in said


async def test_filters_agree_with_the_journal(tmp_path: Path) -> None:
    """`reversed`, `zero` and `same`, the words of the table, part the pivots without rest; `flip` is the old word."""
    folder = imported(tmp_path, "screened")
    async with opened(folder) as (app, pilot):
        await press(app, pilot, "2")
        counts = []
        for word in ("reversed", "zero", "same", "flip"):
            pane = app.screen.query_one(PivotsPane)
            await press(app, pilot, "slash", *["backspace"] * 8, *word, "enter")
            rows = pane.table.rows
            assert word == "flip" or {rows.cells(row)[8][0].lower() for row in range(len(rows))} == {word}
            counts.append(len(rows))
        live = session_of(app).state.live
        assert sum(counts[:3]) == len(session_of(app).state.pivots)
        assert counts[0] == counts[3] == live.common.refeed.reversals
        assert counts[0] + counts[1] == live.common.refeed.disagree


async def test_sorting_and_jumping_to_disagreements(tmp_path: Path) -> None:
    """`s` sorts by the next column, `S` turns it round, `d` and `D` go to changed signs."""
    script = measured(tmp_path)
    script.finish()
    async with opened(script.folder, (120, 40)) as (app, pilot):
        await press(app, pilot, "2")
        text = await press(app, pilot, "s", "s", "s")
        assert "by margin" in text
        pane = app.screen.query_one(PivotsPane)
        margins = [float(pane.table.rows.cells(row)[3][0]) for row in range(len(pane.table.rows))]
        assert margins == sorted(margins)
        text = await press(app, pilot, "S")
        assert "by margin, backwards" in text
        await press(app, pilot, "g", "d")
        assert pane.table.rows.cells(pane.table.cursor)[8][0] in {"zero", "REVERSED"}
        first = pane.table.cursor
        await press(app, pilot, "d")
        assert pane.table.cursor > first
        await press(app, pilot, "D")
        assert pane.table.cursor == first


async def test_the_cursor_keeps_its_pivot_while_rows_come(tmp_path: Path) -> None:
    """A table that is not at its end keeps its place; at the end it follows."""
    script = measured(tmp_path)
    with living(script.folder):
        async with opened(script.folder) as (app, pilot):
            await press(app, pilot, "2")
            table = app.screen.query_one(PivotsPane).table
            assert table.cursor == 47
            await press(app, pilot, "k", "k")
            script.problem(4, script.nets())
            await when(pilot, lambda: len(table.rows) == 60, lambda: screen_text(app))
            assert table.cursor == 45
            await press(app, pilot, "G")
            script.problem(5, script.nets())
            await when(pilot, lambda: len(table.rows) == 72, lambda: screen_text(app))
            assert table.cursor == 71


async def test_the_inspector_shows_one_pivot_in_full(tmp_path: Path) -> None:
    """Enter opens a pivot with its estimates, proof and probes to the last bit; n and p walk on."""
    script = measured(tmp_path)
    script.finish()
    async with opened(script.folder, (120, 40)) as (app, pilot):
        await press(app, pilot, "2", "g", "enter")
        await pilot.pause(0.3)
        assert isinstance(app.screen, InspectorScreen)
        text = screen_text(app)
        for said in (
            "task 0, rollout 0",
            "VERIFIED by block ledger",
            "each exact request had to hit 112 tokens (0 from decode)",
            (-0.5).hex(),
            "this session keeps no texts",
        ):
            assert said in text
        await pilot.press("n")
        await pilot.pause(0.3)
        assert "task 0, rollout 1" in screen_text(app)
        await pilot.press("p", "escape")
        await pilot.pause(0.2)
        assert isinstance(app.screen, CampaignScreen)


async def test_the_joint_distribution_counts_every_eligible_pivot(tmp_path: Path) -> None:
    """Both maps say n and how it parts, for both conditionings."""
    folder = imported(tmp_path, "primary")
    async with opened(folder, (120, 40)) as (app, pilot):
        text = await press(app, pilot, "3")
        live = session_of(app).state.live
        common, exact1 = live.common, live.exact1
        assert text.count(f"n = {common.n}") == 2
        kept = common.n - common.refeed.disagree
        assert f"same {kept}, zero {common.refeed.zero_crossings}, reversed {common.refeed.reversals}" in text
        text = await press(app, pilot, "c")
        assert text.count(f"n = {exact1.n}") == 2


async def test_help_names_the_keys(tmp_path: Path) -> None:
    """`?` shows the keys, and escape closes it."""
    script = measured(tmp_path, problems=1)
    script.finish()
    async with opened(script.folder) as (app, pilot):
        await pilot.press("question_mark")
        await pilot.pause(0.2)
        text = screen_text(app)
        assert "abort the campaign, after a question" in text
        assert "a running campaign goes on" in text
        assert all(does in text for _, does in KEYS)
        await pilot.press("escape")
        await pilot.pause(0.1)
        assert isinstance(app.screen, CampaignScreen)


async def test_help_fits_a_terminal_that_became_smaller(tmp_path: Path) -> None:
    """The key that closes it stays on the screen, and everything can be scrolled to."""
    script = measured(tmp_path, problems=1)
    script.finish()
    async with opened(script.folder, (120, 40)) as (app, pilot):
        await pilot.press("question_mark")
        await pilot.pause(0.2)
        assert "go to the first cache failure" in screen_text(app)
        for size in ((80, 24), (60, 15), (100, 30)):
            await pilot.resize_terminal(*size)
            await pilot.pause(0.2)
            assert "esc close" in screen_text(app), size
            await pilot.press("G")
            await pilot.pause(0.2)
            assert "go to the first cache failure" in screen_text(app), size


async def test_copy_writes_a_file_and_asks_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`y` copies the panel: OSC 52 has no answer, so a file holds the same text."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path))
    script = measured(tmp_path, problems=2)
    script.finish()
    async with opened(script.folder) as (app, pilot):
        text = await press(app, pilot, "6", "y")
        copied = (tmp_path / "clipboard.txt").read_text()
        assert app.clipboard == copied
        assert "copied" in text
    assert copied.startswith("task\tstate")
    assert len(copied.split("\n")) == 3


async def test_the_setup_panel_cuts_nothing_and_copies_values_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of numerics stand whole, also those that are longer than their column; what wraps is copied unbroken."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path))
    long = "a_fact_with_a_name_longer_than_its_column"
    script = Script(tmp_path, settings={"model": "/a/" + "long/" * 30 + "path"})
    script.begin(numerics={"attention_prefill": "tiles", long: "its value", "nothing": ""})
    async with opened(script.folder) as (app, pilot):
        await press(app, pilot, "8", "y")
        shown = app.screen.query_one("#registration", ScrollLines).text
    lines = [line.split() for line in shown.split("\n")]
    for wanted in (["attention_prefill", "tiles"], [long], ["its", "value"], ["nothing", "-"]):
        assert wanted in lines
    assert max(len(line) for line in shown.split("\n")) <= 80
    copied = (tmp_path / "clipboard.txt").read_text()
    for whole in (script.folder.registration().digest, str(script.folder.path), str(script.spec.model)):
        assert whole in copied
        assert whole in "".join(line.strip() for line in shown.split("\n"))


async def test_abort_asks_once_and_names_what_is_lost(tmp_path: Path) -> None:
    """`A` asks; anything but y leaves the campaign alone."""
    script = measured(tmp_path)
    script.trunks(4)
    script.passes(4, upto=1)
    with living(script.folder):
        async with opened(script.folder) as (app, pilot):
            await pilot.press("A")
            await pilot.pause(0.2)
            text = screen_text(app)
            assert f"Abort {script.folder.id}?" in text
            assert "Kept: everything recorded; 4 of 20 problems are measured" in text
            assert "Lost: nothing that is recorded" in text
            assert "1 problem in work" in text
            await pilot.press("enter")
            await pilot.pause(0.2)
            assert isinstance(app.screen, CampaignScreen)


async def test_commands_need_a_living_worker(tmp_path: Path) -> None:
    """On a session without a worker, abort and pause say that there is none."""
    script = measured(tmp_path, problems=1)
    script.finish()
    async with opened(script.folder) as (app, pilot):
        text = await press(app, pilot, "A")
        assert isinstance(app.screen, CampaignScreen)
        assert "no worker is running" in text


async def test_a_broken_journal_is_said(tmp_path: Path) -> None:
    """A line that breaks the chain is named; what came before it stays on the screen."""
    script = measured(tmp_path, problems=3)
    script.finish()
    lines = script.folder.journal_path.read_bytes().split(b"\n")
    number = next(n for n, line in enumerate(lines) if b'"problem":2' in line)
    lines[number] = lines[number].replace(b'"problem":2', b'"problem":3')
    script.folder.journal_path.write_bytes(b"\n".join(lines))
    async with opened(script.folder) as (app, pilot):
        await pilot.pause(0.5)  # the events before that line come first
        await settle(app, pilot)
        text = screen_text(app)
    assert "JOURNAL BROKEN" in text
    assert f"line {number + 1}" in text
    assert "2/20 problems" in text


async def test_the_palette_reaches_panels_and_themes(tmp_path: Path) -> None:
    """ctrl+p finds panels by name, and changes the theme."""
    script = measured(tmp_path, problems=2)
    script.finish()
    async with opened(script.folder) as (app, pilot):
        await pilot.press("ctrl+p")
        await pilot.pause(0.4)
        await pilot.press(*"Panel 6")
        await pilot.pause(0.6)
        await pilot.press("enter")
        await pilot.pause(0.4)
        await settle(app, pilot)
        assert "[6 Problems]" in screen_text(app)
        app.theme = "refeed-light"
        await settle(app, pilot)
        assert app.screen.styles.background.hex.lower() == "#fbfbf8"


async def test_wide_characters_keep_the_columns(tmp_path: Path) -> None:
    """Tokens of double width neither push columns nor leave the screen."""
    import msgspec  # noqa: PLC0415

    script = measured(tmp_path, problems=1)
    script.trunks(1)
    pivot = script.pivot(1, 0, (1, 1, -1))
    script.say(msgspec.structs.replace(pivot, actual_text="\u6f22\u5b57\u6f22\u5b57" * 20, alternative_text="x"))
    script.close(1, 1)
    async with opened(script.folder) as (app, pilot):
        text = await press(app, pilot, "2")
        strips = app.screen._compositor.render_strips()
        assert {strip.cell_length for strip in strips} == {80}
    assert "\u6f22" in text
