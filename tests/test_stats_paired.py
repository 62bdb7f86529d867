"""McNemar, bias, margin buckets, campaign differences and the decision rule."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stats.clustered import pooled
from stats.contrast import difference
from stats.decision import Decision, Verdict, decide, doubt, unsettled
from stats.disagreement import problem_counts
from stats.margin import margin
from stats.paired import bias, mcnemar
from tests.helpers.published import load, pooled_main
from tests.helpers.tables import counted, table


def test_mcnemar_reproduces_a_textbook_example() -> None:
    """Agresti's approval ratings: 150 against 86 discordant pairs, z = 4.17."""
    nets = [(1, 1, 0)] * 150 + [(1, 0, 1)] * 86 + [(1, 1, 1)] * 794
    found = mcnemar(table([nets]))
    assert (found.b, found.c) == (150, 86)
    assert found.z is not None
    assert f"{found.z:.2f}" == "4.17"


def test_clustered_z_equals_the_plain_one_when_every_problem_is_one_pivot() -> None:
    """sum(b - c) / sqrt(sum (b_i - c_i)^2) with b_i + c_i = 1 is McNemar's z; with big problems it is smaller."""
    single = mcnemar(table([[(1, 1, 0)]] * 9 + [[(1, 0, 1)]] * 3))
    assert single.z_clustered == pytest.approx(single.z)
    whole = mcnemar(table([[(1, 1, 0)] * 9, [(1, 0, 1)] * 3]))
    assert whole.z == pytest.approx(single.z)
    assert whole.z_clustered == pytest.approx(6 / math.sqrt(81 + 9))


def test_unclustered_z_rejects_far_too_often_when_pivots_cluster() -> None:
    """Swapping the passes within whole problems: |z| > 1.96 far above 5%, the clustered form not."""
    rng = np.random.default_rng(10)
    plain = clustered = 0
    for _ in range(400):
        problems = [
            [(1, 1, 0)] * size if rng.random() < 0.5 else [(1, 0, 1)] * size for size in rng.integers(3, 12, 25)
        ]
        found = mcnemar(table(problems))
        plain += found.z is not None and abs(found.z) > 1.96
        clustered += found.z_clustered is not None and abs(found.z_clustered) > 1.96
    assert plain / 400 > 0.25
    assert clustered / 400 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)


def test_bias_of_equal_shifts_has_no_t() -> None:
    """Every estimate one quantum higher: the mean is exact, t does not exist."""
    found = bias(table([[(1, 1, 2), (2, 2, 3)], [(0, 0, 1)]]))
    assert (found.mean, found.t, found.ci95) == (0.25, None, None)
    assert found.why == "undefined: all 3 differences are equal"


def test_bias_of_a_symmetric_change_is_zero() -> None:
    """As much up as down: mean 0 and t 0, which is a number here."""
    found = bias(table([[(1, 1, 2), (2, 2, 1)], [(1, 1, 0), (1, 1, 2)]]))
    assert (found.mean, found.t) == (0.0, 0.0)


def test_a_pivot_at_the_cut_is_in_the_upper_bucket() -> None:
    """0.3 is not below 0.3; a pivot without a margin is in neither."""
    found = margin(table([[(1, 1, 0), (1, 1, 0), (1, 1, 0), (1, 1, 0)]], margin=[0.29, 0.3, 0.31, float("nan")]))
    assert (found.below.n, found.above.n) == (1, 2)


def test_flatness_test_finds_a_real_dependence() -> None:
    """Low margins always change, high ones never: the contrast is far from zero."""
    rng = np.random.default_rng(11)
    kept = [0.2] * 6 + [0.9] * 6
    problems = [[(1, 1, int(rng.random() < chance)) for chance in kept] for _ in range(12)]
    found = margin(table(problems, margin=([0.1] * 6 + [0.8] * 6) * 12)).refeed_flat
    assert found.difference is not None
    assert found.p is not None
    assert found.difference < -0.5
    assert found.p < 1e-4


def test_flatness_test_has_its_size() -> None:
    """Rates that vary by problem but not by margin: p < .05 about 5% of the time."""
    rng = np.random.default_rng(12)
    rejected = 0
    for _ in range(600):
        rates = rng.beta(3, 7, 20)
        problems = [[(1, 1, int(rng.random() >= rate)) for _ in range(12)] for rate in rates]
        p = margin(table(problems, margin=rng.choice([0.1, 0.8], 240).tolist())).refeed_flat.p
        assert p is not None
        rejected += p < 0.05
    assert 0.025 <= rejected / 600 <= 0.08


def test_difference_of_a_run_and_itself_is_zero() -> None:
    """All problems are shared, so nothing varies and no p is made up."""
    found = difference(load("k8"), load("k8"))
    assert (found.excess.difference, found.excess.p, found.shared_problems) == (0.0, None, 20)
    assert found.excess.why is not None


def test_difference_of_disjoint_runs_adds_their_variances() -> None:
    """Primary against screened share no problem: SE^2 is the sum of both CR2 variances."""
    found = difference(load("screened"), load("primary")).excess
    parts = [problem_counts(load(name)) for name in ("screened", "primary")]
    screened, primary = (pooled(part.excess, part.n) for part in parts)
    assert screened.value is not None
    assert primary.value is not None
    assert screened.se is not None
    assert primary.se is not None
    assert found.difference == pytest.approx(screened.value - primary.value)
    assert found.se == pytest.approx(math.hypot(screened.se, primary.se))


def test_difference_between_stock_and_batch_invariant_kernels() -> None:
    """The causal confirmation as a number: ten shared problems, the stock excess is larger."""
    found = difference(pooled_main(), load("batchinv"))
    assert found.shared_problems == 10
    assert found.excess.p is not None
    assert found.excess.p < 0.005


