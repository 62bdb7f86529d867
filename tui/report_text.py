"""A report as text: the paper's Table 1 first, then every other number, each beside its error or its limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sessions.noted import noted
from sessions.remarks import unfinished
from stats.decision import doubt, unsettled
from tui.numbers import NONE, count, e_value, interval, nats, number, ordinal, p_value, percent, points
from tui.plaintext import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import RenderableType

    from stats.cache import CacheTally
    from stats.contrast import Contrast
    from stats.difference import Difference
    from stats.disagreement import Comparison, Disagreement
    from stats.probes import Probes
    from stats.rates import RateInterval
    from stats.report import ProcessReport, Report
    from stats.selection import Overlap
    from stats.signflip import SignFlip
    from tui.audited import Audit, Session

INDENT: Final = 2
SHOWN_FAILURES: Final = 10


def render(audit: Audit) -> Iterator[RenderableType]:
    """Yield a report as rich renderables, good at 80 columns."""
    report = audit.report
    names = " + ".join(session.label for session in audit.sessions)
    yield Text(one_line(f"Report of {names}"), style="bold")
    yield Text(one_line(_settings(audit.sessions[0])))
    yield Text(_size(report))
    yield Text()
    yield Text(_headline(audit), style="bold")
    yield from _section("Table 1", _table_one(report))
    yield from _section("Excess of re-feed over the floor", _excess(report))
    if audit.difference is not None:
        yield from _section(f"Against {audit.against}", _against(audit, audit.difference))
    yield from _section(_watched_title(report), _watched(report), Text(_plain_t(report)))
    yield from _section("Pairs of pivots", _pairs(report))
    yield from _section("Critical tokens: who selects the same ones", _selection(report))
    yield from _section("Margin", *_margin(report))
    yield from _section("Greedy probes against exact-1", _probes(report))
    yield from _section("Cache checks", *_cache(report.cache))
    yield from _section("Decision", Text(_decision(audit)))
    yield from _notes(report)


def side_by_side(audits: Sequence[Audit]) -> Iterator[RenderableType]:
    """Yield the headline numbers of several reports, a column each, then the notes of each."""
    table = _table("", *(audit.sessions[0].folder.name or audit.sessions[0].folder.id for audit in audits), left=0)
    table.columns[0].justify = "left"
    for name, cell in MEASURES:
        cells = [cell(audit) for audit in audits]
        if name not in WHERE_ANY or any(text != NONE for text in cells):
            table.add_row(name, *cells)
    yield table
    for audit in audits:
        notes = noted(audit.report)
        if notes:
            yield Text()
            yield Text(one_line(f"Notes on {audit.sessions[0].label}"), style="bold")
            yield _facts(*(("-", one_line(note)) for note in notes))


def _settings(session: Session) -> str:
    spec = session.spec
    kernels = ", batch-invariant" if spec.batch_invariant else ""
    engine = session.state.engine.engine if session.state.engine is not None else spec.engine
    when = f"; {session.when}" if session.when else ""
    return f"{spec.model} on {engine} ({spec.dtype}{kernels}), {spec.task}{when}"


def _section(title: str, *body: RenderableType) -> Iterator[RenderableType]:
    yield Text()
    yield Text(title, style="bold")
    for part in body:
        yield Padding(part, (0, 0, 0, INDENT))


def _table(*columns: str, left: int = 1, gap: int = 2) -> Table:
    """A table without borders, `gap` blanks between columns; the first `left` are words, the others numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")
    for at, column in enumerate(columns):
        table.add_column(column, justify="left" if at < left else "right", no_wrap=at >= left)
    return table


def _size(report: Report) -> str:
    ks = ", ".join(str(k) for k in report.k) or "none"
    return (
        f"{report.pivots:,} pivots, K = {ks}; {report.informative_problems} of {report.problems} problems informative "
        "(with an eligible pivot)"
    )


def _verdict(audit: Audit) -> str | None:
    verdict = audit.report.decision.verdict
    so_far = any(unfinished(session.state) for session in audit.sessions)
    return f"{verdict} so far" if verdict is not None and so_far else verdict


