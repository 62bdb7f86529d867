"""The dashboard follows the registered stop rule: its e-process, its crossing, and when a plain t may be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessions.events import Ended
from tests.helpers.tui_journals import Script
from tests.helpers.tui_pilot import opened, screen_text, session_of, settle
from tui.dashboard.widgets.lines import Lines
from tui.dashboard.widgets.plot import Plot
from tui.viewer.session import LiveSession, at_planned_end

if TYPE_CHECKING:
    from pathlib import Path

    from sessions.state.campaign import CampaignState
    from stats.sequential import StopRule

SMALL = (1,) * 12
"""Re-feed disagreements of 10 pivots a problem: small and never the other way, symmetry alone crosses."""
LARGE = (10, 10, 10, -5) * 3
"""Large with exceptions (the replica changes 5): betting alone crosses, at the 7th problem."""


def campaign(home: Path, excess: tuple[int, ...], stop: StopRule) -> Script:
    """A campaign whose problems have these net disagreements of 10 eligible pivots."""
    script = Script(home, settings={"stop": stop, "min_problems": 2})
    script.begin()
    for problem, d in enumerate(excess):
        moved = [(1, 1, -1) if d > 0 else (1, -1, 1)] * abs(d)
        script.problem(problem, [*moved, *[(1, 1, 1)] * (10 - abs(d))])
    return script


@pytest.mark.parametrize(
    ("excess", "stop", "said"),
    [
        (SMALL, "betting", "betting e 2.8, max 2.8 · below 1/α = 20 · symmetry e 1,009.0"),  # noqa: RUF001
        (LARGE, "betting", "CROSSED 1/α = 20 at informative problem 7"),  # noqa: RUF001
        (SMALL, "symmetry", "CROSSED 1/α = 20 at informative problem 6"),  # noqa: RUF001
        (LARGE, "symmetry", "below 1/α = 20 · betting e"),  # noqa: RUF001
        (SMALL, "none", "CROSSED 1/α = 20 at informative problem 6"),  # noqa: RUF001
    ],
)
async def test_the_panel_tells_of_the_process_that_ends_the_campaign(
    tmp_path: Path, excess: tuple[int, ...], stop: StopRule, said: str
) -> None:
    """Value, maximum, crossing and curve are those of the registered rule; the other process stands beside."""
    script = campaign(tmp_path, excess, stop)
    async with opened(script.folder) as (app, _):
        text = screen_text(app)
        curve = app.screen.query_one("#path", Plot).text
        title = app.screen.query_one("#path-title", Lines).text
    assert said in text
    assert ("crossed" in curve) == ("CROSSED" in said)
    assert title.startswith("Betting e" if stop == "betting" else "Symmetry e")


@pytest.mark.parametrize(
    ("stop", "said"), [("none", "valid only at the planned end"), ("symmetry", "fixed-n only: nobody fixed n")]
)
async def test_a_plain_t_beside_a_stop_rule_promises_no_planned_end(tmp_path: Path, stop: StopRule, said: str) -> None:
    """Where a look at the data may end the campaign there is no end at which the t could be read."""
    script = campaign(tmp_path, LARGE, stop)
    async with opened(script.folder) as (app, _):
        text = screen_text(app)
    assert f"plain t 3.19 {said}" in text


async def test_the_lower_bound_is_by_the_same_process(tmp_path: Path) -> None:
    """A bound stands beside the e-value that it inverts."""
    script = campaign(tmp_path, LARGE, "betting")
    async with opened(script.folder) as (app, _):
        monitor = session_of(app).state.live.monitor
        lower = session_of(app).lower_bound()
    assert lower == monitor.lower("betting")
    assert lower != monitor.lower("symmetry")


async def test_a_replay_jumps_to_the_crossing_of_the_registered_rule(tmp_path: Path) -> None:
    """`x` goes to the end of the problem at which betting crossed, where betting is what was registered."""
    script = campaign(tmp_path, LARGE, "betting")
    script.finish()
    async with opened(script.folder, mode="replay") as (app, pilot):
        await pilot.press("space", "x")
        for _ in range(100):
            await pilot.pause(0.02)
            await settle(app, pilot)
            if app.screen.session.state.measured:  # type: ignore[attr-defined]
                break
        assert app.screen.session.state.measured == list(range(7))  # type: ignore[attr-defined]
        assert "CROSSED" in screen_text(app)


def folded(script: Script) -> CampaignState:
    """The state of a script's journal."""
    from sessions.disk.journal import read  # noqa: PLC0415

    session = LiveSession.of(script.folder, "attach")
    session.take(list(read(script.folder.journal_path, session.registration.digest)))
    return session.state


def test_a_plain_t_may_be_read_at_the_registered_end_alone(tmp_path: Path) -> None:
    """Finished is the planned end, also with problems dropped; hours that ran out, a stop rule and an abort are not."""
    ends = {
        "finished": Ended(state="finished", exit_code=0, reason="measured 2 of 3 registered problems; 1 dropped"),
        "stopped": Ended(state="stopped", exit_code=0, reason="max_hours reached"),
        "aborted": Ended(state="aborted", exit_code=4, reason="asked by a person"),
    }
    found = {}
    for name, end in ends.items():
        script = campaign(tmp_path / name, (1, 1), "none")
        script.say(end)
        found[name] = at_planned_end(folded(script))
    assert found == {"finished": True, "stopped": False, "aborted": False}
    watching = campaign(tmp_path / "watching", (1, 1), "symmetry")
    watching.say(ends["finished"])
    assert not at_planned_end(folded(watching))
