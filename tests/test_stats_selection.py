"""Critical-token selection on integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stats.selection import as_threshold, critical, overlap_counts, selection
from stats.table import EXACT2, REFEED
from tests.helpers.tables import table


def test_a_threshold_that_floats_miss() -> None:
    """(7/10) - (2/10) is below 0.5 in floats; 5 of 10 is at the threshold."""
    assert (7 / 10) - (2 / 10) < 0.5
    found = selection(table([[(7 - 2, 4, 5)]], k=10), "0.5")
    assert (found.selected_exact1, found.refeed.jaccard, found.replica.both) == (1, 1.0, 0)


@given(st.integers(1, 64).flatmap(lambda k: st.tuples(st.just(k), st.integers(-k, k))), st.integers(1, 20))
def test_selection_equals_exact_fractions(estimate: tuple[int, int], twentieths: int) -> None:
    """|net| / K >= threshold for any K and any threshold."""
    k, net = estimate
    cut = Fraction(twentieths, 20)
    chosen = critical(np.array([[net, 0, 0]]), np.array([k]), cut)
    assert bool(chosen[0, 0]) == (Fraction(abs(net), k) >= cut)


def test_quantum_share_by_hand() -> None:
    """K = 4, threshold 1/2: 1 against 2 is at the cut, 0 against 4 is not within 1/4 of it on either side."""
    found = selection(table([[(1, 2, 2), (0, 0, 4), (4, 4, 4)]], k=4), "0.5").refeed
    assert (found.differ, found.within_quantum, found.within_quantum_share) == (2, 1, 0.5)


def test_no_disagreement_has_no_quantum_share() -> None:
    """Nothing differs: the share within one quantum is undefined, not 1."""
    assert selection(table([[(4, 4, 4)]]), "0.5").refeed.within_quantum_share is None


@pytest.mark.parametrize("text", ["0", "1.5", "-0.5"])
def test_thresholds_outside_the_unit_interval_are_refused(text: str) -> None:
    """At 0 everything is selected, above 1 nothing."""
    with pytest.raises(ValueError, match=rf"a selection threshold lies in \(0, 1\], not {text}"):
        as_threshold(text)


def test_thresholds_are_exact() -> None:
    """A decimal text is that decimal; thirds are possible."""
    assert (as_threshold("0.1"), as_threshold("1/3")) == (Fraction(1, 10), Fraction(1, 3))


@pytest.mark.parametrize("compared", [EXACT2, REFEED])
def test_overlaps_by_problem_add_up_to_the_selection(compared: int) -> None:
    """What is resampled is what is reported: both and either, problem by problem."""
    evidence = table([[(4, 4, 0), (2, 0, 2), (0, 3, 3)], [], [(0, 0, 0), (-4, 4, -1)]], k=4)
    counts = overlap_counts(evidence, "0.5", compared)
    by_hand = {EXACT2: ([1, 0, 1], [3, 0, 1]), REFEED: ([1, 0, 0], [3, 0, 1])}
    assert (counts.both.tolist(), counts.either.tolist()) == by_hand[compared]
    found = selection(evidence, "0.5")
    whole = found.replica if compared == EXACT2 else found.refeed
    assert (counts.both.sum(), counts.either.sum()) == (whole.both, whole.either)


def test_two_empty_selections_have_no_jaccard() -> None:
    """0 of 0 is neither agreement nor disagreement."""
    assert selection(table([[(1, 1, 1)]]), "0.5").refeed.jaccard is None
