"""Every number of a report in words: the paper's Table 1 first, then the rest, each beside its error or its limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessions.numbers import e_value, interval, least, nats, number, ordinal, p_value, percent, points
from sessions.report.document import Chart, Facts, Grid, Section
from sessions.report.reasons import failed_check
from stats.decision import unsettled
from stats.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stats.cache import CacheTally
    from stats.contrast import Contrast, Difference
    from stats.counts import Comparison
    from stats.probes import Probes
    from stats.rates import RateInterval
    from stats.registered import GroupSequential
    from stats.report import ProcessReport, Report
    from stats.selection import Overlap
    from stats.sequential import StopRule
    from stats.signflip import SignFlip

_SELECTED: Final = (
    "in brackets: selected by exact-1; near the cut: of those that only one of the two passes selects, how many lie "
    "within 1/K of it"
)


def sections(
    report: Report,
    *,
    so_far: bool,
    looked: StopRule = "none",
    against: Section | None = None,
    failures: int | None = None,
) -> Iterator[Section]:
    """All sections of a report, in their order.

    Args:
        report: the numbers.
        so_far: whether a campaign has yet to reach its planned end.
        looked: the rule by which looks at the data could end a campaign; "none" where the number of problems was fixed.
        against: comparison with another session.
        failures: of cache checks that are named; None for all.
    """
    yield Section("Table 1", (_table_one(report), _eligibility(report)))
    optimistic = "" if looked == "none" else " (fixed-n: optimistic here, see the notes)"
    yield Section(f"Excess of re-feed over the floor{optimistic}", (_excess(report),))
    if against is not None:
        yield against
    yield _watched(report, looked)
    yield Section("Pairs of pivots", (_pairs(report),))
    yield Section("Critical tokens: who selects the same ones", (_selection(report), _SELECTED))
    yield Section("Margin", _margin(report))
    yield Section("Greedy probes against exact-1", (_probes(report),))
    yield Section("Cache checks", tuple(cache_checks(report.cache, failures)))
    found = qualified(report, so_far=so_far) or "none"
    yield Section("Decision", (f"{found} (registered: {report.decision.rule})",))


def size(report: Report) -> str:
    """How much evidence there is."""
    ks = ", ".join(str(k) for k in report.k) or "none"
    informative = f"{report.informative_problems:,} of {count(report.problems, 'problem')} informative"
    return f"{count(report.pivots, 'pivot')}, K = {ks}; {informative} (with an eligible pivot)"


def verdict(report: Report, *, so_far: bool) -> str | None:
    """The registered rule's verdict, one so far before the planned end; None without one."""
    found = report.decision.verdict
    return f"{found} so far" if found is not None and so_far else found


def qualified(report: Report, *, so_far: bool) -> str | None:
    """The verdict with what its interval leaves open."""
    found = verdict(report, so_far=so_far)
    but = unsettled(report.decision, report.pooled_excess.ci95)
    return f"{found}, {but}" if found is not None and but else found


def headline(report: Report, *, so_far: bool, looked: StopRule = "none") -> str:
    """The result in a sentence; where looks at the data could end the campaign, in a second one what survives them."""
    common = report.common.counts
    if common.n == 0:
        return "No pivot is eligible: no credit estimate differs from 0 in any pass, so nothing could change sign."
    pooled, found = report.pooled_excess, qualified(report, so_far=so_far)
    spread = f" {interval(pooled.ci95, signed=True)}" if pooled.ci95 is not None else ""
    ending = f": {found}" if found is not None else ""
    unseen = " Nothing seen is not zero: see the notes." if common.refeed.disagree == 0 else ""
    return (
        f"Re-feeding changed the sign of {common.refeed.disagree:,} of {count(common.n, 'credit estimate')} "
        f"({percent(common.refeed.rate)}), an exact replica of {common.floor.disagree:,} "
        f"({percent(common.floor.rate)}); excess {points(pooled.value)}{spread}{ending}."
        f"{_survives(report, looked)}{unseen}"
    )


def _survives(report: Report, looked: StopRule) -> str:
    """The bound that looks at the data leave standing, beside an interval that they do not."""
    if looked == "none":
        return ""
    found = report.sequential
    interval_is = "The interval is optimistic, as" if report.pooled_excess.ci95 is not None else "As"
    holds = least(found.followed(looked).lower, found.alpha)
    return f" {interval_is} looks at the data could end the campaign; by its {looked} e-process: {holds}."


def plain_t(report: Report, looked: StopRule = "none") -> str:
    """The t of the per-problem mean, with when it may be read and what looking at it all along would have said."""
    crossing = report.sequential.plain_crossing
    peeked = (
        "" if crossing is None else f"; its one-sided p first fell below alpha at the {ordinal(crossing.informative)}"
    )
    value = _t(report.sequential.plain_t, report.clustered.df, report.clustered.why)
    fixed = "" if looked == "none" else ", and here nobody fixed n"
    return f"plain {value}: fixed-n only, valid once, at the planned end{fixed}{peeked}"


