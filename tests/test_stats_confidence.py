"""The betting confidence sequence: never wider after more problems, and right for lumpy x at every look."""

from __future__ import annotations

import numpy as np
import pytest

from stats.confidence import betting_sequence, lower_bound


def test_lower_bound_is_the_running_maximum_of_the_bounds_of_all_looks() -> None:
    x = np.array([0.6] * 12 + [-0.8] * 3)
    looks = [lower_bound(x[:at], "betting") for at in range(1, len(x) + 1)]
    found = betting_sequence(x)[0]
    assert found == pytest.approx(max(bound for bound in looks if bound is not None), abs=1e-6)
    assert found is not None
    assert looks[-1] is None or found > looks[-1]


def test_upper_bound_mirrors_the_lower_one_and_nothing_seen_says_little() -> None:
    x = np.array([0.3, 0.1, 0.5, 0.4] * 6)
    least, most = betting_sequence(x)
    assert least is not None
    assert most is not None
    assert betting_sequence(-x) == pytest.approx((-most, -least))
    assert least < x.mean() < most
    assert betting_sequence(x[:0]) == (None, None)


def test_bounds_hold_for_lumpy_x_at_every_look() -> None:
    rng = np.random.default_rng(11)
    wrong = 0
    for _ in range(200):
        least, most = betting_sequence(np.where(rng.random(40) < 0.85, 0.3, -0.9))
        truth = 0.85 * 0.3 - 0.15 * 0.9
        wrong += (least is not None and least > truth) or (most is not None and most < truth)
    assert wrong <= 0.1 * 200
