"""Numbers in words."""

from __future__ import annotations

import pytest

from tui.numbers import rough


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
