"""Why a value of a report is missing, or what limits it: one cause a value, put into words once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from stats.decision import unsettled
from stats.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stats.cache import FailedCheck
    from stats.rates import NothingSeen
    from stats.report import RateReport, Report


_PASS: Final = {"refeed": "re-feed", "replica": "replica", "floor": "floor"}


class Reason(NamedTuple):
    """Why one value of a report is missing, or what limits it.

    Attributes:
        key: of the value in `report --json`.
        name: of the value in reports for people.
        why: it is missing or limited; None where it is neither.
        in_table: whether the tables for people say it already.
    """

    key: str
    name: str
    why: str | None
    in_table: bool = False


def reasons(report: Report) -> Iterator[Reason]:
    """Every value of a report that is missing or limited, with why."""
    return (reason for reason in _reasons(report) if reason.why is not None)


def all_notes(report: Report) -> tuple[str, ...]:
    """Reasons first, then the caller's own notes; as `report --json` has them."""
    return (*(f"{reason.key}: {reason.why}" for reason in reasons(report)), *report.notes)


def noted(report: Report) -> list[str]:
    """Reasons for what is missing or limited, then the report's own notes; what its tables say is left out."""
    names: dict[str | None, list[str]] = {}
    for reason in reasons(report):
        if not reason.in_table:
            names.setdefault(reason.why, []).append(reason.name)
    return [*(f"{why} ({'; '.join(dict.fromkeys(of))})" for why, of in names.items()), *report.notes]


def failed_check(failed: FailedCheck) -> str:
    """A failed cache check in a sentence: where it was, and what the engine said."""
    session = f"{failed.session}: " if failed.session else ""
    again = f", attempt {failed.attempt + 1}" if failed.attempt > 0 else ""  # people count from 1
    where = "" if failed.rollout is None else f", rollout {failed.rollout}, position {failed.position}"
    return f"{session}problem {failed.problem}{again}{where}: {failed.reason or 'cache check failed'}"


def _reasons(report: Report) -> Iterator[Reason]:
    yield from _rate_reasons("common", "any pass not 0", report.common)
    yield from _rate_reasons("exact1", "exact-1 not 0", report.exact1)
    yield Reason("pooled_excess", "pooled excess", report.pooled_excess.why)
    yield Reason("pooled_excess.ci95_bootstrap", "pooled excess by bootstrap", report.pooled_bootstrap.why)
    yield Reason("pooled_excess.sign_flip_p", "sign-flip of the pooled excess", report.pooled_sign_flip.why)
    if report.clustered.mean is None:
        yield Reason("clustered", "per-problem mean", report.clustered.why)
    else:
        yield Reason("clustered.t", "t of the per-problem mean", report.clustered.why)
    yield Reason("clustered.sign_flip_p", "sign-flip of the per-problem mean", report.clustered_sign_flip.why)
    yield from _sequential_reasons(report)
    yield Reason("mcnemar", "McNemar", report.mcnemar.why)
    yield Reason("bias", "bias", report.bias.why)
    if report.bias.clustered.why != report.bias.why:
        yield Reason("bias.t_cr2", "bias by CR2", report.bias.clustered.why)
    yield from _selection_reasons(report)
    yield from _margin_reasons(report)
    yield from _probe_reasons(report)
    if report.cache is None:
        yield Reason("cache", "cache checks", "not given to this report")
    elif report.cache.checked == 0:
        yield Reason("cache.rate", "cache checks", "no pivot was checked")
    doubt = unsettled(report.decision, report.pooled_excess.ci95)
    decided = report.decision.verdict is not None
    yield Reason("decision.verdict", "verdict", (doubt or None) if decided else report.decision.why, in_table=decided)


def _rate_reasons(key: str, eligible: str, rates: RateReport) -> Iterator[Reason]:
    if rates.counts.n == 0:
        yield Reason(key, eligible, rates.refeed.why)
        return
    for name, interval, bound in (
        ("refeed", rates.refeed, rates.refeed_bound),
        ("floor", rates.floor, rates.floor_bound),
    ):
        why = interval.why if bound is None else _nothing_seen(bound)
        yield Reason(f"{key}.{name}.ci95", f"{_PASS[name]}, {eligible}", why)


def _nothing_seen(bound: NothingSeen) -> str:
    where = f"{count(bound.n, 'pivot')} of {count(bound.clusters, 'problem')}"
    return (
        f"nothing seen in {where}, which is not zero: at {bound.level:.0%} the rate is at most {bound.independent:.2%} "
        f"if pivots were independent; distribution-free over problems, the share of problems with any is at most "
        f"{bound.over_problems:.1%}"
    )


def _sequential_reasons(report: Report) -> Iterator[Reason]:
    """The table of e-processes says "not crossed", and the line below it what a plain t is worth."""
    sequential = report.sequential
    for name, words, process in (
        ("symmetry", "symmetry", sequential.symmetry),
        ("betting", "betting", sequential.betting),
        ("t_e", "t", sequential.t_e),
    ):
        key, crossed = f"sequential.{name}", process.crossing is not None
        why = None if crossed else f"has not reached 1/alpha = {1 / sequential.alpha:.6g}"
        yield Reason(f"{key}.stopped_at", words, why, in_table=True)
        if process.lower is None:
            equal = name == "t_e" and report.informative_problems > 1 and report.clustered.t is None
            why = report.clustered.why if equal else "too few problems to rule out any mean excess"
            yield Reason(f"{key}.lower", f"lower bound by {words}", why)
    if sequential.path and sequential.path[0].plain_t is None:
        why = "needs two problems whose x differ; valid once, at a planned end, never while watching"
        yield Reason("sequential.path.plain_t", "plain t", why, in_table=True)


def _selection_reasons(report: Report) -> Iterator[Reason]:
    for cut, chosen in report.selection.items():
        for name, overlap, interval in (
            ("refeed", chosen.selection.refeed, chosen.refeed_ci),
            ("replica", chosen.selection.replica, chosen.replica_ci),
        ):
            key, words = f"selection.{cut}.{name}", f"Jaccard at |A| >= {cut}, {_PASS[name]}"
            if overlap.either == 0:
                why = f"neither pass selects a pivot at |A| >= {cut}: an empty union has no Jaccard"
                yield Reason(key, words, why)
            else:
                yield Reason(f"{key}.ci95_bootstrap", f"interval of the {words}", interval.why)


def _margin_reasons(report: Report) -> Iterator[Reason]:
    for key, words, bucket in (
        ("margin.below_0.3", "margin below 0.3 nats", report.margin.below),
        ("margin.from_0.3", "margin from 0.3 nats", report.margin.above),
    ):
        if bucket.n == 0:
            yield Reason(key, words, "no eligible pivots in this bucket")


def _probe_reasons(report: Report) -> Iterator[Reason]:
    for name, probes in (("refeed", report.probe.refeed), ("replica", report.probe.replica)):
        key, of = f"probe.{name}", _PASS[name]
        if probes.pivots == 0:
            yield Reason(key, f"probes, {of}", "no pivot has a probe")
            continue
        if probes.pivots < report.pivots:
            why = f"{report.pivots - probes.pivots} of {report.pivots} pivots have no probe"
            yield Reason(key, f"probes, {of}", why)
        if probes.diverged is None:
            yield Reason(f"{key}.diverged", f"diverged probes, {of}", "no divergence is recorded")
        if probes.median_nonzero is None:
            yield Reason(f"{key}.median_nonzero", f"median probe delta, {of}", "every delta is exactly 0")
