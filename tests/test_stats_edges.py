"""What a person sees at the edges: a reason in words instead of a number that does not exist."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sessions.report.as_json import as_dict
from stats.cache import CacheTally, FailedCheck
from stats.report import report
from tests.helpers.tables import counted, table

if TYPE_CHECKING:
    from stats.table import PivotTable


def seen(evidence: PivotTable, **options: Any) -> dict[str, Any]:
    """What `report --json` prints, through JSON, so that no numpy value or NaN hides in it."""
    found: dict[str, Any] = json.loads(json.dumps(as_dict(report(evidence, draws=200, **options)), allow_nan=False))
    return found


def reason(found: dict[str, Any], key: str) -> str:
    """The note of one key."""
    (note,) = [note for note in found["notes"] if note.startswith(f"{key}: ")]
    return str(note.removeprefix(f"{key}: "))


def test_no_problem_closed_yet() -> None:
    """Zeros are counted, every estimate is null, and the reason is that nothing is eligible."""
    found = seen(table([]))
    assert (found["pivots"], found["problems"], found["informative_problems"], found["k"]) == (0, 0, 0, [])
    assert found["common"]["refeed"] == {
        "disagree": 0, "rate": None, "zero_crossings": 0, "reversals": 0, "ci95": None,
    }  # fmt: skip
    assert found["pooled_excess"]["value"] is None
    assert found["decision"]["verdict"] is None
    assert reason(found, "pooled_excess") == "no eligible pivots"
    assert reason(found, "decision.verdict") == "no eligible pivots"


def test_problems_without_eligible_pivots_are_counted_and_say_nothing() -> None:
    """Three measured, one of them informative; e-values stay at 1 because the others are skipped, not zeros."""
    found = seen(table([[], [(0, 0, 0)], counted(1, 0, 2)]))
    assert (found["problems"], found["informative_problems"], found["clustered"]["n"]) == (3, 1, 1)
    assert len(found["sequential"]["path"]) == 1


def test_no_eligible_pivots_at_all() -> None:
    """Pivots exist, all estimates are zero: rates are null, not 0%."""
    found = seen(table([[(0, 0, 0)] * 5, [(0, 0, 0)] * 3]))
    assert (found["pivots"], found["common"]["n"], found["common"]["excess"]) == (8, 0, None)
    assert reason(found, "common") == "no eligible pivots"


def test_one_problem_has_no_error() -> None:
    """The estimate is shown; standard error, t and intervals need a second problem and say so."""
    found = seen(table([counted(3, 1, 8)]))
    assert found["pooled_excess"]["value"] == 0.25
    assert [found["pooled_excess"][key] for key in ("se", "t", "p", "ci95", "ci95_bootstrap")] == [None] * 5
    assert reason(found, "pooled_excess") == "needs at least 2 informative problems"
    assert reason(found, "clustered.t") == "needs at least 2 informative problems"
    assert reason(found, "clustered.sign_flip_p") == "1 nonzero problem: no p below 2^-1 = 0.5 is possible"


@pytest.mark.parametrize("size", [10, 30, 49])
def test_equal_differences_have_no_t_and_are_never_called_zero(size: int) -> None:
    """Every problem worse by the same 3/10: t is undefined, though np.std of equal floats is not 0."""
    found = seen(table([counted(3 * size, 0, 10 * size)] * 7))
    assert found["clustered"]["mean"] == 0.3
    assert (found["clustered"]["sd"], found["clustered"]["t"], found["clustered"]["p"]) == (0.0, None, None)
    assert reason(found, "clustered.t") == "undefined: all 7 equal"
    assert found["sequential"]["path"][-1]["plain_t"] is None
    assert found["clustered"]["sign_flip_p"] == 2**-7


def test_equality_is_of_ratios_not_of_counts() -> None:
    """1/3, 2/6 and 3/9 are one number."""
    found = seen(table([counted(1, 0, 3), counted(2, 0, 6), counted(3, 0, 9)]))
    assert reason(found, "clustered.t") == "undefined: all 3 equal"
    assert reason(found, "pooled_excess") == "undefined: all 3 problems have the same ratio"


def test_nothing_seen_gives_upper_bounds() -> None:
    """No disagreement in 40 pivots of 4 problems: no interval, but how large the rate may still be, both ways."""
    found = seen(table([[(1, 1, 1)] * 10] * 4))
    assert found["common"]["refeed"]["rate"] == 0.0
    assert found["common"]["refeed"]["ci95"] is None
    assert "7.22% if pivots were independent" in reason(found, "common.refeed.ci95")
    assert "52.7%" in reason(found, "common.refeed.ci95")


def test_few_nonzero_problems_limit_the_sign_flip_p() -> None:
    """Four nonzero problems cannot give a p below 1/16, and the report says so; five get no note."""
    four = seen(table([counted(1, 0, 3), counted(2, 0, 5), counted(1, 0, 2), counted(1, 0, 4)]))
    assert reason(four, "pooled_excess.sign_flip_p") == "4 nonzero problems: no p below 2^-4 = 0.0625 is possible"
    assert four["pooled_excess"]["sign_flip_p"] == 1 / 16
    five = seen(table([counted(1, 0, size) for size in (2, 3, 4, 5, 6)]))
    assert not [note for note in five["notes"] if "sign_flip_p" in note]


def test_one_continuation_per_arm() -> None:
    """K = 1: estimates are -1, 0 or 1, everything is within one quantum of every threshold."""
    evidence = table([[(1, 1, 0), (1, 0, 1), (-1, -1, 1)], [(0, 0, 1), (1, 1, 1)]], k=1)
    found = seen(evidence)
    assert found["k"] == [1]
    assert found["common"]["refeed"]["reversals"] == 1
    assert report(evidence, draws=10).selection["0.5"].selection.refeed.within_quantum_share == 1.0


def test_missing_probes_are_left_out_and_said() -> None:
    """One of three pivots has a probe: its shares are over one pivot, and the note counts the others."""
    nan = float("nan")
    evidence = table(
        [[(1, 1, 0)] * 3], delta=[(0.0, 0.25), (nan, nan), (nan, nan)], diverged=[(0, 1), (-1, -1), (-1, -1)]
    )
    found = seen(evidence)["probe"]
    assert found["pivots"] == 1
    assert found["refeed"] == {"bit_exact": 0.0, "diverged": 1.0, "p90": 0.25, "median_nonzero": 0.25}
    assert found["replica"] == {"bit_exact": 1.0, "diverged": 0.0, "p90": 0.0, "median_nonzero": None}
    assert reason(seen(evidence), "probe.refeed") == "2 of 3 pivots have no probe"


def test_no_probes_at_all() -> None:
    """An import without probe fields: null, not 0% bit-exact."""
    found = seen(table([[(1, 1, 0)] * 3]))
    assert found["probe"]["refeed"] == {"bit_exact": None, "diverged": None, "p90": None, "median_nonzero": None}
    assert reason(found, "probe.refeed") == "no pivot has a probe"


def test_mixed_k_in_one_table() -> None:
    """Sign changes ignore K; the bias is in units of credit, 2/4 and 2/8 averaged."""
    found = seen(table([[(1, 1, 3)], [(1, 1, 3)]], k=[4, 8]))
    assert found["k"] == [4, 8]
    assert found["common"]["refeed"]["disagree"] == 0
    assert found["bias"]["mean"] == pytest.approx(0.375)


def test_empty_selection_has_no_jaccard() -> None:
    """Nothing reaches the threshold in either pass: null with the reason, not 0 and not 1."""
    found = seen(table([[(1, 1, 0)] * 3, [(1, 1, 1)] * 2]))
    assert found["selection"]["0.5"]["refeed"] == {"both": 0, "either": 0, "jaccard": None, "ci95_bootstrap": None}
    assert "empty union" in reason(found, "selection.0.5.refeed")


def test_an_empty_margin_bucket() -> None:
    """All pivots above 0.3 nats: the lower bucket is null and the flatness test says why it does not exist."""
    evidence = table([counted(1, 0, 3), counted(2, 1, 4)])
    assert seen(evidence)["margin"]["below_0.3"] == {"refeed": None, "floor": None, "n": 0}
    assert report(evidence, draws=10).margin.excess_flat.why == "undefined: one of the two sides has no eligible pivots"


def test_cache_tally_is_passed_through_and_its_absence_is_said() -> None:
    """Failures stay in the denominator; imports that carry no counts have no rate."""
    evidence = table([counted(1, 0, 3), counted(2, 1, 4)])
    tally = CacheTally(
        checked=4, verified=3, ledger=2, counts=1, failures=(FailedCheck(7, 1, 2, 161, "hit 32 of 48 tokens"),)
    )
    assert seen(evidence, cache=tally)["cache"] == {
        "checked": 4,
        "verified": 3,
        "not_instrumented": 0,
        "rate": 0.75,
        "proof": {"ledger": 2, "counts": 1},
        "failures": ["problem 7, attempt 2, rollout 2, position 161: hit 32 of 48 tokens"],
    }
    assert CacheTally(checked=1, verified=1).rate == 1.0
    assert CacheTally(checked=1, failures=(FailedCheck(7, 0, None, None, "x"),)).rate == 0.0
    none = CacheTally()
    assert (none.checked, none.verified, none.not_instrumented, none.ledger, none.counts) == (0, 0, 0, 0, 0)
    assert none.rate is None
    imported = seen(evidence, cache=CacheTally(not_instrumented=7))
    assert imported["cache"]["rate"] is None
    assert reason(imported, "cache.rate") == "no pivot was checked"
    assert seen(evidence)["cache"] is None
    assert reason(seen(evidence), "cache") == "not given to this report"


def test_the_callers_notes_come_last() -> None:
    """What pooling dropped or an import found stands with the reasons."""
    assert seen(table([counted(1, 0, 3)]), notes=("pooling: dropped 3 pivots",))["notes"][-1].startswith("pooling")


def test_the_keys_are_the_promised_ones() -> None:
    """`report --json` keeps its shape whether or not there is anything to say."""
    full, empty = seen(table([counted(2, 1, 4), counted(1, 0, 5)])), seen(table([]))
    assert keys(full) == keys(empty) == PROMISED


def keys(value: Any) -> Any:
    """The nested keys of a report, without the path and the notes."""
    if not isinstance(value, dict):
        return None
    return {key: keys(inner) for key, inner in value.items() if key not in {"path", "notes", "sessions", "k"}}


def _shape(text: str) -> dict[str, None]:
    return dict.fromkeys(text.split())


COMPARISON = _shape("disagree rate zero_crossings reversals ci95")
PROCESS = _shape("e e_max stopped_at lower")
OVERLAP = _shape("both either jaccard ci95_bootstrap")
SELECTION = {"refeed": OVERLAP, "replica": OVERLAP, "selected_exact1": None}
PROBES = _shape("bit_exact diverged p90 median_nonzero")
RATES = {"n": None, "refeed": COMPARISON, "floor": COMPARISON, "excess": None}
PROMISED = {
    **_shape("pivots problems informative_problems"),
    "common": RATES,
    "exact1": RATES,
    "eligibility": _shape("exact1 only_refeed only_floor"),
    "pooled_excess": _shape("value se t df p ci95 sign_flip_p ci95_bootstrap"),
    "clustered": _shape("n mean sd t df p refeed_worse floor_worse equal sign_flip_p"),
    "sequential": {
        "alpha": None,
        "t": _shape("registered t boundary crossed_at ci95_repeated median_unbiased on_course"),
        "symmetry": PROCESS,
        "betting": PROCESS,
        "t_e": PROCESS,
    },
    "mcnemar": _shape("b c z z_clustered"),
    "supplement": {
        "no_decode_state": None,
        "sign": PROCESS,
        "plain_t": _shape("t crossed_at"),
        "within_quantum_share": dict.fromkeys(("0.5", "0.75"), _shape("refeed replica")),
        "margin_differs": dict.fromkeys(("refeed", "excess"), _shape("difference p ci95 why")),
        "bit_exact_arms": _shape("refeed replica"),
        "sign_flip_exact": _shape("pooled mean"),
    },
    "bias": _shape("mean t t_cr2 ci95"),
    "selection": {"0.5": SELECTION, "0.75": SELECTION},
    "margin": {"below_0.3": _shape("refeed floor n"), "from_0.3": _shape("refeed floor n")},
    "probe": {"pivots": None, "refeed": PROBES, "replica": PROBES},
    "cache": None,
    "decision": _shape("rule verdict"),
}
