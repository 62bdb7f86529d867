"""Numbers in words."""

from __future__ import annotations

import pytest

from sessions.numbers import e_value, interval, least, moment, nats, ordinal, p_value, percent, points, rough


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.3, "under a minute"),
        (59.9, "under a minute"),
        (60, "about 1 min"),
        (3000, "about 50 min"),
        (9000, "about 2.5 h"),
    ],
)
def test_estimated_times_claim_no_more_than_can_be_known(seconds: float, words: str) -> None:
    """An estimate of seconds is "under a minute", never "about 0 s"."""
    assert rough(seconds) == words


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (p_value(0.0), "p < 1e-300"),
        (p_value(3.21e-5), "p = 3.2e-05"),
        (p_value(None), "p -"),
        (interval((-0.01, 0.2)), "[-1.0, 20.0]"),
        (interval((-0.01, 0.2), signed=True), "[-1.0, +20.0]"),
        (interval((-0.01, 0.2), scale=1, digits=4), "[-0.0100, 0.2000]"),
        (interval(None), "-"),
        (percent(0.3381), "33.8%"),
        (least(0.0611, 0.05), "mean per-problem excess at least +6.1pp (one-sided, alpha = 0.05)"),
        (least(-0.1, 1e-9), "mean per-problem excess at least -10.0pp (one-sided, alpha = 1e-09)"),
        (least(None, 0.05), "no lower bound of the mean per-problem excess yet"),
        (points(0.187), "+18.7pp"),
        (e_value(22243.21), "22,243.2"),
        (e_value(1.4e9), "1.4e+09"),
        (e_value(0.00118), "0.0012"),
        (e_value(0.0), "0.0"),
        (nats(0.000899), "0.000899"),
        (" ".join(map(ordinal, (1, 2, 3, 4, 11, 21))), "1st 2nd 3rd 4th 11th 21st"),
    ],
)
def test_numbers_have_one_spelling(found: str, words: str) -> None:
    """What is not known is a dash, what underflows is a bound, and a difference has its sign."""
    assert found == words


def test_a_time_that_no_calendar_has_is_none() -> None:
    """A journal can say anything of its clock."""
    assert [moment(wall) for wall in (1e300, -1e300, float("nan"), float("inf"))] == [None] * 4
    found = moment(1_800_000_000.0)
    assert found is not None
    assert f"{found:%Y-%m-%d %H:%M}" == "2027-01-15 08:00"
