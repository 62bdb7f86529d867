"""When a campaign ends by itself: the registered rule, hours and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.protocol.limits import Limits, longest_problem, longest_run
from sessions.events import ProblemClosed, TrunksDone
from sessions.spec import CampaignSpec
from sessions.state.fold import fold, new_state
from tests.helpers.session_events import opened, pivot

if TYPE_CHECKING:
    from sessions.state.campaign import CampaignState


def watched(spec: CampaignSpec, problems: int, seconds: float = 10.0) -> CampaignState:
    """A campaign in which one pivot of every closed problem changed its sign when re-fed, and none in the replica."""
    state = new_state(spec)
    fold(state, opened())
    for problem in range(problems):
        fold(state, TrunksDone(problem=problem, attempt=0, trunks=(), kept=True, seconds=8.0, batch=4))
        fold(state, pivot(problem, nets=(2, 2, -2), attempt=0))
        fold(state, ProblemClosed(problem=problem, attempt=0, outcome="measured", pivots=1, seconds=seconds))
    return state


@pytest.mark.parametrize("rule", ["symmetry", "betting"])
def test_the_rule_ends_a_campaign_once_it_crossed_and_enough_problems_were_informative(rule: str) -> None:
    """A crossing alone is not enough: `min_problems` informative problems must be there."""
    spec = CampaignSpec(stop=rule, min_problems=12)  # type: ignore[arg-type] # parametrised
    assert watched(spec, 11).live.monitor.symmetry.crossing is not None
    assert Limits(spec).reached(watched(spec, 11)) is None
    ended = Limits(spec).reached(watched(spec, 12))
    assert ended is not None
    assert (ended.state, ended.exit_code) == ("stopped", 0)
    assert f"{rule} e-process crossed 1/alpha = 20" in ended.reason
    assert "12 informative seen" in ended.reason


def test_no_rule_never_stops_and_past_stop_goes_on() -> None:
    """Without a rule the same evidence stops nothing, and who was told to go on past a crossing does."""
    none, spec = CampaignSpec(), CampaignSpec(stop="symmetry")
    assert Limits(none).reached(watched(none, 12)) is None
    assert Limits(spec).reached(watched(spec, 12)) is not None
    assert Limits(spec, past_stop=True).reached(watched(spec, 12)) is None


def test_the_tighter_of_hours_and_cost_counts() -> None:
    """4 hours, or 3 dollars at 2 an hour: 1.5 hours; without a price the cost says nothing."""
    spec = CampaignSpec(max_hours=4.0, max_cost=3.0)
    assert longest_run(spec, 2.0) == (5400.0, "max_cost = 3 at 2 per hour")
    assert longest_run(spec, None) == (14400.0, "max_hours = 4")
    assert longest_run(CampaignSpec(), 2.0) is None


def test_a_campaign_ends_before_a_problem_that_the_limit_would_cut() -> None:
    """A problem took 10 s and its share of the trunks 2 s: with 12 s left it ends, with more it goes on."""
    spec = CampaignSpec(max_hours=1.0)
    state = watched(spec, 3)
    assert longest_problem(state) == 12.0
    assert Limits(spec, began=0.0, clock=lambda: 3587.0).reached(state) is None
    ended = Limits(spec, began=0.0, clock=lambda: 3588.0).reached(state)
    assert ended is not None
    assert (ended.state, ended.exit_code) == ("stopped", 0)
    assert ended.reason == "max_hours = 1: 12 s are left, and a problem took up to 12 s"


def test_earlier_runs_count_against_the_hours() -> None:
    """A session that was resumed has used what its earlier runs used."""
    spec = CampaignSpec(max_hours=1.0)
    resumed = Limits(spec, earlier_seconds=3590.0, began=100.0, clock=lambda: 105.0)
    assert resumed.elapsed() == 3595.0
    assert resumed.seconds_left() == (5.0, "max_hours = 1")
    assert resumed.reached(watched(spec, 1)) is not None
