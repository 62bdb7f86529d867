"""What a registered campaign says at a look: agreement with the live test, limit cases, and an unbiased median."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stats.groupseq import SequentialT, as_t
from stats.registered import group_sequential

XS = st.lists(st.one_of(st.none(), st.integers(-4, 4).map(lambda net: net / 4)), max_size=12)


@settings(max_examples=30, deadline=None)
@given(xs=XS, cut=st.integers(0, 12))
def test_batch_equals_the_live_test_on_every_split(xs: list[float | None], cut: int) -> None:
    live = SequentialT(12, seed=3)
    for x in xs[:cut]:
        live.close(x)
    assert group_sequential(xs[:cut], 12, seed=3).path == tuple(live.path)
    for x in xs[cut:]:
        live.close(x)
    whole = group_sequential(xs, 12, seed=3)
    assert (whole.path, whole.crossed_at) == (tuple(live.path), live.crossed_at)


def test_single_look_gives_the_fixed_interval_and_the_plain_mean() -> None:
    xs = [0.1, -0.05, 0.2, 0.15, 0.02]
    found = group_sequential(xs, 5)
    mean, error = float(np.mean(xs)), float(np.std(xs, ddof=1)) / 5**0.5
    half = as_t(1.959964, 5) * error
    assert found.ci95_repeated == pytest.approx((mean - half, mean + half), abs=1e-5)
    assert found.median_unbiased == pytest.approx(mean, abs=1e-5)


def test_chance_at_the_end_is_certain_at_the_end_and_absent_before_any_t() -> None:
    assert group_sequential([0.3, 0.2, 0.25, 0.1, 0.3, 0.2], 6).on_course == 1.0
    assert group_sequential([0.3, -0.3, 0.25, -0.2, 0.0, -0.1], 6).on_course == 0.0
    assert group_sequential([0.3], 6).on_course is None


def test_running_campaign_has_no_estimate_and_says_why() -> None:
    found = group_sequential([0.1, -0.2, 0.1, -0.1, 0.05, 0.0], 20)
    assert found.crossed_at is None
    assert found.ci95_repeated is not None
    assert found.median_unbiased is None
    assert found.why is not None


def test_equal_or_missing_x_gives_reasons_instead_of_numbers() -> None:
    for xs in ([], [None] * 6, [0.2] * 6):
        found = group_sequential(xs, 6)
        assert (found.ci95_repeated, found.median_unbiased, found.on_course) == (None, None, None)
        assert found.why is not None


def test_estimate_at_a_stop_is_above_the_truth_in_half_of_the_campaigns() -> None:
    rng = np.random.default_rng(5)
    truth, above, runs = 0.2, 0, 60
    for _ in range(runs):
        xs = [float(x) for x in rng.normal(truth, 0.3, 20)]
        estimate = group_sequential(xs, 20).median_unbiased
        assert estimate is not None
        above += estimate > truth
    assert 19 <= above <= 41  # three standard errors
