"""E-processes: equal to their batch forms on any prefix and split, fair under their nulls, mindful of crossings."""

from __future__ import annotations

import copy
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.peeking_size import peeking_sizes, published_x
from stats.confidence import betting_path, lower_bound, plain_t_path, symmetry_path, t_path
from stats.disagreement import problem_counts
from stats.sequential import Monitor, monitor
from tests.helpers.published import pooled_main

PROBLEMS = st.lists(st.tuples(st.integers(0, 40), st.integers(-40, 40)), max_size=40).map(
    lambda drawn: [(max(-n, min(n, d)), n) for n, d in drawn]
)


def fed(problems: list[tuple[int, int]], watch: Monitor | None = None) -> Monitor:
    """A monitor after these (d, n), numbered from the problems it has seen."""
    found = Monitor() if watch is None else watch
    for d, n in problems:
        found.update(found.measured, d, n)
    return found


@given(PROBLEMS)
@settings(deadline=None)
def test_accumulators_equal_the_batch_functions_on_every_prefix(problems: list[tuple[int, int]]) -> None:
    """Symmetry, betting, t and plain t at every informative problem."""
    found = fed(problems)
    ratios = [Fraction(d, n) for d, n in problems if n > 0]
    x = np.array([d / n for d, n in problems if n > 0])
    expected = np.exp([symmetry_path(x), betting_path(x), t_path(x)]).reshape(3, -1)
    for at, point in enumerate(found.path):
        assert (point.symmetry, point.betting, point.t_e) == pytest.approx(tuple(expected[:, at]), rel=1e-9)
        assert point.mean == pytest.approx(x[: at + 1].mean(), abs=1e-12)
        assert point.plain_t == plain_t(ratios[: at + 1])


def plain_t(ratios: list[Fraction]) -> Any:
    """The textbook t of these ratios; None where it does not exist."""
    if len(set(ratios)) < 2:
        return None
    x = np.array([float(ratio) for ratio in ratios])
    return pytest.approx(x.mean() / (x.std(ddof=1) / math.sqrt(len(x))), rel=1e-9, abs=1e-9)


def test_plain_t_path_equals_the_accumulator() -> None:
    """The array form, which simulations use, on the published run."""
    table = pooled_main()
    counts = problem_counts(table)
    path = [
        math.nan if point.plain_t is None else point.plain_t
        for point in monitor(table.problems, counts.excess, counts.n).path
    ]
    batch = plain_t_path(counts.excess / counts.n)
    assert math.isnan(path[0])
    assert batch == pytest.approx(np.array(path), nan_ok=True)


@given(PROBLEMS, st.integers(0, 40))
@settings(deadline=None)
def test_any_split_gives_the_same_monitor(problems: list[tuple[int, int]], cut: int) -> None:
    """Stopping anywhere, keeping a copy and going on equals one go, bit for bit, with the same crossings."""
    whole, part = fed(problems), fed(problems[:cut])
    resumed = fed(problems[cut:], copy.deepcopy(part))
    assert resumed == whole
    assert part == fed(problems[:cut])


def test_a_crossing_stays_a_crossing() -> None:
    """Evidence that comes and goes: the value falls below 1/alpha again, maximum and crossing remain."""
    found = fed([(8, 10)] * 8 + [(-9, 10)] * 12)
    process = found.symmetry
    assert process.crossing is not None
    assert process.e < 1 / found.alpha <= process.e_max
    assert process.crossing.informative < 8


def test_problems_without_eligible_pivots_do_not_count_towards_a_crossing() -> None:
    """The crossing is at the sixth informative problem, task 12, whatever lies between."""
    packed = fed([(8, 10)] * 8)
    spaced = monitor(range(1, 17), [8, 0] * 8, [10, 0] * 8)
    assert packed.symmetry.crossing is not None
    assert spaced.symmetry.crossing is not None
    assert spaced.symmetry.crossing.informative == packed.symmetry.crossing.informative
    assert spaced.symmetry.crossing.problem == 2 * packed.symmetry.crossing.problem + 1
    assert (spaced.measured, spaced.informative) == (16, 8)


def test_stop_rule_waits_for_the_registered_minimum() -> None:
    """It crossed early; the campaign ends at the registered minimum of informative problems, not before."""
    found = fed([(10, 10)] * 6)
    assert found.symmetry.crossing is not None
    assert [found.should_stop(rule, 7) for rule in ("none", "symmetry", "betting")] == [False] * 3
    fed([(0, 10)], found)
    assert found.should_stop("symmetry", 7)
    assert not found.should_stop("none", 0)


def test_symmetry_is_a_fair_bet_under_random_signs() -> None:
    """Averaged over all 2^10 signs the e-value is 1 at every problem: a martingale, by enumeration."""
    size = np.array([0.1, 0.5, 0.9, 1.0, 0.02, 0.3, 0.0, 0.7, 0.25, 0.6])
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=len(size))))
    assert np.exp(symmetry_path(signs * size)).mean(axis=0) == pytest.approx(np.ones(10))


def test_betting_is_a_fair_bet_when_the_mean_is_zero() -> None:
    """Steps of +1/2 and -1/4 with probabilities 1/3 and 2/3 have mean zero, no symmetry; the expectation is 1."""
    steps = np.array(list(itertools.product((0.5, -0.25), repeat=9)))
    chance = np.prod(np.where(steps > 0, 1 / 3, 2 / 3), axis=1)
    assert chance @ np.exp(betting_path(steps)) == pytest.approx(np.ones(9))


