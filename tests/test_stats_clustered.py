"""CR2 and its relatives: against the matrix definition, in the limit of single-pivot problems, and by simulation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stats.clustered import pooled, problem_mean
from stats.contrast import contrast
from stats.distributions import t_quantile

if TYPE_CHECKING:
    from numpy.typing import NDArray


def matrix_cr2(
    outcome: NDArray[np.float64], design: NDArray[np.float64], cluster: NDArray[np.int64], weights: NDArray[np.float64]
) -> tuple[float, float]:
    """CR2 standard error and Satterthwaite df of weights @ beta, from its definition with matrix roots."""
    bread = np.linalg.inv(design.T @ design)
    hat = design @ bread @ design.T
    residual = outcome - hat @ outcome
    rows = [np.flatnonzero(cluster == label) for label in np.unique(cluster)]
    scores, carriers = [], []
    for members in rows:
        block = np.eye(len(members)) - hat[np.ix_(members, members)]
        value, vector = np.linalg.eigh(block)
        inverse_root = vector @ np.diag(1 / np.sqrt(np.maximum(value, 1e-12))) @ vector.T
        loading = inverse_root @ design[members] @ bread @ weights
        scores.append(float(loading @ residual[members]))
        carriers.append((np.eye(len(outcome)) - hat)[:, members] @ loading)
    gram = np.array(carriers) @ np.array(carriers).T
    return math.sqrt(sum(score**2 for score in scores)), float(np.trace(gram) ** 2 / np.sum(gram**2))


def spread(d: NDArray[np.int64], n: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Pivot-level outcomes in {-1, 0, 1} whose sums by problem are d, and their problems."""
    outcome = np.concatenate(
        [np.r_[np.full(abs(a), np.sign(a)), np.zeros(b - abs(a))] for a, b in zip(d, n, strict=True)]
    )
    return outcome, np.repeat(np.arange(len(n)), n)


def test_pooled_ratio_matches_the_matrix_definition() -> None:
    """The closed form is CR2 with Satterthwaite df of an intercept-only model with problems as clusters."""
    d, n = np.array([3, -1, 0, 5, 2, 1]), np.array([9, 4, 7, 12, 2, 30])
    outcome, cluster = spread(d, n)
    se, df = matrix_cr2(outcome, np.ones((len(outcome), 1)), cluster, np.ones(1))
    found = pooled(d, n)
    assert found.value == pytest.approx(outcome.mean())
    assert (found.se, found.df) == pytest.approx((se, df))


def test_contrast_matches_the_matrix_definition() -> None:
    """Two dummy means whose clusters reach into both, as the margin test and --against need."""
    d = np.array([[3, 1], [-1, 2], [0, 0], [5, -2], [2, 0]])
    n = np.array([[9, 3], [4, 6], [7, 0], [12, 8], [2, 5]])
    parts = [spread(d[:, side], n[:, side]) for side in (0, 1)]
    outcome = np.concatenate([part[0] for part in parts])
    cluster = np.concatenate([part[1] for part in parts])
    side = np.repeat([0, 1], [len(part[0]) for part in parts])
    design = np.stack([side == 0, side == 1], axis=1).astype(np.float64)
    se, df = matrix_cr2(outcome, design, cluster, np.array([-1.0, 1.0]))
    found = contrast(d, n)
    assert found.difference == pytest.approx(outcome[side == 1].mean() - outcome[side == 0].mean())
    assert (found.se, found.df) == pytest.approx((se, df))


def test_single_pivot_problems_give_the_ordinary_t_test() -> None:
    """With one pivot a problem nothing is clustered: CR2 is the one-sample standard error with n - 1 df."""
    d, n = np.array([1, 0, 0, -1, 1, 1, 0]), np.ones(7, dtype=np.int64)
    found, plain = pooled(d, n), problem_mean(d, n)
    assert found.se == pytest.approx(np.std(d, ddof=1) / math.sqrt(7))
    assert (found.df, found.t) == pytest.approx((6, plain.t))


def test_scale_turns_integers_over_k_into_credit() -> None:
    """Numerators in units of 1/4 over scale 4 is d/4."""
    d, n = np.array([3, -1, 0, 5]), np.array([9, 4, 7, 12])
    coarse, fine = pooled(d, n), pooled(d, n, scale=4)
    assert fine.value is not None
    assert fine.se is not None
    assert (4 * fine.value, 4 * fine.se, fine.t) == pytest.approx((coarse.value, coarse.se, coarse.t))


COUNTS = st.lists(st.tuples(st.integers(1, 60), st.integers(-60, 60)), min_size=2, max_size=30)


