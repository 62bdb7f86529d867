"""How the main screens look, as SVG: 80x24, 120x40 and 200x60, light and dark. `--snapshot-update` accepts a change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.tui_journals import Script
from tests.helpers.tui_pilot import living, settle, until
from tui.dashboard.app import RefeedApp
from tui.viewer import session as watched

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from textual.pilot import Pilot

SIZES = [(80, 24), (120, 40), (200, 60)]
THEMES = ["refeed-dark", "refeed-light"]


class _Still:
    """A clock that stands."""

    @staticmethod
    def monotonic() -> float:
        """Always the same."""
        return 1000.0

    @staticmethod
    def time() -> float:
        """Before every event."""
        return 0.0


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    """A campaign in its 13th problem, with a living worker, on a clock that stands."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(watched, "time", _Still)
    made = Script(tmp_path, name="credit-audit", price=2.5, session_id="20260921-141320-demo")
    made.begin(machine="AMD EPYC 9554")
    for problem in range(12):
        made.problem(problem, made.nets())
    made.trunks(12)
    made.passes(12, upto=2, done=0.5)
    with living(made.folder):
        yield made


def seen(app: RefeedApp, theme: str, *keys: str) -> Callable[[Pilot[Any]], Awaitable[None]]:
    """Bring an app to the screen that is compared."""

    async def before(pilot: Pilot[Any]) -> None:
        app.theme = theme
        if app.mode != "home":
            await settle(app, pilot)
        else:
            await until(app, pilot, "newest first")
        for key in keys:
            await pilot.press(key)
            await pilot.pause(0.2)
            if app.mode != "home" and key != "enter":
                await settle(app, pilot)
        await pilot.pause(0.3)

    return before


@pytest.mark.parametrize(("size", "theme"), [*((size, THEMES[0]) for size in SIZES), (SIZES[1], THEMES[1])], ids=str)
def test_live(snap_compare: Any, script: Script, size: tuple[int, int], theme: str) -> None:
    """The live screen: each layout, and the other theme once."""
    app = RefeedApp(script.folder, mode="attach", ascii_only=False)
    assert snap_compare(app, terminal_size=size, run_before=seen(app, theme))


def test_pivots(snap_compare: Any, script: Script) -> None:
    """The table of pivots."""
    app = RefeedApp(script.folder, mode="attach", ascii_only=False)
    assert snap_compare(app, terminal_size=(120, 40), run_before=seen(app, THEMES[0], "2"))


@pytest.mark.parametrize("key", ["3", "4", "5", "6"])
def test_panels(snap_compare: Any, script: Script, key: str) -> None:
    """The figures and the table of problems."""
    app = RefeedApp(script.folder, mode="attach", ascii_only=False)
    assert snap_compare(app, terminal_size=(120, 40), run_before=seen(app, THEMES[0], key))


def test_inspector(snap_compare: Any, script: Script) -> None:
    """One pivot."""
    app = RefeedApp(script.folder, mode="attach", ascii_only=False)
    assert snap_compare(app, terminal_size=(120, 40), run_before=seen(app, THEMES[0], "2", "g", "enter"))


def test_abort(snap_compare: Any, script: Script) -> None:
    """The question before an abort."""
    app = RefeedApp(script.folder, mode="attach", ascii_only=False)

    async def before(pilot: Pilot[Any]) -> None:
        await settle(app, pilot)
        await pilot.press("A")
        await pilot.pause(0.3)

    assert snap_compare(app, terminal_size=(80, 24), run_before=before)


def test_cache_failure(snap_compare: Any, script: Script) -> None:
    """A failed cache check."""
    script.fail(12)
    app = RefeedApp(script.folder, mode="attach", ascii_only=False)
    assert snap_compare(app, terminal_size=(80, 24), run_before=seen(app, THEMES[0]))


def test_home(snap_compare: Any, script: Script) -> None:
    """The list of sessions."""
    app = RefeedApp(None, mode="home", ascii_only=False)
    del script
    assert snap_compare(app, terminal_size=(120, 40), run_before=seen(app, THEMES[0]))