def cache_checks(tally: CacheTally | None, failures: int | None = None) -> Iterator[str]:
    """What the cache checks came to, a sentence each.

    Args:
        tally: of the checks; None where nobody counted.
        failures: that are named; None for all.
    """
    if tally is None:
        yield "not recorded"
        return
    if tally.checked > 0:
        by = {"ledger": tally.ledger, "counts": tally.counts}
        proofs = [f"{proved:,} by {name}" for name, proved in by.items() if proved > 0]
        how = f" ({', '.join(proofs)})" if proofs else ""
        yield f"{tally.verified:,} of {tally.checked:,} checked pivots verified, {percent(tally.rate)}{how}"
    if tally.not_instrumented > 0:
        yield f"{count(tally.not_instrumented, 'pivot')} NOT INSTRUMENTED: their source recorded no cache counts"
    if tally.checked == 0 and tally.not_instrumented == 0:
        yield "no pivot was checked"
    yield from (f"FAILED: {failed_check(failed)}" for failed in tally.failures[:failures])
    left = 0 if failures is None else len(tally.failures) - failures
    if left > 0:
        yield f"and {count(left, 'more failure')} (`refeed-tui report --json` has all)"


def against_section(label: str, found: Difference, differs: Sequence[str]) -> Section:
    """Rates and excess minus those of another session.

    Args:
        label: of that session.
        found: the difference.
        differs: settings in which the two differ.
    """
    shared = f"{count(found.shared_problems, 'problem')} in both" if found.shared_problems > 0 else "no problem in both"
    rows = (
        ("excess", _contrast(found.excess)),
        ("re-feed rate", _contrast(found.refeed)),
        ("floor rate", _contrast(found.floor)),
        ("problems", shared),
        ("settings", f"differ in {', '.join(differs)}" if differs else "the same"),
    )
    return Section(f"Against {label}", (Facts(rows),))


def _table_one(report: Report) -> Grid:
    rows: list[tuple[str, ...]] = []
    for name, rates in (("any pass not 0", report.common), ("exact-1 not 0", report.exact1)):
        rows.append((name, "re-feed", *_comparison(rates.counts.refeed, rates.refeed)))
        rows.append(("", "replica", *_comparison(rates.counts.floor, rates.floor)))
        rows.append(("", "excess", "", "", points(rates.counts.excess), "", "", ""))
    control = report.no_decode_state
    if control is not None:  # their whole hit lies in the prompt: nothing there was written in decode
        rows.append(("no decode state", "re-feed", *_comparison(control.refeed, None)))
        rows.append(("(free control)", "replica", *_comparison(control.floor, None)))
    columns = ("eligible", "pass", "n", "changed", "rate", "95%", "to/from 0", "reversed")
    return Grid(columns, tuple(rows), words=2)


def _comparison(counts: Comparison, spread: RateInterval | None) -> tuple[str, ...]:
    ci95 = None if spread is None else spread.ci95
    changes = (f"{counts.zero_crossings:,}", f"{counts.reversals:,}")
    return f"{counts.n:,}", f"{counts.disagree:,}", percent(counts.rate), interval(ci95), *changes


def _eligibility(report: Report) -> str:
    """Where eligibility comes from: the re-feed pass can create its own."""
    found = report.eligibility
    passes = f"{found.exact1:,} in exact-1; {found.only_refeed:,} only in the re-feed pass, {found.only_floor:,}"
    return f"not 0: {passes} only in the replica"


def _excess(report: Report) -> Facts:
    pooled, mean = report.pooled_excess, report.clustered
    if pooled.value is None:
        return Facts((("undefined", pooled.why or ""),))
    t = f"t = {number(pooled.t)}, df = {number(pooled.df, 1)}, {p_value(pooled.p)}"
    by_cr2 = f"{interval(pooled.ci95, signed=True)}, by CR2: SE {_unsigned(pooled.se)}, {t}"
    spread = by_cr2 if pooled.se is not None else f"({pooled.why})"
    drawn = f"bootstrap over problems {interval(report.pooled_bootstrap.ci95, signed=True)}"
    by_t = f"SD {_unsigned(mean.sd)}, {_t(mean.t, mean.df, mean.why)}, {p_value(mean.p)}"
    rows = (
        ("pooled", f"{points(pooled.value)} {spread}; {drawn}; {_flip(report.pooled_sign_flip)}"),
        ("per-problem mean", f"{points(mean.mean)}, {by_t}; {_flip(report.clustered_sign_flip)}"),
        ("problems", f"{mean.refeed_worse} re-feed worse, {mean.floor_worse} replica worse, {mean.equal} equal"),
    )
    return Facts(rows)


def _unsigned(spread: float | None) -> str:
    return points(spread).lstrip("+")


def _flip(flip: SignFlip) -> str:
    how = "" if flip.exact else ", Monte Carlo"
    return f"sign-flip {p_value(flip.p)} (one-sided{how})"


def _t(t: float | None, df: int | None, why: str | None) -> str:
    if t is None:
        reason = why or "not known"
        return f"t {reason}" if reason.startswith("undefined") else f"t undefined: {reason}"
    return f"t({df}) = {t:.2f}"


