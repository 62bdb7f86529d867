"""How many problems a decision takes."""

from __future__ import annotations

import pytest

from stats.planning import Needed, Plan, ProcedurePlan, plan, without_peek
from tests.helpers.published import load, pooled_main
from tests.helpers.tables import counted, first, table


def by_name(found: Plan) -> dict[str, ProcedurePlan]:
    return {row.procedure: row for row in found.rows}


def test_what_the_published_runs_took() -> None:
    """Crossings in measured problems, as in statistics.md; the fixed test took the planned 40 and 20."""
    pooled, k8 = by_name(plan(pooled_main(), draws=100)), by_name(plan(load("k8"), draws=100))
    assert [pooled[name].took for name in ("symmetry", "betting", "fixed_t")] == [20, 25, 40]
    # one measured problem of the k8 run is equal, none is uninformative: measured and informative counts agree
    assert [k8[name].took for name in ("symmetry", "betting", "fixed_t")] == [6, 14, 20]
    assert pooled["symmetry"].more == Needed(0, 0, 0, 0.0)


def test_deterministic_effect_needs_a_known_number() -> None:
    """X = 1 always: E after n problems is about the mean of seven powers, above 20 first at n = 5; all draws agree."""
    found = by_name(plan(table([counted(4, 0, 4)] * 3), draws=50))
    assert found["symmetry"].anew == Needed(5, 5, 5, 0.0)
    assert found["symmetry"].more == Needed(2, 2, 2, 0.0)


def test_problems_that_say_nothing_cost_as_well() -> None:
    """Half the measured problems are not informative: about twice as many are needed."""
    found = by_name(plan(table([counted(4, 0, 4), []] * 3), draws=500))["symmetry"].anew
    assert found.half is not None
    assert 8 <= found.half <= 12


def test_no_effect_is_never_decided_and_says_so() -> None:
    """Batch-invariant run: null quantiles, all draws undecided."""
    for row in plan(load("batchinv"), draws=50, horizon=60).rows:
        assert row.took is None
        assert row.anew == Needed(None, None, None, 1.0)


def test_undecided_campaign_is_told_how_many_more() -> None:
    """The first ten pooled problems have not decided; going on needs fewer than starting anew."""
    ten = first(pooled_main(), 10)
    row = by_name(plan(ten, draws=300))["symmetry"]
    assert row.took is None
    assert row.more is not None
    assert row.more.half is not None
    assert row.anew.half is not None
    assert 0 < row.more.half <= row.anew.half


def test_stopping_early_costs_more_than_a_known_size_but_less_than_a_guess() -> None:
    """A fixed test of just the right size needs fewer problems than any process that may be watched."""
    rows = by_name(plan(pooled_main(), draws=300))
    fixed, symmetry, betting = (rows[name].anew.four_fifths for name in ("fixed_t", "symmetry", "betting"))
    assert fixed is not None
    assert symmetry is not None
    assert betting is not None
    assert fixed < symmetry < betting


def test_seeded() -> None:
    """The same seed gives the same plan."""
    assert plan(pooled_main(), draws=50) == plan(pooled_main(), draws=50)


def test_one_informative_problem_has_no_spread_to_plan_from() -> None:
    """The plan is empty and says why; impossible sizes are refused."""
    found = plan(table([counted(1, 0, 3), []]))
    assert (found.rows, found.why, found.measured, found.informative) == (
        (),
        "needs at least 2 informative problems",
        2,
        1,
    )
    with pytest.raises(ValueError, match="draws and horizon must be positive"):
        plan(pooled_main(), draws=0)


def test_before_the_planned_end_the_fixed_t_has_decided_nothing() -> None:
    """A crossing of the plain t on the way is a peek; the e-processes keep theirs."""
    made = plan(pooled_main())
    taken = {row.procedure: row.took for row in without_peek(made).rows}
    assert taken == {"symmetry": 20, "betting": 25, "fixed_t": None}
    said = {row.procedure: row.why for row in without_peek(made, "looked").rows}
    assert said == {"symmetry": None, "betting": None, "fixed_t": "looked"}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_drawn_campaigns_take_every_problem_of_the_sample(order: tuple[int, int]) -> None:
    """One problem all better and one all worse are a fair coin, whichever came first: at most 5% decide."""
    pair = [counted(0, 4, 4), counted(4, 0, 4)]
    found = by_name(plan(table([pair[at] for at in order]), draws=200, horizon=60))["symmetry"].anew
    assert 0.9 < found.undecided <= 1.0
    assert len(plan(table(pair), draws=1, horizon=1).rows) == 3
