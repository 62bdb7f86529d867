"""What the dashboard says of an engine that loads, one that closes, and a reason that does not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions.events import Ended, Notice, Opened
from tests.helpers.tui_journals import Script
from tests.helpers.tui_pilot import living, opened, screen_text

if TYPE_CHECKING:
    from pathlib import Path


async def test_the_abort_question_says_when_a_worker_stops_that_loads(tmp_path: Path) -> None:
    """Not "within a step": there is none yet."""
    script = Script(tmp_path)
    script.say(Opened(session=script.folder.id, version="0.1.0", host="box", pid=4242))
    script.say(Notice(kind="loading", text="loading weights", fraction=0.25), 1.0)
    with living(script.folder):
        async with opened(script.folder) as (app, pilot):
            await pilot.press("A")
            await pilot.pause(0.2)
            text = " ".join(screen_text(app).replace("│", " ").split())
    assert "The engine still loads: the worker stops within 3 seconds, whatever it is reading" in text
    assert "within a step" not in text


async def test_an_engine_that_closes_is_shown_as_closing(tmp_path: Path) -> None:
    """After an abort in the middle of a problem; and a second abort is told that it is late."""
    script = Script(tmp_path)
    script.begin()
    script.trunks(0)
    script.passes(0, upto=1)
    script.say(Notice(kind="closing", text="closing the engine"), 1.0)
    with living(script.folder):
        async with opened(script.folder) as (app, pilot):
            text = screen_text(app)
            assert "closing the engine" in text
            assert "preparing" not in text
            await pilot.press("A")
            await pilot.pause(0.2)
            assert "closing its engine already" in screen_text(app)


async def test_a_reason_that_does_not_fit_names_the_panel_that_has_all_of_it(tmp_path: Path) -> None:
    """Two lines on the live panel; the log breaks the whole of it into lines."""
    script = Script(tmp_path)
    script.begin()
    words = " ".join(f"cause-{number}" for number in range(100))
    script.say(Ended(state="failed", exit_code=1, reason=words), 1.0)
    async with opened(script.folder) as (app, pilot):
        text = screen_text(app)
        assert "failed: cause-0 " in text
        assert "(7: all of it)" in text
        assert "cause-99" not in text
        await pilot.press("7")
        await pilot.pause(0.3)
        assert "cause-99" in screen_text(app)


async def test_a_reason_of_one_long_word_is_shown_at_any_width(tmp_path: Path) -> None:
    """As a path can be; the words around it decide how the lines break."""
    for number, reason in enumerate(("x" * 500, "no model at /" + "long/" * 80, "a " * 30 + "y" * 78 + " z" * 40)):
        script = Script(tmp_path / str(number))
        script.begin()
        script.say(Ended(state="failed", exit_code=1, reason=reason), 1.0)
        for size in ((80, 24), (84, 24), (101, 30)):
            async with opened(script.folder, size=size) as (app, _):
                assert "failed: " in screen_text(app)
