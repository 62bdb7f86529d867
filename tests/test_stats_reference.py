"""The reference values of design/statistics.md, computed once elsewhere (R's avlm and clubSandwich, confseq)."""

from __future__ import annotations

import pytest

from stats.disagreement import problem_counts
from stats.rates import nothing_seen
from stats.report import Report, SequentialReport, report
from stats.sequential import Monitor, monitor
from tests.helpers.published import load, pooled_main


@pytest.fixture(scope="module")
def reports() -> dict[str, Report]:
    return {"pooled": report(pooled_main()), "k8": report(load("k8")), "batchinv": report(load("batchinv"))}


def watch(name: str, stop: int | None = None) -> Monitor:
    table = pooled_main() if name == "pooled" else load(name)
    counts = problem_counts(table)
    return monitor(table.problems[:stop], counts.excess[:stop], counts.n[:stop])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pooled", (0.1871069182, 0.0378994640, 4.93692783, 28.338522, 3.1989e-5, 0.0375917166)),
        ("k8", (0.2530612245, 0.0403223376, 6.27595619, 17.018893, 8.3248e-6, 0.0401496665)),
    ],
)
def test_cr2_of_the_pooled_excess(reports: dict[str, Report], name: str, expected: tuple[float, ...]) -> None:
    """Value, CR2 error, t, df and p as clubSandwich gives them; CR1 beside."""
    found = reports[name].pooled_excess
    assert (found.value, found.se, found.t) == pytest.approx(expected[:3], rel=1e-8)
    assert (found.df, found.p) == pytest.approx(expected[3:5], rel=2e-5)
    assert found.cr1_se == pytest.approx(expected[5], rel=1e-8)


def test_pooled_interval_as_it_is_shown(reports: dict[str, Report]) -> None:
    """Pooled +18.7pp [11.0, 26.5] (CR2)."""
    ci95 = reports["pooled"].pooled_excess.ci95
    assert ci95 is not None
    assert [f"{100 * end:.1f}" for end in ci95] == ["11.0", "26.5"]


@pytest.mark.parametrize(("name", "t", "df"), [("pooled", 5.513465911, 39), ("k8", 6.359068533, 19)])
def test_problem_mean_t(reports: dict[str, Report], name: str, t: float, df: int) -> None:
    """The paper's clustered t."""
    found = reports[name].clustered
    assert found.t == pytest.approx(t, abs=5e-10)
    assert found.df == df


def test_exact_sign_flip_counts(reports: dict[str, Report]) -> None:
    """15150 and 111057 of 2^34 pooled; 1 of 2^19 for both statistics at K = 8."""
    pooled, k8 = reports["pooled"], reports["k8"]
    flips = [pooled.clustered_sign_flip, pooled.pooled_sign_flip, k8.clustered_sign_flip, k8.pooled_sign_flip]
    assert [(flip.count, flip.nonzero, flip.exact) for flip in flips] == [
        (15150, 34, True),
        (111057, 34, True),
        (1, 19, True),
        (1, 19, True),
    ]
    assert pooled.clustered_sign_flip.p == 15150 / 2**34


def test_wilson_on_the_effective_number_of_pivots(reports: dict[str, Report]) -> None:
    """Re-feed [.281088, .400132], floor [.099809, .221819]."""
    rates = reports["pooled"].common
    assert rates.refeed.ci95 == pytest.approx((0.281088, 0.400132), abs=6e-7)
    assert rates.floor.ci95 == pytest.approx((0.099809, 0.221819), abs=6e-7)


def test_bca_over_problems(reports: dict[str, Report]) -> None:
    """20,000 draws, tolerance .005: excess, and both Jaccards at 0.5."""
    found = reports["pooled"]
    half = found.selection["0.5"]
    assert found.pooled_bootstrap.ci95 == pytest.approx((0.121, 0.269), abs=0.005)
    assert half.refeed_ci.ci95 == pytest.approx((0.572, 0.771), abs=0.005)
    assert half.replica_ci.ci95 == pytest.approx((0.748, 0.900), abs=0.005)


def test_mcnemar_both_ways(reports: dict[str, Report]) -> None:
    """The z 8.6105 as published, 3.58 with problems as the unit."""
    found = reports["pooled"].mcnemar
    assert found.z is not None
    assert f"{found.z:.4f}" == "8.6105"
    assert f"{found.z_clustered:.2f}" == "3.58"


FINAL = {
    "pooled": ((21714.351, 20), 10857.190, (22243.179, 20), (165.81675, 25), 3528.0311, 5),
    "k8": ((14919.769, 8), 7459.9077, (105185.70, 6), (49.129458, 14), 52428.75, 5),
    "batchinv": ((1.0, None), 1.0, (1.0, None), (1.0, None), 1.0, None),
}


@pytest.mark.parametrize("name", FINAL)
def test_e_processes_at_the_end_and_where_they_crossed(name: str) -> None:
    """Final values and crossings, counted in informative problems, of every process."""
    t_e, two_sided, symmetry, betting, sign, plain = FINAL[name]
    found = watch(name)
    for process, (value, stop) in ((found.t_e, t_e), (found.symmetry, symmetry), (found.betting, betting)):
        assert process.e == pytest.approx(value, rel=3e-8)
        assert (process.crossing and process.crossing.informative) == stop
    assert found.t_e.two_sided == pytest.approx(two_sided, rel=3e-8)
    assert found.sign.e == pytest.approx(sign, rel=3e-8)
    assert (found.plain.crossing and found.plain.crossing.informative) == plain


def test_e_processes_after_ten_problems() -> None:
    """E1 1.2426647, symmetry 1.1624523, betting 1.9078736."""
    found = watch("pooled", 10)
    values = (found.t_e.e, found.symmetry.e, found.betting.e)
    assert values == pytest.approx((1.2426647, 1.1624523, 1.9078736), abs=6e-8)


def test_lower_bounds_at_the_end(reports: dict[str, Report]) -> None:
    """One-sided: t .074802 and .128239, betting .061706 and .050326."""

    def bounds(found: SequentialReport) -> tuple[float | None, float | None]:
        return found.t_e.lower, found.betting.lower

    assert bounds(reports["pooled"].sequential) == pytest.approx((0.074802, 0.061706), abs=6e-7)
    assert bounds(reports["k8"].sequential) == pytest.approx((0.128239, 0.050326), abs=6e-7)


def test_bounds_when_nothing_was_seen() -> None:
    """0 of 106 pivots on 10 problems, 0 of 395 probes."""
    found, probes = nothing_seen(106, 10), nothing_seen(395, 10)
    assert found is not None
    assert probes is not None
    assert (f"{found.independent:.2%}", f"{found.over_problems:.1%}") == ("2.79%", "25.9%")
    assert f"{probes.independent:.2%}" == "0.76%"
