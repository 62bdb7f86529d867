"""The group-sequential test: published bounds, limit cases, and its size under sign flips."""

from __future__ import annotations

import numpy as np
import pytest

from stats.groupseq import SequentialT, as_t, gaussian_bounds, spent


def test_gaussian_bounds_are_the_published_ones() -> None:
    """Lan-DeMets O'Brien-Fleming-type spending, five equal looks, one-sided .025 (the values of the design task)."""
    found = gaussian_bounds([0.2, 0.4, 0.6, 0.8, 1.0], 0.025)
    assert found == pytest.approx([4.8769, 3.3569, 2.6803, 2.2898, 2.0310], abs=2e-4)


def test_one_look_is_the_fixed_test() -> None:
    assert spent(1.0, 0.05) == pytest.approx(0.05)
    assert gaussian_bounds([1.0], 0.05) == pytest.approx([1.6448536], abs=1e-6)
    assert as_t(1.6448536, 20) == pytest.approx(1.729133, abs=1e-5)


def test_all_zero_never_crosses_and_past_the_end_is_refused() -> None:
    test = SequentialT(6)
    for _ in range(6):
        assert not test.close(0.0).crossed
    with pytest.raises(ValueError, match="registered"):
        test.close(0.0)


def test_uninformative_problem_moves_the_fraction_only() -> None:
    test = SequentialT(8)
    looks = [test.close(x) for x in (0.1, None, 0.2)]
    assert [(look.closed, look.informative) for look in looks] == [(1, 1), (2, 1), (3, 2)]


def test_size_is_exact_over_all_sign_vectors() -> None:
    sizes = np.array([0.11, 0.23, 0.31, 0.47, 0.59, 0.71, 0.13, 0.37])
    crossed = 0
    for code in range(256):
        test = SequentialT(8)
        for index, size in enumerate(sizes):
            test.close(float(size if code >> index & 1 else -size))
        crossed += test.crossed_at is not None
    assert 0 < crossed <= 0.05 * 256