def _watched(report: Report, looked: StopRule) -> Section:
    found = report.sequential
    level = 1 / found.alpha
    named = (
        ("symmetry (primary)", found.symmetry),
        ("betting", found.betting),
        ("t, Gaussian", found.t_e),
        ("sign, for display", found.sign),
    )
    columns = ("e-process", "e now", "maximum", "crossed at", "mean excess at least")
    table = Grid(columns, tuple((name, *_process(process)) for name, process in named))
    title = f"Valid at every look (reject at e >= {level:.6g}, alpha = {found.alpha:.6g}; the maximum counts)"
    parts = (Chart(found.path, level), table, plain_t(report, looked))
    test = report.group_sequential
    return Section(title, parts if test is None else (Facts((("sequential t", _registered_test(test)),)), *parts))


def _registered_test(test: GroupSequential) -> str:
    """The sequential clustered t against its boundary: how far it is, or where it crossed, and what holds there."""
    place = f"{len(test.path)} of {test.registered} problems"
    t = "undefined" if test.t is None else f"{test.t:.2f}"
    if test.crossed_at is not None:
        standing = f"crossed its boundary at problem {test.crossed_at} of {test.registered}; t {t} after {place}"
    elif test.boundary is None:
        standing = f"t {t} after {place}; no boundary yet"
    else:
        standing = f"t {t} of {test.boundary:.2f} needed after {place}"
    held = "" if test.ci95_repeated is None else f"; mean excess {interval(test.ci95_repeated)} at every look together"
    best = "" if test.median_unbiased is None else f"; median-unbiased {points(test.median_unbiased)}"
    course = "" if test.on_course is None or test.crossed_at is not None else f"; on course {test.on_course:.2f}"
    return f"{standing}{held}{best}{course}"


def _process(process: ProcessReport) -> tuple[str, ...]:
    crossing = process.crossing
    crossed = "not crossed" if crossing is None else f"{ordinal(crossing.informative)} (task {crossing.problem})"
    return e_value(process.e), e_value(process.e_max), crossed, points(process.lower)


def _pairs(report: Report) -> Facts:
    pairs, bias = report.mcnemar, report.bias
    if bias.mean is None:
        return Facts((("undefined", bias.why or ""),))
    only = f"{pairs.b} changed only when re-fed, {pairs.c} only in the replica"
    mean = f"re-feed minus exact-1: mean {number(bias.mean, 4)} {interval(bias.ci95, scale=1, digits=4)}"
    naive = "if pivots were independent"
    rows = (
        ("McNemar", f"{only}; z = {number(pairs.z)} {naive}, {number(pairs.z_clustered)} by problem"),
        ("bias", f"{mean}, t = {number(bias.t)} {naive}, {number(bias.clustered.t)} by CR2"),
    )
    return Facts(rows)


def _selection(report: Report) -> Grid:
    rows: list[tuple[str, ...]] = []
    for cut, chosen in report.selection.items():
        picked = f"|A| >= {cut} ({chosen.selection.selected_exact1:,})"
        rows.append((picked, "re-feed", *_overlap(chosen.selection.refeed, chosen.refeed_ci.ci95)))
        rows.append(("", "replica", *_overlap(chosen.selection.replica, chosen.replica_ci.ci95)))
    columns = ("selected", "pass", "both", "either", "Jaccard", "95%", "near the cut")
    return Grid(columns, tuple(rows), words=2)


def _overlap(overlap: Overlap, ci95: tuple[float, float] | None) -> tuple[str, ...]:
    near = percent(overlap.within_quantum_share, 0)
    return f"{overlap.both:,}", f"{overlap.either:,}", percent(overlap.jaccard), interval(ci95), near


def _margin(report: Report) -> tuple[Grid, str]:
    found = report.margin
    named = (("below 0.3 nats", found.below), ("from 0.3 nats", found.above))
    rows = tuple((name, f"{one.n:,}", percent(one.refeed), percent(one.floor)) for name, one in named)
    contrasts = f"re-feed rate {_contrast(found.refeed_flat)}; excess {_contrast(found.excess_flat)}"
    return Grid(("top-1 minus top-2", "n", "re-feed", "floor"), rows), contrasts


def _contrast(contrast: Contrast) -> str:
    if contrast.p is None:
        return f"difference {contrast.why or 'undefined'}"
    return f"differs by {points(contrast.difference)} {interval(contrast.ci95, signed=True)} ({p_value(contrast.p)})"


def _probes(report: Report) -> Grid:
    rows = (("re-feed", *_probe(report.probe.refeed)), ("replica", *_probe(report.probe.replica)))
    return Grid(("", "pivots", "bit-exact", "by arm", "diverged", "p90, nats", "median if not 0"), rows)


def _probe(probes: Probes) -> tuple[str, ...]:
    shares = (percent(share) for share in (probes.bit_exact, probes.bit_exact_arms, probes.diverged))
    return f"{probes.pivots:,}", *shares, nats(probes.p90), nats(probes.median_nonzero)
