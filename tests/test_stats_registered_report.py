"""The registered test and the treatment-independent excess of the published runs."""

from __future__ import annotations

import pytest

from stats.report import report
from tests.helpers.published import load, pooled_main


def test_pooled_order_stops_at_half_of_the_registered_problems() -> None:
    found = report(pooled_main(), registered=40, draws=100)
    assert found.group_sequential is not None
    assert found.group_sequential.crossed_at == 20
    assert found.exact1_excess.ci95 == pytest.approx((0.055, 0.178), abs=6e-4)
    assert found.exact1_excess.value == pytest.approx(60 / 515)


def test_problems_beyond_the_registered_ones_are_left_out_of_the_test() -> None:
    found = report(load("k8"), registered=12, draws=100).group_sequential
    assert found is not None
    assert len(found.path) == 12
    assert report(load("k8"), draws=100).group_sequential is None
