"""The sign-flip test: against plain enumeration on exact fractions, at its limits, and by its size."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stats.signflip import DRAWS, EXACT_LIMIT, sign_flip, sign_flip_mean, sign_flip_pooled

if TYPE_CHECKING:
    import pytest


def enumerated(values: list[Fraction]) -> int:
    """Assignments of signs whose sum reaches the observed one, one by one."""
    total = sum(values, Fraction(0))
    signs = itertools.product((-1, 1), repeat=len(values))
    return sum(sum((s * v for s, v in zip(sign, values, strict=True)), Fraction(0)) >= total for sign in signs)


PROBLEMS = st.lists(st.tuples(st.integers(1, 97), st.integers(-97, 97)), min_size=1, max_size=9)


@given(PROBLEMS)
@settings(deadline=None)
def test_counts_equal_plain_enumeration(problems: list[tuple[int, int]]) -> None:
    """Both statistics, ties included, for any sizes; the common multiple of nine sizes outgrows 32 bits."""
    n = np.array([size for size, _ in problems])
    d = np.array([max(-size, min(size, value)) for size, value in problems])
    kept = [(int(a), int(b)) for a, b in zip(d, n, strict=True) if a != 0]
    assert sign_flip_mean(d, n).count == enumerated([Fraction(a, b) for a, b in kept])
    assert sign_flip_pooled(d, n).count == enumerated([Fraction(a) for a, _ in kept])


@given(st.lists(st.integers(-5, 5).filter(bool), min_size=1, max_size=9), st.sampled_from([1, 10**9, 10**17, 10**40]))
@settings(deadline=None)
def test_the_size_of_the_integers_does_not_matter(weights: list[int], scale: int) -> None:
    """Scaling all weights keeps every tie, also where sums need several machine words."""
    assert sign_flip([weight * scale for weight in weights]).count == enumerated([Fraction(w) for w in weights])


def test_a_tie_that_floats_break_is_a_tie() -> None:
    """1/10 + 2/10 = 3/10: in floats .1 + .2 - .3 is above zero, and the count would be off."""
    d, n = np.array([1, 2, 3]), np.array([10, 10, 10])
    assert sign_flip_mean(np.array([1, 2, -3]), n).count == enumerated(
        [Fraction(1, 10), Fraction(2, 10), Fraction(-3, 10)]
    )
    assert sign_flip_mean(d, n).count == 1


def test_all_positive_reaches_the_smallest_p() -> None:
    """With m problems all worse: p = 2^-m, and that is the smallest possible."""
    found = sign_flip_pooled(np.full(7, 2), np.full(7, 9))
    assert (found.p, found.smallest, found.exact) == (2**-7, 2**-7, True)


def test_nothing_to_flip_has_p_one_and_no_problem_has_none() -> None:
    """All differences zero: every assignment is the observed one. No informative problem: no test."""
    zeros = np.zeros(3, dtype=np.int64)
    for test in (sign_flip_mean, sign_flip_pooled):
        same = test(zeros, np.array([2, 3, 4]))
        assert (same.p, same.nonzero, same.count, same.smallest) == (1.0, 0, 1, 1.0)
        found = test(zeros, zeros)
        assert (found.p, found.nonzero, found.count, found.why) == (None, 0, 0, "no eligible pivots")


def test_exact_up_to_the_limit_and_seeded_monte_carlo_beyond() -> None:
    """40 nonzero problems are counted; 41 are drawn, the same for the same seed."""
    rng = np.random.default_rng(3)
    n = rng.integers(5, 41, EXACT_LIMIT + 1)
    d = np.where(rng.random(EXACT_LIMIT + 1) < 0.6, 1, -1) * rng.integers(1, 5, EXACT_LIMIT + 1)
    exact, drawn = sign_flip_mean(d[:-1], n[:-1]), sign_flip_mean(d, n, seed=5)
    assert (exact.exact, drawn.exact) == (True, False)
    assert drawn == sign_flip_mean(d, n, seed=5)
    assert drawn.why == "Monte Carlo: 100,000 draws, seed 5"
    assert drawn.count == 34106, "another way of drawing would give a reported session another p"
    assert exact.p is not None


def test_monte_carlo_estimates_the_exact_p(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty problems drawn instead of counted: within four standard errors of its count, for both statistics."""
    rng = np.random.default_rng(13)
    n = rng.integers(5, 41, 20)
    d = rng.choice([-1, 1, 1], 20) * rng.integers(1, 5, 20)
    exact = [sign_flip_mean(d, n).p, sign_flip_pooled(d, n).p]
    monkeypatch.setattr("stats.signflip.EXACT_LIMIT", 10)
    drawn = [sign_flip_mean(d, n, seed=1).p, sign_flip_pooled(d, n, seed=1).p]
    for found, expected in zip(drawn, exact, strict=True):
        assert found is not None
        assert expected is not None
        assert 0.0001 < expected < 0.5
        assert abs(found - expected) < 4 * np.sqrt(expected / DRAWS)


def test_size_is_at_most_nominal() -> None:
    """Under random signs p <= .05 happens at most 5% of the time (exactly, but for simulation error)."""
    rng = np.random.default_rng(4)
    n = rng.integers(5, 41, 12)
    size = rng.integers(1, 6, 12)
    p = [sign_flip_mean(size * rng.choice([-1, 1], 12), n).p for _ in range(2000)]
    assert np.mean([value is not None and value <= 0.05 for value in p]) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 2000)
