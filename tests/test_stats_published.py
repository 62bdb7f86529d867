"""The published numbers, from the published records: Table 1 and sections 3.2, 5.1-5.4, to the printed digit."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from stats.report import Report, report
from tests.helpers.published import load, pooled_main

if TYPE_CHECKING:
    from stats.counts import Comparison


@pytest.fixture(scope="module")
def pooled() -> Report:
    return report(pooled_main())


@pytest.fixture(scope="module")
def k8() -> Report:
    return report(load("k8"))


@pytest.fixture(scope="module")
def invariant() -> Report:
    return report(load("batchinv"))


def percent(value: float | None) -> str:
    """As the paper prints rates."""
    assert value is not None
    return f"{100 * value:.1f}"


def cell(found: Comparison) -> str:
    """As Table 1 prints a comparison: rate (reversals)."""
    return f"{percent(found.rate)} ({percent(found.reversal_rate)})"


def row(found: Report) -> tuple[str, ...]:
    """The row of Table 1."""
    counts = found.common.counts
    return (
        str(counts.n),
        cell(counts.refeed),
        cell(counts.floor),
        percent(counts.excess),
        f"{found.clustered.t:.2f}",
        f"{found.mcnemar.z:.2f}",
    )


def test_table_1_row_of_the_pooled_main_configuration(pooled: Report) -> None:
    """Main pooled, K = 4."""
    assert row(pooled) == ("636", "33.8 (3.9)", "15.1 (1.1)", "18.7", "5.51", "8.61")


def test_table_1_row_of_k8(k8: Report) -> None:
    """K = 8."""
    assert row(k8) == ("490", "35.7 (4.9)", "10.4 (1.0)", "25.3", "6.36", "9.68")


def test_table_1_row_of_batch_invariant_kernels_has_no_t_and_no_z(invariant: Report) -> None:
    """Nothing disagrees, so t and z do not exist; the paper prints dashes."""
    counts = invariant.common.counts
    assert (counts.n, counts.refeed.disagree, counts.floor.disagree, counts.excess) == (106, 0, 0, 0.0)
    assert (invariant.clustered.t, invariant.mcnemar.z) == (None, None)


def test_counts_behind_the_table(pooled: Report, k8: Report, invariant: Report) -> None:
    """Pivots, eligible pivots, disagreements and reversals of statistics.md."""
    found = [
        (
            each.pivots,
            each.common.counts.n,
            each.common.counts.refeed.disagree,
            each.common.counts.floor.disagree,
            each.common.counts.refeed.reversals,
            each.common.counts.floor.reversals,
        )
        for each in (pooled, k8, invariant)
    ]
    assert found == [(1567, 636, 215, 96, 25, 7), (783, 490, 175, 51, 24, 5), (395, 106, 0, 0, 0, 0)]


def test_zero_crossings_and_reversals_make_up_every_disagreement(pooled: Report) -> None:
    """Section 5.1: most changes are zero crossings."""
    refeed = pooled.common.counts.refeed
    assert (refeed.zero_crossings, refeed.reversals) == (190, 25)


def test_eligibility_sources(pooled: Report) -> None:
    """Section 3.2: 77 of 636 only under re-feed, 18 only under the replica."""
    assert (pooled.eligibility.exact1, pooled.eligibility.only_refeed, pooled.eligibility.only_floor) == (515, 77, 18)


def test_treatment_independent_conditioning(pooled: Report, k8: Report) -> None:
    """Section 5.1: +11.7pp pooled (112 and 52 of 515), +19.0pp at K = 8."""
    counts = pooled.exact1.counts
    assert (counts.n, counts.refeed.disagree, counts.floor.disagree) == (515, 112, 52)
    assert (percent(counts.excess), percent(k8.exact1.counts.excess)) == ("11.7", "19.0")


def test_sign_splits(pooled: Report, k8: Report) -> None:
    """Section 5.1: 29 worse against 5 pooled, 19 against 0 at K = 8."""
    splits = [(each.clustered.refeed_worse, each.clustered.floor_worse, each.clustered.equal) for each in (pooled, k8)]
    assert splits == [(29, 5, 6), (19, 0, 1)]


def test_bias_is_consistent_with_zero(pooled: Report) -> None:
    """Section 5.1: -0.011, t = -1.23, [-0.029, +0.006]; -1.42 with CR2."""
    found = pooled.bias
    assert found.ci95 is not None
    assert (f"{found.mean:.3f}", f"{found.t:.2f}") == ("-0.011", "-1.23")
    assert tuple(f"{end:.3f}" for end in found.ci95) == ("-0.029", "0.006")
    assert f"{found.clustered.t:.2f}" == "-1.42"


def test_effect_is_flat_in_the_margin(pooled: Report) -> None:
    """Section 5.1: 34.2% below 0.3 nats, 33.6% above, floors 12.0% and 16.9%; the clustered test agrees."""
    below, above = pooled.margin.below, pooled.margin.above
    assert (percent(below.refeed), percent(above.refeed)) == ("34.2", "33.6")
    assert (percent(below.floor), percent(above.floor)) == ("12.0", "16.9")
    assert below.n + above.n == 636
    assert pooled.margin.refeed_flat.p is not None
    assert pooled.margin.refeed_flat.p > 0.05


def test_critical_token_selection(pooled: Report, k8: Report, invariant: Report) -> None:
    """Section 5.2: Jaccard 0.68 / 0.68 / 1.0 under re-feed against 0.84 / 0.87 / 1.0 for the replica."""
    found = [
        (f"{half.refeed.jaccard:.2f}", f"{half.replica.jaccard:.2f}")
        for half in (each.selection["0.5"].selection for each in (pooled, k8, invariant))
    ]
    assert found == [("0.68", "0.84"), ("0.68", "0.87"), ("1.00", "1.00")]
    half = pooled.selection["0.5"].selection
    assert (half.threshold, half.refeed.both, half.refeed.either) == (Fraction(1, 2), 184, 269)
    assert (half.replica.both, half.replica.either) == (205, 245)


def test_every_selection_disagreement_is_within_one_quantum(pooled: Report, k8: Report) -> None:
    """Section 5.2: at least one of the two estimates lies within 1/K of the threshold, always."""
    for each in (pooled, k8):
        half = each.selection["0.5"].selection
        assert (half.refeed.within_quantum_share, half.replica.within_quantum_share) == (1.0, 1.0)


def test_probe_channel(pooled: Report, k8: Report, invariant: Report) -> None:
    """Section 5.3: p90 3.7e-3 against 4.8e-2, divergence 7.9% against 22.8%, bit-exact 61-94% against 2.6-5.7%."""
    replica, refeed = pooled.probe.replica, pooled.probe.refeed
    assert (f"{replica.p90:.1e}", f"{refeed.p90:.1e}") == ("3.7e-03", "4.8e-02")
    assert (percent(replica.diverged), percent(refeed.diverged)) == ("7.9", "22.8")
    assert (percent(replica.bit_exact), percent(refeed.bit_exact)) == ("72.3", "3.3")
    assert (percent(k8.probe.replica.bit_exact), percent(k8.probe.refeed.bit_exact)) == ("93.6", "5.0")
    assert (invariant.probe.replica.bit_exact, invariant.probe.refeed.bit_exact) == (1.0, 1.0)


def test_the_smoke_run_reports_what_it_can() -> None:
    """Two problems, before probe logprobs by arm were stored: a report with reasons, no failure."""
    found = report(load("smoke"), draws=100)
    assert (found.problems, found.pivots) == (2, 16)
    assert found.probe.refeed.bit_exact_arms is None
    assert found.clustered.why is not None


def test_nothing_seen_is_a_bound_not_zero(invariant: Report) -> None:
    """0 of 106 on 10 problems: 2.79% if pivots were independent, 25.9% over problems."""
    bound = invariant.common.refeed_bound
    assert bound is not None
    assert (f"{bound.independent:.2%}", f"{bound.over_problems:.1%}") == ("2.79%", "25.9%")


def test_decision_rule_calls_the_published_runs(pooled: Report, k8: Report, invariant: Report) -> None:
    """Above 5% load-bearing, below 2% negligible."""
    verdicts = [each.decision.verdict for each in (pooled, k8, invariant)]
    assert verdicts == ["load-bearing", "load-bearing", "negligible"]
