"""A Report as plain JSON values, in the keys that `report --json` promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sessions.report.reasons import all_notes, failed_check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stats.bootstrap import Bootstrap
    from stats.cache import CacheTally
    from stats.clustered import Interval
    from stats.contrast import Contrast
    from stats.counts import Comparison, Disagreement
    from stats.margin import Bucket
    from stats.probes import Probes
    from stats.rates import RateInterval
    from stats.registered import GroupSequential
    from stats.report import ProcessReport, RateReport, Report, SelectionReport, SequentialReport
    from stats.selection import Overlap


def as_dict(report: Report, sessions: Sequence[str] = ()) -> dict[str, Any]:
    """The report as JSON values; rates are fractions, what cannot be computed is None with its reason in "notes".

    Args:
        report: of one table.
        sessions: ids of the sessions that the table came from.
    """
    return {
        "sessions": list(sessions),
        "pivots": report.pivots,
        "problems": report.problems,
        "informative_problems": report.informative_problems,
        "k": list(report.k),
        "common": _rates(report.common),
        "exact1": _rates(report.exact1),
        "eligibility": {
            "exact1": report.eligibility.exact1,
            "only_refeed": report.eligibility.only_refeed,
            "only_floor": report.eligibility.only_floor,
        },
        "pooled_excess": _pooled_excess(report),
        "clustered": _clustered(report),
        "sequential": _sequential(report.sequential, report.group_sequential),
        "mcnemar": {
            "b": report.mcnemar.b,
            "c": report.mcnemar.c,
            "z": report.mcnemar.z,
            "z_clustered": report.mcnemar.z_clustered,
        },
        "bias": {
            "mean": report.bias.mean,
            "t": report.bias.t,
            "t_cr2": report.bias.clustered.t,
            "ci95": _pair(report.bias.ci95),
        },
        "selection": {cut: _selection(chosen) for cut, chosen in report.selection.items()},
        "margin": {"below_0.3": _bucket(report.margin.below), "from_0.3": _bucket(report.margin.above)},
        "probe": {
            "pivots": report.probe.pivots,
            "refeed": _probes(report.probe.refeed),
            "replica": _probes(report.probe.replica),
        },
        "cache": _cache(report.cache),
        "decision": {"rule": report.decision.rule, "verdict": report.decision.verdict},
        "supplement": _supplement(report),
        "notes": list(all_notes(report)),
    }


def _supplement(report: Report) -> dict[str, Any]:
    """What the text report has beside these: apart, so that the keys above stay what they are."""
    sequential, control = report.sequential, report.no_decode_state
    crossing = sequential.plain_crossing
    return {
        "no_decode_state": None if control is None else _counted(control),
        "sign": _process(sequential.sign),
        "plain_t": {"t": sequential.plain_t, "crossed_at": None if crossing is None else crossing.informative},
        "within_quantum_share": {
            cut: {
                "refeed": chosen.selection.refeed.within_quantum_share,
                "replica": chosen.selection.replica.within_quantum_share,
            }
            for cut, chosen in report.selection.items()
        },
        "margin_differs": {
            "refeed": _contrast(report.margin.refeed_flat),
            "excess": _contrast(report.margin.excess_flat),
        },
        "bit_exact_arms": {
            "refeed": report.probe.refeed.bit_exact_arms,
            "replica": report.probe.replica.bit_exact_arms,
        },
        "sign_flip_exact": {"pooled": report.pooled_sign_flip.exact, "mean": report.clustered_sign_flip.exact},
    }


def _counted(found: Disagreement) -> dict[str, Any]:
    return {"n": found.n, "refeed": _changes(found.refeed), "floor": _changes(found.floor), "excess": found.excess}


def _contrast(contrast: Contrast) -> dict[str, Any]:
    return {
        "difference": contrast.difference,
        "p": contrast.p,
        "ci95": _pair(contrast.ci95),
        "why": contrast.why,
    }


def _pair(interval: Interval | None) -> list[float] | None:
    return None if interval is None else list(interval)


def _rates(rates: RateReport) -> dict[str, Any]:
    counts = rates.counts
    return {
        "n": counts.n,
        "refeed": _comparison(counts.refeed, rates.refeed),
        "floor": _comparison(counts.floor, rates.floor),
        "excess": counts.excess,
    }


def _comparison(counts: Comparison, interval: RateInterval) -> dict[str, Any]:
    return {**_changes(counts), "ci95": _pair(interval.ci95)}


def _changes(counts: Comparison) -> dict[str, Any]:
    return {
        "disagree": counts.disagree,
        "rate": counts.rate,
        "zero_crossings": counts.zero_crossings,
        "reversals": counts.reversals,
    }


def _pooled_excess(report: Report) -> dict[str, Any]:
    estimate = report.pooled_excess
    return {
        "value": estimate.value,
        "se": estimate.se,
        "t": estimate.t,
        "df": estimate.df,
        "p": estimate.p,
        "ci95": _pair(estimate.ci95),
        "sign_flip_p": report.pooled_sign_flip.p,
        "ci95_bootstrap": _pair(report.pooled_bootstrap.ci95),
    }


def _clustered(report: Report) -> dict[str, Any]:
    mean = report.clustered
    return {
        "n": mean.n,
        "mean": mean.mean,
        "sd": mean.sd,
        "t": mean.t,
        "df": mean.df,
        "p": mean.p,
        "refeed_worse": mean.refeed_worse,
        "floor_worse": mean.floor_worse,
        "equal": mean.equal,
        "sign_flip_p": report.clustered_sign_flip.p,
    }


def _sequential(sequential: SequentialReport, test: GroupSequential | None) -> dict[str, Any]:
    return {
        "alpha": sequential.alpha,
        "t": _registered_test(test),
        "symmetry": _process(sequential.symmetry),
        "betting": _process(sequential.betting),
        "t_e": _process(sequential.t_e),
        "path": [
            {
                "problem": point.problem,
                "x": point.x,
                "mean": point.mean,
                "plain_t": point.plain_t,
                "symmetry": point.symmetry,
                "betting": point.betting,
                "t_e": point.t_e,
            }
            for point in sequential.path
        ],
    }


def _registered_test(test: GroupSequential | None) -> dict[str, Any]:
    if test is None:
        names = ("registered", "t", "boundary", "crossed_at", "ci95_repeated", "median_unbiased", "on_course")
        return {**dict.fromkeys(names), "path": []}
    return {
        "registered": test.registered,
        "t": test.t,
        "boundary": test.boundary,
        "crossed_at": test.crossed_at,
        "ci95_repeated": _pair(test.ci95_repeated),
        "median_unbiased": test.median_unbiased,
        "on_course": test.on_course,
        "path": [{"problem": look.closed, "t": look.t, "boundary": look.boundary} for look in test.path],
    }


def _process(process: ProcessReport) -> dict[str, Any]:
    return {
        "e": process.e,
        "e_max": process.e_max,
        "stopped_at": None if process.crossing is None else process.crossing.informative,
        "lower": process.lower,
    }


def _selection(chosen: SelectionReport) -> dict[str, Any]:
    return {
        "refeed": _overlap(chosen.selection.refeed, chosen.refeed_ci),
        "replica": _overlap(chosen.selection.replica, chosen.replica_ci),
        "selected_exact1": chosen.selection.selected_exact1,
    }


def _overlap(overlap: Overlap, interval: Bootstrap) -> dict[str, Any]:
    return {
        "both": overlap.both,
        "either": overlap.either,
        "jaccard": overlap.jaccard,
        "ci95_bootstrap": _pair(interval.ci95),
    }


def _bucket(bucket: Bucket) -> dict[str, Any]:
    return {"refeed": bucket.refeed, "floor": bucket.floor, "n": bucket.n}


def _probes(probes: Probes) -> dict[str, Any]:
    return {
        "bit_exact": probes.bit_exact,
        "diverged": probes.diverged,
        "p90": probes.p90,
        "median_nonzero": probes.median_nonzero,
    }


def _cache(cache: CacheTally | None) -> dict[str, Any] | None:
    if cache is None:
        return None
    return {
        "checked": cache.checked,
        "verified": cache.verified,
        "not_instrumented": cache.not_instrumented,
        "rate": cache.rate,
        "proof": {"ledger": cache.ledger, "counts": cache.counts},
        "failures": [failed_check(failed) for failed in cache.failures],
    }
