"""Home, new campaign, and comparing sessions."""

from __future__ import annotations

import shlex
import threading
from typing import TYPE_CHECKING

import pytest
from textual.binding import Binding
from textual.widgets import Input

from sessions.errors import RefeedError
from sessions.listing import describe
from tests.helpers.tui_journals import Script, imported
from tests.helpers.tui_pilot import living, opened, screen_text, until, when
from tui.dashboard.screens.dialogs import HOME_KEYS
from tui.dashboard.screens.home import HomeScreen
from tui.dashboard.screens.new import NewScreen
from tui.dashboard.widgets.lines import ScrollLines
from tui.dashboard.widgets.table import LineTable
from tui.setup.draft import NAMES, Draft

if TYPE_CHECKING:
    from pathlib import Path

    from sessions.listing import Entry
    from sessions.store import SessionFolder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of one's own, and the present folder inside it."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def finished(home: Path, name: str) -> Script:
    """A small session that finished."""
    script = Script(home, name=name)
    script.begin()
    for problem in range(3):
        script.problem(problem, script.nets())
    script.finish()
    return script


async def test_sessions_are_listed_newest_first_and_live_ones_are_marked(home: Path) -> None:
    """The list says state, progress and headline, and how many are live."""
    imported(home, "primary")
    script = Script(home, name="night")
    script.begin()
    with living(script.folder):
        async with opened(None, mode="home") as (app, pilot):
            await until(app, pilot, "2 sessions")
            text = await until(app, pilot, "primary")
    assert "2 sessions, 1 live" in text
    lines = text.split("\n")
    night = next(number for number, line in enumerate(lines) if "night" in line)
    primary = next(number for number, line in enumerate(lines) if "primary" in line)
    assert "RUNNING" in lines[night]
    assert "IMPORTED" in lines[primary]
    assert "20/20" in lines[primary]
    assert "+18.1pp (31.9% vs 13.7%)" in lines[primary]