@given(COUNTS)
def test_problems_without_pivots_change_nothing(counts: list[tuple[int, int]]) -> None:
    """A problem with n = 0 carries no information for either estimand."""
    n = np.array([size for size, _ in counts])
    d = np.array([max(-size, min(size, value)) for size, value in counts])
    padded_n, padded_d = np.insert(n, 1, 0), np.insert(d, 1, 0)
    assert pooled(d, n) == pooled(padded_d, padded_n)
    with_gap, without = problem_mean(padded_d, padded_n), problem_mean(d, n)
    assert (with_gap.mean, with_gap.t, with_gap.n) == (without.mean, without.t, without.n)


@given(COUNTS)
def test_interval_and_p_value_agree(counts: list[tuple[int, int]]) -> None:
    """Zero is outside the 95% interval exactly when p < .05; df lies between 1 and G - 1."""
    n = np.array([size for size, _ in counts])
    d = np.array([max(-size, min(size, value)) for size, value in counts])
    found = pooled(d, n)
    if found.se is None or found.df is None or found.ci95 is None or found.p is None:
        assert found.why is not None
        return
    assert found.df <= len(n) - 1 + 1e-9
    if abs(found.p - 0.05) > 1e-9:
        assert (found.p < 0.05) == (not found.ci95[0] <= 0 <= found.ci95[1])


def clustered_campaigns(rng: np.random.Generator, runs: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`runs` campaigns of 20 problems, 5-40 pivots each; every problem has its own rates, the mean excess is 0.1."""
    n = rng.integers(5, 41, (runs, 20))
    refeed = rng.binomial(n, rng.beta(3, 7, n.shape))
    floor = rng.binomial(n, rng.beta(2, 8, n.shape))
    return refeed - floor, n


def test_cr2_interval_covers_and_the_naive_one_does_not() -> None:
    """Within-problem dependence: 95% intervals of the pooled excess cover its true value 93-98% of the time."""
    d, n = clustered_campaigns(np.random.default_rng(1), 2000)
    covered = naive = 0
    for d_run, n_run in zip(d, n, strict=True):
        found = pooled(d_run, n_run)
        assert found.ci95 is not None
        assert found.value is not None
        covered += found.ci95[0] <= 0.1 <= found.ci95[1]
        # pivots as if independent, with the largest variance such differences have
        half = 1.96 * math.sqrt(0.46 / n_run.sum())
        naive += abs(found.value - 0.1) <= half
    assert 0.93 <= covered / 2000 <= 0.98
    assert naive < covered


def test_problem_mean_t_has_its_size_at_a_planned_end() -> None:
    """Under no effect, the two-sided t over 20 problems rejects about 5% of the time."""
    rng = np.random.default_rng(2)
    n = rng.integers(5, 41, (2000, 20))
    rate = rng.beta(3, 7, n.shape)
    d = rng.binomial(n, rate) - rng.binomial(n, rate)
    rejected = [abs(problem_mean(*run).t or 0.0) > t_quantile(19, 0.975) for run in zip(d, n, strict=True)]
    assert 0.035 <= np.mean(rejected) <= 0.065


@pytest.mark.parametrize(
    ("d", "n", "difference", "why"),
    [
        ([[1, 0], [0, 0]], [[3, 0], [2, 0]], None, "one of the two sides has no eligible pivots"),
        ([[1, 1], [1, 0], [0, 0]], [[3, 4], [2, 0], [0, 0]], None, "one problem holds a whole side"),
        ([[1, 2], [2, 4]], [[3, 4], [6, 8]], 1 / 2 - 1 / 3, "no variation between problems"),
        ([[1, 1], [0, 0]], [[3, 3], [3, 3]], 0.0, "both sides vary alike in every problem"),
    ],
    ids=["empty side", "one holder", "no variation", "alike"],
)
def test_a_contrast_that_cannot_be_tested_says_why(
    d: list[list[int]], n: list[list[int]], difference: float | None, why: str
) -> None:
    """Each way to have no error has its own reason; a difference that exists is still said."""
    found = contrast(np.array(d), np.array(n))
    assert found.why == f"undefined: {why}"
    assert (found.se, found.t, found.df, found.p, found.ci95) == (None,) * 5
    assert found.difference == (None if difference is None else pytest.approx(difference))


def test_nothing_eligible_has_no_mean_and_no_clusters() -> None:
    """Problems without eligible pivots are no problems of either mean."""
    none = np.zeros(3, dtype=np.int64)
    ratio, mean = pooled(none, none), problem_mean(none, none)
    assert (ratio.value, ratio.clusters, ratio.why) == (None, 0, "no eligible pivots")
    assert (mean.n, mean.mean, mean.sd, mean.t, mean.df, mean.p) == (0, None, None, None, None, None)
    assert (mean.refeed_worse, mean.floor_worse, mean.equal, mean.why) == (0, 0, 0, "no eligible pivots")