def _headline(audit: Audit) -> str:
    report, verdict = audit.report, _verdict(audit)
    common = report.common
    if common.counts.n == 0:
        return "No pivot is eligible: no credit estimate differs from 0 in any pass, so nothing could change sign."
    pooled = report.pooled_excess
    spread = f" {interval(pooled.ci95, signed=True)}" if pooled.ci95 is not None else ""
    refeed, floor, n = common.counts.refeed, common.counts.floor, common.counts.n
    but = unsettled(report.decision.verdict, pooled.ci95)
    ending = f": {verdict}{', ' + but if but else ''}" if verdict is not None else ""
    unseen = " Nothing seen is not zero: see the notes." if refeed.disagree == 0 else ""
    return (
        f"Re-feeding changed the sign of {refeed.disagree:,} of {n:,} credit estimates ({percent(refeed.rate)}), an "
        f"exact replica of {floor.disagree:,} ({percent(floor.rate)}); excess {points(pooled.value)}{spread}{ending}."
        f"{unseen}"
    )


def _table_one(report: Report) -> Table:
    table = _table("eligible", "pass", "n", "changed", "rate", "95%", "to/from 0", "reversed", left=2, gap=1)
    for name, rates in (("any pass not 0", report.common), ("exact-1 not 0", report.exact1)):
        counts = rates.counts
        table.add_row(name, "re-feed", *_comparison(counts.refeed, rates.refeed))
        table.add_row("", "replica", *_comparison(counts.floor, rates.floor))
        table.add_row("", "excess", "", "", points(counts.excess), "", "", "")
    control = report.no_decode_state
    if control is not None:
        _add_control(table, control)
    return table


def _comparison(counts: Comparison, spread: RateInterval | None) -> tuple[str, ...]:
    ci95 = None if spread is None else spread.ci95
    changes = (f"{counts.zero_crossings:,}", f"{counts.reversals:,}")
    return f"{counts.n:,}", f"{counts.disagree:,}", percent(counts.rate), interval(ci95), *changes


def _add_control(table: Table, control: Disagreement) -> None:
    """Pivots whose whole hit lies in the prompt: nothing there was written in decode, so re-feed changes nothing."""
    table.add_row("no decode state", "re-feed", *_comparison(control.refeed, None))
    table.add_row("(free control)", "replica", *_comparison(control.floor, None))