async def test_a_look_that_takes_long_is_not_begun_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a first look at long journals outlasts the time between two, and others would slow it down."""
    finished(home, "night")
    looks: list[SessionFolder] = []
    seen = threading.Event()

    def slowly(folder: SessionFolder) -> Entry:
        looks.append(folder)
        seen.wait(10)
        return describe(folder)

    monkeypatch.setattr("tui.dashboard.screens.home.describe", slowly)
    monkeypatch.setattr("tui.dashboard.screens.home.LOOK_EVERY", 0.05)
    async with opened(None, (120, 40), "home") as (app, pilot):
        await when(pilot, lambda: looks != [], lambda: screen_text(app))
        await pilot.pause(0.5)
        assert len(looks) == 1
        seen.set()
        await until(app, pilot, "night")
        await when(pilot, lambda: len(looks) > 1, lambda: "it does not look again")


async def test_batch_invariant_sessions_are_marked_in_the_list(home: Path) -> None:
    """The line above the list says what the mark means; an id keeps all of its characters beside it."""
    script = Script(home, settings={"batch_invariant": True})
    script.begin()
    finished(home, "stock")
    for size in ((80, 24), (120, 40), (200, 60)):
        async with opened(None, size, mode="home") as (app, pilot):
            text = await until(app, pilot, "2 sessions")
        assert "newest first; * batch-invariant" in text
        marked = script.folder.id if size[0] == 80 else "bundled"
        assert f" {marked}* " in text
        assert "stock*" not in text


async def test_an_empty_home_says_how_to_start(home: Path) -> None:
    """Without sessions, the screen names the key that starts one."""
    del home
    async with opened(None, mode="home") as (app, pilot):
        text = await until(app, pilot, "no sessions yet")
    assert "n starts a campaign" in text


async def test_sessions_are_opened_replayed_and_left(home: Path) -> None:
    """Enter opens, 0 comes back, r replays."""
    finished(home, "one")
    async with opened(None, mode="home") as (app, pilot):
        await until(app, pilot, "one")
        await pilot.press("enter")
        await until(app, pilot, "[1 Live]")
        await until(app, pilot, "FINISHED")
        await pilot.press("0")
        await until(app, pilot, "newest first")
        await pilot.press("r")
        await until(app, pilot, "REPLAY")


async def test_the_report_and_an_export_are_at_hand(home: Path) -> None:
    """R shows every number, e writes the asked formats beside and says that there are notes on them."""
    script = finished(home, "one")
    with script.folder.journal_path.open("ab") as journal:
        journal.write(b"torn")
    async with opened(None, (120, 40), mode="home") as (app, pilot):
        await until(app, pilot, "one")
        await pilot.press("R")
        await until(app, pilot, "Table 1")
        await pilot.press("escape", "e")
        await until(app, pilot, "csv,md,latex")
        app.screen.query_one(Input).value = "csv"
        await pilot.press("enter")
        await until(app, pilot, "wrote")
        told = " ".join(screen_text(app).replace("\N{LEFT HALF BLOCK}", " ").split())  # where it wraps is the path's
        assert "notes on its numbers: R shows them" in told
    assert list((home / script.folder.id).glob("*.csv"))


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_a_report_is_shown_as_wide_as_it_was_made(home: Path, size: tuple[int, int]) -> None:
    """No line of it is cut, and its last column stands."""
    finished(home, "one")
    async with opened(None, size, mode="home") as (app, pilot):
        await until(app, pilot, "one")
        await pilot.press("R")
        text = await until(app, pilot, "Table 1")
        assert "reversed" in text
        body = app.screen.query_one("#text", ScrollLines)
        assert max(map(len, body.text.split("\n"))) <= body.scrollable_content_region.width


async def test_a_damaged_session_is_listed_with_its_damage(home: Path) -> None:
    """One broken session does not hide the others."""
    finished(home, "good")
    bad = finished(home, "bad")
    bad.folder.spec_path.write_text("{")
    async with opened(None, mode="home") as (app, pilot):
        text = await until(app, pilot, "DAMAGED")
    assert "good" in text


async def test_marked_sessions_are_compared_on_one_scale(home: Path) -> None:
    """Figure 2: bars, excess and the pool of sessions that may be pooled."""
    imported(home, "primary")
    imported(home, "screened")
    async with opened(None, (120, 40), mode="home") as (app, pilot):
        await until(app, pilot, "screened")
        await pilot.press("space", "j", "space", "c")
        text = await until(app, pilot, "pooled: 2 sessions")
        assert "72/226" in text
        assert "143/410" in text
        assert "+18.7pp" in text
        await pilot.press("c")
        text = await until(app, pilot, "eligible where exact-1 is nonzero")
        await pilot.press("escape")
        await until(app, pilot, "newest first")


async def test_compared_sessions_say_their_mode_and_why_they_are_not_pooled_in_full(home: Path) -> None:
    """At 80 columns no fact of a session, and no reason against a pool, is cut."""
    finished(home, "stock")
    for name, settings in (("a-name-of-some-length", {"batch_invariant": True}), ("other", {"k": 5, "rollouts": 3})):
        script = Script(home, name=name, settings=settings)
        script.begin()
        script.problem(0, script.nets(refeed=0.0, floor=0.0))
        script.finish()
    async with opened(None, mode="home") as (app, pilot):
        await until(app, pilot, "other")
        await pilot.press("c")
        await until(app, pilot, "Sign disagreement")
        body = app.screen.query_one("#compare", ScrollLines)
        assert max(map(len, body.text.split("\n"))) <= body.scrollable_content_region.width
        said = " ".join(body.text.split())
    assert "embedded, batch-invariant, K = 4, 1 problem " in said
    assert "without --pool" in said


async def test_settings_that_differ_are_compared_but_not_pooled(home: Path) -> None:
    """Sessions of different K stand side by side; the pool says which field differs."""
    imported(home, "primary")
    imported(home, "k8")
    async with opened(None, (120, 40), mode="home") as (app, pilot):
        await until(app, pilot, "primary")
        await pilot.press("c")
        text = await until(app, pilot, "pooled: 2 sessions")
    assert "they differ in k (" in text


async def test_fields_are_validated_and_the_command_is_exact(home: Path) -> None:
    """A wrong value is refused by name; a right one stands in the command."""
    del home
    async with opened(None, (120, 40), mode="home") as (app, pilot):
        await until(app, pilot, "no sessions yet")
        await pilot.press("n")
        await until(app, pilot, "refeed-tui launch demo")
        assert isinstance(app.screen, NewScreen)
        table = app.screen.query_one(LineTable)
        table.jump(NAMES.index("k"))
        await pilot.press("enter")
        await pilot.pause(0.2)
        await pilot.press(*"none", "enter")
        text = await until(app, pilot, "spec field `k`")
        assert "refeed-tui launch demo" in text
        await pilot.press("enter")
        await pilot.pause(0.2)
        await pilot.press(*"8", "enter")
        text = await until(app, pilot, "--k 8")
        assert "tokens (at most" in text


def test_the_command_makes_the_spec_that_was_shown() -> None:
    """Parsed again by the command line, the draft's words give the draft's spec."""
    draft = Draft("smoke")
    draft.set("k", "3")
    draft.set("batch_invariant", "true")
    draft.set("decision", "0.01, 0.04")
    draft.set("prompt", "Say it; then `stop`")
    draft.set("name", "a b")
    draft.set("price_per_hour", "2.5")
    draft.set("on_event", "sh -c 'cat > told'")
    words = shlex.split(draft.command())
    assert words[:3] == ["refeed-tui", "launch", "smoke"]
    assert words[words.index("--k") + 1] == "3"
    assert "--batch-invariant" in words
    assert words[words.index("--decision") + 1] == "0.01,0.04"
    assert words[words.index("--prompt") + 1] == "Say it; then `stop`"
    assert words[words.index("--name") + 1] == "a b"
    assert words[words.index("--price-per-hour") + 1] == "2.5"
    assert words[words.index("--on-event") + 1] == "sh -c 'cat > told'"
    assert draft.asked().spec.k == 3


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("k", "0"),
        ("k", "many"),
        ("temperature", "-1"),
        ("preset", "nothing"),
        ("decision", "0.5,0.1"),
        ("stop", "maybe"),
        ("price_per_hour", "none"),
        ("price_per_hour", "-1"),
        ("on_event", "no-such-program --at-all"),
        ("on_event", "sh 'never closed"),
    ],
)
def test_a_refused_value_changes_nothing(name: str, text: str) -> None:
    """After an error the draft is what it was."""
    draft = Draft("demo")
    before = draft.command()
    with pytest.raises(RefeedError):
        draft.set(name, text)
    assert draft.command() == before


async def test_help_at_home_names_the_keys_of_home(home: Path) -> None:
    """`?` shows what can be done with the list, not the keys of a campaign."""
    finished(home, "night")
    async with opened(None, mode="home") as (app, pilot):
        await until(app, pilot, "night")
        await pilot.press("question_mark")
        await pilot.pause(0.2)
        text = screen_text(app)
        assert all(does in text for _, does in HOME_KEYS)
        assert "inspect the pivot" not in text
        bound = {key.key for key in HomeScreen.BINDINGS if isinstance(key, Binding)} - {"question_mark"}
        assert bound <= {part for keys, _ in HOME_KEYS for part in keys.split()}
