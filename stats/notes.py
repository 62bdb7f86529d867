"""Why a value is missing, or what limits it: one line a cause, led by the key of `report --json` that it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stats.decision import unsettled
from stats.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stats.rates import NothingSeen
    from stats.report import RateReport, Report


def all_notes(report: Report) -> tuple[str, ...]:
    """Reasons first, then the caller's own notes."""
    return (*(f"{key}: {why}" for key, why in reasons(report)), *report.notes)


def reasons(report: Report) -> Iterator[tuple[str, str]]:
    """Keys of `report --json` whose values are missing or limited, each with why."""
    for key, why in _reasons(report):
        if why is not None:
            yield key, why


def _reasons(report: Report) -> Iterator[tuple[str, str | None]]:
    yield from _rate_reasons("common", report.common)
    yield from _rate_reasons("exact1", report.exact1)
    yield "pooled_excess", report.pooled_excess.why
    yield "pooled_excess.ci95_bootstrap", report.pooled_bootstrap.why
    yield "pooled_excess.sign_flip_p", report.pooled_sign_flip.why
    yield "clustered" if report.clustered.mean is None else "clustered.t", report.clustered.why
    yield "clustered.sign_flip_p", report.clustered_sign_flip.why
    yield from _sequential_reasons(report)
    yield "mcnemar", report.mcnemar.why
    yield "bias", report.bias.why
    if report.bias.clustered.why != report.bias.why:
        yield "bias.t_cr2", report.bias.clustered.why
    yield from _selection_reasons(report)
    yield from _margin_reasons(report)
    yield from _probe_reasons(report)
    if report.cache is None:
        yield "cache", "not given to this report"
    elif report.cache.checked == 0:
        yield "cache.rate", "no pivot was checked"
    doubt = unsettled(report.decision, report.pooled_excess.ci95)
    yield "decision.verdict", report.decision.why if report.decision.verdict is None else doubt or None


def _rate_reasons(key: str, rates: RateReport) -> Iterator[tuple[str, str | None]]:
    if rates.counts.n == 0:
        yield key, rates.refeed.why
        return
    for name, interval, bound in (
        ("refeed", rates.refeed, rates.refeed_bound),
        ("floor", rates.floor, rates.floor_bound),
    ):
        if bound is None:
            yield f"{key}.{name}.ci95", interval.why
            continue
        yield (
            f"{key}.{name}.ci95",
            _nothing_seen(bound),
        )


def _nothing_seen(bound: NothingSeen) -> str:
    where = f"{count(bound.n, 'pivot')} of {count(bound.clusters, 'problem')}"
    return (
        f"nothing seen in {where}, which is not zero: at {bound.level:.0%} the rate is at most {bound.independent:.2%} "
        f"if pivots were independent; distribution-free over problems, the share of problems with any is at most "
        f"{bound.over_problems:.1%}"
    )


def _sequential_reasons(report: Report) -> Iterator[tuple[str, str | None]]:
    sequential = report.sequential
    for name, process in (
        ("symmetry", sequential.symmetry), ("betting", sequential.betting), ("t_e", sequential.t_e)
    ):  # fmt: skip
        if process.crossing is None:
            yield f"sequential.{name}.stopped_at", f"has not reached 1/alpha = {1 / sequential.alpha:.6g}"
        if process.lower is None:
            equal = name == "t_e" and report.informative_problems > 1 and report.clustered.t is None
            yield (
                f"sequential.{name}.lower",
                report.clustered.why if equal else "too few problems to rule out any mean excess",
            )
    if sequential.path and sequential.path[0].plain_t is None:
        yield (
            "sequential.path.plain_t",
            "needs two problems whose x differ; valid once, at a planned end, never while watching",
        )


def _selection_reasons(report: Report) -> Iterator[tuple[str, str | None]]:
    for cut, chosen in report.selection.items():
        for name, overlap, interval in (
            ("refeed", chosen.selection.refeed, chosen.refeed_ci),
            ("replica", chosen.selection.replica, chosen.replica_ci),
        ):
            if overlap.either == 0:
                yield (
                    f"selection.{cut}.{name}",
                    f"neither pass selects a pivot at |A| >= {cut}: an empty union has no Jaccard",
                )
            else:
                yield f"selection.{cut}.{name}.ci95_bootstrap", interval.why


def _margin_reasons(report: Report) -> Iterator[tuple[str, str | None]]:
    for name, bucket in (("below_0.3", report.margin.below), ("from_0.3", report.margin.above)):
        if bucket.n == 0:
            yield f"margin.{name}", "no eligible pivots in this bucket"


def _probe_reasons(report: Report) -> Iterator[tuple[str, str | None]]:
    for name, probes in (("refeed", report.probe.refeed), ("replica", report.probe.replica)):
        if probes.pivots == 0:
            yield f"probe.{name}", "no pivot has a probe"
            continue
        if probes.pivots < report.pivots:
            yield f"probe.{name}", f"{report.pivots - probes.pivots} of {report.pivots} pivots have no probe"
        if probes.diverged is None:
            yield f"probe.{name}.diverged", "no divergence is recorded"
        if probes.median_nonzero is None:
            yield f"probe.{name}.median_nonzero", "every delta is exactly 0"