def _facts(*rows: tuple[str, str]) -> Table:
    """Names and sentences in two columns, so that a long sentence wraps beside its name."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for name, sentence in rows:
        grid.add_row(name, sentence)
    return grid


def _excess(report: Report) -> Table:
    pooled, mean = report.pooled_excess, report.clustered
    if pooled.value is None:
        return _facts(("undefined", pooled.why or ""))
    se = NONE if pooled.se is None else f"{100 * pooled.se:.1f}pp"
    by_cr2 = f"by CR2: SE {se}, t = {number(pooled.t)}, df = {number(pooled.df, 1)}, {p_value(pooled.p)}"
    spread = f"{interval(pooled.ci95, signed=True)}, {by_cr2}" if pooled.se is not None else f"({pooled.why})"
    drawn = f"bootstrap over problems {interval(report.pooled_bootstrap.ci95, signed=True)}"
    by_t = f"{_t(mean.t, mean.df, mean.why)}, {p_value(mean.p)}"
    return _facts(
        ("pooled", f"{points(pooled.value)} {spread}"),
        ("", f"{drawn}; {_flip(report.pooled_sign_flip)}"),
        ("per-problem mean", f"{points(mean.mean)}, {by_t}; {_flip(report.clustered_sign_flip)}"),
        ("problems", f"{mean.refeed_worse} re-feed worse, {mean.floor_worse} replica worse, {mean.equal} equal"),
    )


def _flip(flip: SignFlip) -> str:
    how = "" if flip.exact else ", Monte Carlo"
    return f"sign-flip {p_value(flip.p)} (one-sided{how})"


def _t(t: float | None, df: int | None, why: str | None) -> str:
    if t is None:
        reason = why or "not known"
        return f"t {reason}" if reason.startswith("undefined") else f"t undefined: {reason}"
    return f"t({df}) = {t:.2f}"


def _watched_title(report: Report) -> str:
    alpha = report.sequential.alpha
    return f"Valid at every look (reject at e >= {1 / alpha:.6g}, alpha = {alpha:.6g}; the maximum counts)"


def _watched(report: Report) -> Table:
    sequential = report.sequential
    table = _table("e-process", "e now", "maximum", "crossed at", "mean excess at least")
    for name, process in (
        ("symmetry (primary)", sequential.symmetry),
        ("betting", sequential.betting),
        ("t, Gaussian", sequential.t_e),
        ("sign, for display", sequential.sign),
    ):
        table.add_row(name, *_process(process))
    return table


def _process(process: ProcessReport) -> tuple[str, ...]:
    crossing = process.crossing
    crossed = "not crossed" if crossing is None else f"{ordinal(crossing.informative)} (task {crossing.problem})"
    return e_value(process.e), e_value(process.e_max), crossed, points(process.lower)


def _plain_t(report: Report) -> str:
    crossing = report.sequential.plain_crossing
    peeked = (
        "" if crossing is None else f"; its one-sided p first fell below alpha at the {ordinal(crossing.informative)}"
    )
    value = _t(report.sequential.plain_t, report.clustered.df, report.clustered.why)
    return f"plain {value}: fixed-n only, valid once, at the planned end{peeked}"


def _against(audit: Audit, found: Difference) -> Table:
    shared = f"{count(found.shared_problems, 'problem')} in both" if found.shared_problems > 0 else "no problem in both"
    return _facts(
        ("excess", _contrast(found.excess)),
        ("re-feed rate", _contrast(found.refeed)),
        ("floor rate", _contrast(found.floor)),
        ("problems", shared),
        ("settings", f"differ in {', '.join(audit.differs)}" if audit.differs else "the same"),
    )


def _pairs(report: Report) -> Table:
    pairs, bias = report.mcnemar, report.bias
    if bias.mean is None:
        return _facts(("undefined", bias.why or ""))
    only = f"{pairs.b} changed only when re-fed, {pairs.c} only in the replica"
    mean = f"re-feed minus exact-1: mean {number(bias.mean, 4)} {interval(bias.ci95, scale=1, digits=4)}"
    naive = "if pivots were independent"
    return _facts(
        ("McNemar", f"{only}; z = {number(pairs.z)} {naive}, {number(pairs.z_clustered)} by problem"),
        ("bias", f"{mean}, t = {number(bias.t)} {naive}, {number(bias.clustered.t)} by CR2"),
    )


def _selection(report: Report) -> Table:
    table = _table("selected", "pass", "both", "either", "Jaccard", "95%", "near the cut", left=2)
    for cut, chosen in report.selection.items():
        picked = f"|A| >= {cut} ({chosen.selection.selected_exact1:,})"
        table.add_row(picked, "re-feed", *_overlap(chosen.selection.refeed), interval(chosen.refeed_ci.ci95),
                      percent(chosen.selection.refeed.within_quantum_share, 0))  # fmt: skip
        table.add_row("", "replica", *_overlap(chosen.selection.replica), interval(chosen.replica_ci.ci95),
                      percent(chosen.selection.replica.within_quantum_share, 0))  # fmt: skip
    return table


def _overlap(overlap: Overlap) -> tuple[str, str, str]:
    return f"{overlap.both:,}", f"{overlap.either:,}", percent(overlap.jaccard)


def _margin(report: Report) -> Iterator[RenderableType]:
    table = _table("top-1 minus top-2", "n", "re-feed", "floor")
    for name, bucket in (("below 0.3 nats", report.margin.below), ("from 0.3 nats", report.margin.above)):
        table.add_row(name, f"{bucket.n:,}", percent(bucket.refeed), percent(bucket.floor))
    yield table
    yield Text(f"re-feed rate {_contrast(report.margin.refeed_flat)}; excess {_contrast(report.margin.excess_flat)}")


def _contrast(contrast: Contrast) -> str:
    if contrast.p is None:
        return f"difference {contrast.why or 'undefined'}"
    return f"differs by {points(contrast.difference)} {interval(contrast.ci95, signed=True)} ({p_value(contrast.p)})"


def _probes(report: Report) -> Table:
    table = _table("", "pivots", "bit-exact", "by arm", "diverged", "p90, nats", "median if not 0")
    for name, probes in (("re-feed", report.probe.refeed), ("replica", report.probe.replica)):
        table.add_row(name, *_probe(probes))
    return table


def _probe(probes: Probes) -> tuple[str, ...]:
    shares = (percent(share) for share in (probes.bit_exact, probes.bit_exact_arms, probes.diverged))
    return f"{probes.pivots:,}", *shares, nats(probes.p90), nats(probes.median_nonzero)


def _cache(tally: CacheTally | None) -> Iterator[Text]:
    if tally is None:
        yield Text("not recorded")
        return
    if tally.checked > 0:
        by = {"ledger": tally.ledger, "counts": tally.counts}
        proofs = [f"{number:,} by {name}" for name, number in by.items() if number > 0]
        how = f" ({', '.join(proofs)})" if proofs else ""
        yield Text(f"{tally.verified:,} of {tally.checked:,} checked pivots verified, {percent(tally.rate)}{how}")
    if tally.not_instrumented > 0:
        yield Text(f"{tally.not_instrumented:,} pivots NOT INSTRUMENTED: their source recorded no cache counts")
    if tally.checked == 0 and tally.not_instrumented == 0:
        yield Text("no pivot was checked")
    for failure in tally.failures[:SHOWN_FAILURES]:
        yield Text(f"FAILED: {one_line(failure)}")
    if len(tally.failures) > SHOWN_FAILURES:
        yield Text(f"and {len(tally.failures) - SHOWN_FAILURES:,} more failures (`--json` has all)")


def _decision(audit: Audit) -> str:
    but = unsettled(audit.report.decision.verdict, audit.report.pooled_excess.ci95)
    found = f"{_verdict(audit) or 'none'}{', ' + but if but else ''}"
    return f"{found} (registered: {audit.report.decision.rule})"


def _notes(report: Report) -> Iterator[RenderableType]:
    notes = noted(report)
    if not notes:
        return
    yield Text()
    yield Text("Notes", style="bold")
    yield Padding(_facts(*(("-", one_line(note)) for note in notes)), (0, 0, 0, INDENT))


def _rate(counts: Comparison) -> str:
    return f"{counts.disagree}/{counts.n} {percent(counts.rate)}"


def _checked(audit: Audit) -> str:
    tally = audit.report.cache
    if tally is None or tally.checked == 0:
        return "not checked"
    return f"{tally.verified}/{tally.checked}"


def _against_cell(audit: Audit) -> str:
    found = audit.difference
    return NONE if found is None else f"{points(found.excess.difference)}, {p_value(found.excess.p)}"


WHERE_ANY: Final = frozenset({"batch-invariant", "difference", "  but"})  # rows that stand where a session has them
MEASURES: Final[tuple[tuple[str, Callable[[Audit], str]], ...]] = (
    ("model", lambda audit: one_line((audit.sessions[0].spec.model or "").rsplit("/", 1)[-1], 20)),
    ("batch-invariant", lambda audit: "yes" if audit.sessions[0].spec.batch_invariant else NONE),
    ("K", lambda audit: ", ".join(str(k) for k in audit.report.k)),
    ("pivots", lambda audit: f"{audit.report.pivots:,}"),
    ("informative", lambda audit: f"{audit.report.informative_problems}/{audit.report.problems}"),
    ("re-feed", lambda audit: _rate(audit.report.common.counts.refeed)),
    ("floor", lambda audit: _rate(audit.report.common.counts.floor)),
    ("excess", lambda audit: points(audit.report.pooled_excess.value)),
    ("95% (CR2)", lambda audit: interval(audit.report.pooled_excess.ci95, signed=True)),
    ("exact-1 not 0", lambda audit: points(audit.report.exact1.counts.excess)),
    ("problem mean", lambda audit: points(audit.report.clustered.mean)),
    ("t", lambda audit: number(audit.report.clustered.t)),
    ("e, symmetry", lambda audit: e_value(audit.report.sequential.symmetry.e_max)),
    ("bit-exact", lambda audit: percent(audit.report.probe.refeed.bit_exact)),
    ("cache checks", _checked),
    ("difference", _against_cell),
    ("verdict", lambda audit: _verdict(audit) or NONE),
    ("  but", lambda audit: doubt(audit.report.decision.verdict, audit.report.pooled_excess.ci95) or NONE),
)
