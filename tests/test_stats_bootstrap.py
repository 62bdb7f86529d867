"""The BCa bootstrap over problems."""

from __future__ import annotations

import numpy as np
import pytest

from stats.bootstrap import _weights, bootstrap_ratios

D, N = np.array([3, -1, 0, 5, 2, 1, 4, 2]), np.array([9, 4, 7, 12, 2, 30, 10, 5])


@pytest.mark.parametrize(("seed", "low", "high"), [(1, 0.041286567, 0.376811594), (2, 0.042857143, 0.378787879)])
def test_interval_equals_another_implementation_on_the_same_draws(seed: int, low: float, high: float) -> None:
    """Scipy 1.17's paired BCa bootstrap, 100,000 resamples, numpy's default generator with this seed."""
    (found,) = bootstrap_ratios([(D, N)], draws=100_000, seed=seed)
    assert found.ci95 == pytest.approx((low, high), abs=1e-8)


def test_seeded_and_shared_draws() -> None:
    """The same seed gives the same interval, whatever else is asked for; another seed gives another."""
    alone, together = bootstrap_ratios([(D, N)], draws=500), bootstrap_ratios([(N - D, N), (D, N)], draws=500)
    assert alone[0] == together[1]
    assert bootstrap_ratios([(D, N)], draws=500, seed=1) != alone


def test_chunks_do_not_change_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many problems are drawn piece by piece from one stream."""
    whole = bootstrap_ratios([(D, N)], draws=999)
    monkeypatch.setattr("stats.bootstrap._CELLS", 80)
    assert bootstrap_ratios([(D, N)], draws=999) == whole
    assert sum(len(chunk) for chunk in _weights(len(D), 999, 0)) == 999


@pytest.mark.parametrize(
    ("d", "n", "why"),
    [
        ([], [], "nothing to divide by"),
        ([0, 0], [0, 0], "nothing to divide by"),
        ([2, 0], [4, 0], "needs at least 2 informative problems"),
        ([1, 2, 3], [3, 6, 9], "undefined: all 3 problems have the same ratio"),
    ],
)
def test_no_interval_without_variation(d: list[int], n: list[int], why: str) -> None:
    """A bootstrap that cannot vary would print a point as an interval; it gives the reason instead."""
    (found,) = bootstrap_ratios([(np.array(d, dtype=np.int64), np.array(n, dtype=np.int64))], draws=100)
    assert (found.ci95, found.why) == (None, why)


def test_draws_must_be_positive() -> None:
    """Zero draws are refused by value."""
    with pytest.raises(ValueError, match="draws must be positive, not 0"):
        bootstrap_ratios([(D, N)], draws=0)
    (one,) = bootstrap_ratios([(D, N)], draws=1)
    assert (one.ci95, one.why) == (None, "every draw lies on one side of the estimate")


def test_interval_covers_the_pooled_excess() -> None:
    """40 problems with rates of their own, mean excess 0.1: BCa covers 91-97% (a bootstrap of 40 is a little short)."""
    rng = np.random.default_rng(9)
    covered = 0
    for run in range(400):
        n = rng.integers(5, 41, 40)
        d = rng.binomial(n, rng.beta(3, 7, 40)) - rng.binomial(n, rng.beta(2, 8, 40))
        (found,) = bootstrap_ratios([(d, n)], draws=1000, seed=run)
        assert found.ci95 is not None
        covered += found.ci95[0] <= 0.1 <= found.ci95[1]
    assert 0.90 <= covered / 400 <= 0.98
