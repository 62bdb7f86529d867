"""Why a value of a report is missing, or what limits it: one cause a value, put into words once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

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


# The table of e-processes says "not crossed", and the line below it what a plain t is worth.
_SAID_BY_TABLE: Final = re.compile(r"sequential\.(\w+\.stopped_at|path\.plain_t)")
_PASS: Final = {"refeed": "re-feed", "replica": "replica", "floor": "floor"}
_SET: Final = {"common": "any pass not 0", "exact1": "exact-1 not 0"}
_WORDS: Final = {
    **_SET,
    **{f"{key}.{name}.ci95": f"{_PASS[name]}, {words}" for key, words in _SET.items() for name in ("refeed", "floor")},
    "pooled_excess": "pooled excess",
    "pooled_excess.ci95_bootstrap": "pooled excess by bootstrap",
    "pooled_excess.sign_flip_p": "sign-flip of the pooled excess",
    "clustered": "per-problem mean",
    "clustered.t": "t of the per-problem mean",
    "clustered.sign_flip_p": "sign-flip of the per-problem mean",
    "sequential.symmetry.lower": "lower bound by symmetry",
    "sequential.betting.lower": "lower bound by betting",
    "sequential.t_e.lower": "lower bound by t",
    "mcnemar": "McNemar",
    "bias": "bias",
    "bias.t_cr2": "bias by CR2",
    "margin.below_0.3": "margin below 0.3 nats",
    "margin.from_0.3": "margin from 0.3 nats",
    "cache": "cache checks",
    "cache.rate": "cache checks",
    "decision.verdict": "verdict",
    **{f"probe.{name}": f"probes, {_PASS[name]}" for name in ("refeed", "replica")},
    **{f"probe.{name}.diverged": f"diverged probes, {_PASS[name]}" for name in ("refeed", "replica")},
    **{f"probe.{name}.median_nonzero": f"median probe delta, {_PASS[name]}" for name in ("refeed", "replica")},
}
_SELECTION: Final = re.compile(r"selection\.([\d.]+)\.(refeed|replica)(\.ci95_bootstrap)?")


def in_words(key: str) -> str:
    """What a key of `report --json` is called in a report for people; one without words stays as it is."""
    selected = _SELECTION.fullmatch(key)
    if selected is None:
        return _WORDS.get(key, key)
    cut, name, interval = selected.groups()
    return f"{'interval of the ' if interval else ''}Jaccard at |A| >= {cut}, {_PASS[name]}"


def noted(report: Report) -> list[str]:
    """Reasons for what is missing or limited, then the report's own notes; what its tables say is left out."""
    of: dict[str, list[str]] = {}
    for key, why in reasons(report):
        said = _SAID_BY_TABLE.fullmatch(key) or (key == "decision.verdict" and report.decision.verdict is not None)
        if not said:
            of.setdefault(why, []).append(in_words(key))
    return [*(f"{why} ({'; '.join(dict.fromkeys(names))})" for why, names in of.items()), *report.notes]