@pytest.mark.parametrize(
    ("excess", "n", "verdict"),
    [(6, 100, "load-bearing"), (5, 100, "inconclusive"), (2, 100, "inconclusive"), (1, 100, "negligible"),
     (-9, 100, "negligible"), (1, 20, "inconclusive"), (1, 50, "inconclusive"), (0, 0, None)],
)  # fmt: skip
def test_decision_thresholds_are_strict_and_exact(excess: int, n: int, verdict: str | None) -> None:
    """Exactly 5% is not above 5%, exactly 2% is not below 2%, on integers."""
    assert decide(excess, n).verdict == verdict


def test_decision_rule_is_said_in_words() -> None:
    """The report prints the rule beside the verdict, and refuses thresholds out of order."""
    assert decide(1, 9).rule == "pooled excess above 0.05 load-bearing, below 0.02 negligible"
    with pytest.raises(ValueError, match="out of order"):
        decide(1, 9, negligible=0.1, load_bearing=0.05)


def test_counted_problems_have_the_counts_they_promise() -> None:
    """The helper of these tests does what the tests rely on."""
    found = mcnemar(table([counted(3, 2, 9)]))
    assert (found.b, found.c) == (3, 2)


@pytest.mark.parametrize(
    ("verdict", "ci95", "words", "short"),
    [
        ("load-bearing", (-0.03, 0.22), "by the point estimate; its interval includes 0", "interval includes 0"),
        ("load-bearing", (0.0, 0.22), "by the point estimate; its interval includes 0", "interval includes 0"),
        ("load-bearing", (0.015, 0.21), "by the point estimate; its interval reaches down to +1.5pp", "down to +1.5pp"),
        (
            "load-bearing",
            (0.0498, 0.21),
            "by the point estimate; its interval reaches down to +4.98pp",
            "down to +4.98pp",
        ),
        ("load-bearing", (0.05, 0.21), "by the point estimate; its interval reaches down to +5.0pp", "down to +5.0pp"),
        ("load-bearing", (0.0501, 0.26), "", ""),
        ("load-bearing", (0.11, 0.26), "", ""),
        ("negligible", (-0.01, 0.0199), "", ""),
        ("negligible", (-0.01, 0.02), "by the point estimate; its interval reaches up to +2.0pp", "up to +2.0pp"),
        ("negligible", (-0.01, 0.0203), "by the point estimate; its interval reaches up to +2.03pp", "up to +2.03pp"),
        ("negligible", (-0.09, 0.11), "by the point estimate; its interval reaches up to +11.0pp", "up to +11.0pp"),
        ("negligible", None, "by the point estimate alone: it has no interval", "no interval"),
        ("inconclusive", (-0.09, 0.11), "", ""),
        (None, None, "", ""),
    ],
)
def test_a_verdict_says_where_the_interval_does_not_bear_it_out(
    verdict: Verdict | None, ci95: tuple[float, float] | None, words: str, short: str
) -> None:
    """The registered rule looks at the point estimate alone; whoever reads the verdict must be told."""
    ruled = Decision("the default rule", 0.02, 0.05, verdict)
    assert (unsettled(ruled, ci95), doubt(ruled, ci95)) == (words, short)


def test_an_interval_below_0_does_not_include_it() -> None:
    """A registered threshold may lie below 0, and so may the interval of what is above it."""
    ruled = decide(-2, 100, negligible=-0.2, load_bearing=-0.1)
    assert ruled.verdict == "load-bearing"
    assert doubt(ruled, (-0.12, -0.01)) == "down to -12.0pp"
    assert doubt(ruled, (-0.12, 0.03)) == "interval includes 0"


def test_as_many_one_way_as_the_other_is_z_zero_and_undefined_only_where_each_problem_balances() -> None:
    """B = c is evidence of no difference, not the absence of evidence."""
    apart = mcnemar(table([[(1, 1, 0)], [(1, 0, 1)]]))
    assert (apart.b, apart.c, apart.z, apart.z_clustered, apart.why) == (1, 1, 0.0, 0.0, None)
    together = mcnemar(table([[(1, 1, 0), (1, 0, 1)]]))
    assert (together.z, together.z_clustered) == (0.0, None)
    assert together.why == "clustered z undefined: b = c in every problem"
    neither = mcnemar(table([[(1, 1, 1), (1, 0, 0)]]))
    assert (neither.z, neither.z_clustered) == (None, None)
    assert neither.why == "undefined: no pivot disagrees under one comparison only"


def test_bias_of_nothing_eligible_says_so() -> None:
    """No pivot, no mean."""
    found = bias(table([[(0, 0, 0)]]))
    assert (found.mean, found.t, found.ci95, found.why) == (None, None, None, "no eligible pivots")


def test_flatness_of_the_excess_is_that_of_re_feed_less_floor() -> None:
    """Below the cut re-feed and replica change alike, above it re-feed alone changes: the excess is 0 and 1/2."""
    low, high = [(1, 0, 0), (1, 1, 1)], [(1, 1, 0), (1, 1, 1)]
    problems = [low + high, low + high, low + high + [(1, 1, 1)]]
    margins = [0.1, 0.1, 0.8, 0.8] * 3 + [0.1]
    found = margin(table(problems, margin=margins))
    assert found.below.refeed == pytest.approx(3 / 7)
    assert found.below.floor == pytest.approx(3 / 7)
    assert (found.above.refeed, found.above.floor) == (0.5, 0.0)
    assert found.excess_flat.difference == pytest.approx(0.5)
    assert found.refeed_flat.difference == pytest.approx(0.5 - 3 / 7)