def test_sign_process_is_a_fair_bet_under_fair_coins() -> None:
    """Averaged over all signs of 8 nonzero differences the e-value is 1."""
    values = [fed([(sign, 10) for sign in signs]).sign.e for signs in itertools.product((-1, 1), repeat=8)]
    assert np.mean(values) == pytest.approx(1.0)


def test_t_process_is_at_most_fair_under_gaussian_noise() -> None:
    """Scale invariant: mean at most 1 whatever the standard deviation, and peeking crosses 1/alpha at most 5%."""
    x = np.random.default_rng(5).normal(0, 1, (4000, 30))
    crossed = (t_path(x).max(axis=1) >= math.log(20)).mean()
    assert crossed <= 0.05
    assert t_path(1000 * x) == pytest.approx(t_path(x))


def test_large_effects_neither_overflow_nor_underflow() -> None:
    """A thousand problems at x = 1 and at x = -1: finite, ordered, never NaN (log1p(tanh) would give -inf)."""
    up, down = fed([(5, 5)] * 1000), fed([(-5, 5)] * 1000)
    for process in (up.symmetry, up.betting, up.t_e, up.sign):
        assert math.isfinite(process.e)
        assert process.e > 1e100
    for process in (down.symmetry, down.betting, down.t_e, down.sign):
        assert 0 <= process.e < 1
        assert process.e_max <= 1.5
    assert math.isfinite(up.symmetry.log_e)
    assert down.symmetry.log_e > -math.inf


def test_all_zero_differences_leave_every_process_at_one() -> None:
    """Batch-invariant kernels: no evidence either way, and no t."""
    found = fed([(0, 10)] * 10)
    assert [p.e for p in (found.symmetry, found.betting, found.t_e, found.sign)] == [1.0] * 4
    assert found.plain.t is None


def test_lower_bound_is_where_the_process_stands_at_the_level() -> None:
    """At the bound log E = ln 20, a little above it less, a little below it more; none for one problem."""
    x = published_x("pooled")
    for process, path in (
        ("symmetry", symmetry_path),
        ("t_e", t_path),
    ):
        bound = lower_bound(x, process)  # type: ignore[arg-type]  # parametrised by name
        assert bound is not None
        assert path(x - bound)[-1] == pytest.approx(math.log(20), abs=1e-6)
        assert path(x - bound - 0.01)[-1] < math.log(20) < path(x - bound + 0.01)[-1]
    assert lower_bound(x[:1], "symmetry") is None
    assert lower_bound(x[:0], "betting") is None


def test_lower_bounds_hold_at_every_look() -> None:
    """Symmetric noise around 0.1, a bound after every problem: it ever exceeds 0.1 at most 5% of the time."""
    rng = np.random.default_rng(6)
    wrong = 0
    for _ in range(200):
        x = np.clip(0.1 + rng.choice([-1, 1], 25) * rng.beta(2, 5, 25), -1, 1)
        bounds = [lower_bound(x[:end], "symmetry") for end in range(1, 26, 4)]
        wrong += any(bound is not None and bound > 0.1 for bound in bounds)
    assert wrong / 200 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 200)


def test_peeking_keeps_its_level_for_e_processes_and_not_for_the_plain_t() -> None:
    """A small version of benchmarks/peeking_size.py on the sign-flipped published data."""
    alarms = peeking_sizes(published_x("pooled"), runs=1000, seed=7)
    most = 50 + 3 * math.sqrt(1000 * 0.05 * 0.95)
    assert alarms["symmetry"] <= most
    assert alarms["betting"] <= most
    assert alarms["plain_t_one_sided"] > 170
    assert alarms["plain_t_one_sided_only_at_the_end"] <= 80
    assert 50 < alarms["plain_t_two_sided_at_the_stop_by_symmetry"] < alarms["plain_t_two_sided"] / 2


def test_impossible_counts_are_refused() -> None:
    """More net disagreements than eligible pivots, or a level outside (0, 1)."""
    with pytest.raises(ValueError, match="problem 3: 5 net disagreements of 4 eligible pivots"):
        Monitor().update(3, 5, 4)
    with pytest.raises(ValueError, match=r"alpha lies in \(0, 1\), not 1.5"):
        Monitor(1.5)


def test_the_sign_process_of_three_ups_by_hand() -> None:
    """2^4 B(4, 1) (1 - I_1/2(4, 1)) = 16 / 4 * (1 - 1/16)."""
    assert fed([(1, 10)] * 3).sign.e == pytest.approx(3.75)


def test_evidence_against_an_excess_runs_out_of_floats_without_an_error() -> None:
    """A thousand problems at almost -1: the one-sided t says 0, the sign process what a beta integral gives."""
    found = fed([(-10, 10), (-9, 10)] * 500)
    assert found.t_e.e == 0.0
    assert max(found.symmetry.e, found.betting.e) < 1e-200
    assert found.sign.e == pytest.approx(1 / 1001)


def test_equal_problems_have_no_t_bound_and_no_plain_t() -> None:
    """A spread of 0 would put the bound on the mean; rounding of equal floats is no spread."""
    found = fed([(1, 3)] * 12)
    assert found.lower("t_e") is None
    assert found.lower("symmetry") is not None
    values = np.linspace(0.05, 0.95, 19)
    assert np.isnan(plain_t_path(np.repeat(values[:, None], 12, axis=1))).all()
