"""A report as text: the paper's Table 1 first, then every other number, each beside its error or its limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tui.numbers import e_value, interval, nats, number, ordinal, p_value, percent, points
from tui.plaintext import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from stats.cache import CacheTally
    from stats.disagreement import Comparison, Disagreement
    from stats.margin import Contrast
    from stats.probes import Probes
    from stats.rates import RateInterval
    from stats.report import ProcessReport, Report
    from stats.selection import Overlap

INDENT: Final = 2
SHOWN_FAILURES: Final = 10


def render(report: Report, title: str, facts: Sequence[str] = ()) -> Iterator[RenderableType]:
    """Yield the report as rich renderables, good at 80 columns.

    Args:
        report: of one session or pool.
        title: what was reported on.
        facts: lines below it; both are made safe here.
    """
    yield Text(one_line(title), style="bold")
    for fact in facts:
        yield Text(one_line(fact))
    yield Text(_size(report))
    yield Text()
    yield Text(_headline(report), style="bold")
    yield from _section("Table 1", _table_one(report))
    yield from _section("Excess of re-feed over the floor", *_excess(report))
    yield from _section(_watched_title(report), _watched(report), Text(_plain_t(report)))
    yield from _section("Pairs of pivots", *_pairs(report))
    yield from _section("Critical tokens: who selects the same ones", _selection(report))
    yield from _section("Margin", *_margin(report))
    yield from _section("Greedy probes against exact-1", _probes(report))
    yield from _section("Cache checks", *_cache(report.cache))
    yield from _section("Decision", Text(_decision(report)))
    yield from _notes(report)


def _section(title: str, *body: RenderableType) -> Iterator[RenderableType]:
    yield Text()
    yield Text(title, style="bold")
    for part in body:
        yield Padding(part, (0, 0, 0, INDENT))


def _table(*columns: str, left: int = 1) -> Table:
    """A table without borders; the first `left` columns are words, the others numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for at, column in enumerate(columns):
        table.add_column(column, justify="left" if at < left else "right", no_wrap=at >= left)
    return table


def _size(report: Report) -> str:
    ks = ", ".join(str(k) for k in report.k) or "none"
    return (
        f"{report.pivots:,} pivots, K = {ks}; {report.informative_problems} of {report.problems} problems informative "
        "(with an eligible pivot)"
    )


def _headline(report: Report) -> str:
    common = report.common
    if common.counts.n == 0:
        return "No pivot is eligible: no credit estimate differs from 0 in any pass, so nothing could change sign."
    pooled = report.pooled_excess
    spread = f" {interval(pooled.ci95, signed=True)}" if pooled.ci95 is not None else ""
    verdict = f": {report.decision.verdict}" if report.decision.verdict is not None else ""
    return (
        f"Re-feeding changed the sign of {percent(common.refeed.rate)} of the credit estimates, an exact replica of "
        f"{percent(common.floor.rate)}; excess {points(pooled.value)}{spread}{verdict}"
    )


def _table_one(report: Report) -> Table:
    table = _table("eligible where", "against exact-1", "n", "changed", "rate", "95%", "to/from 0", "reversed", left=2)
    for name, rates in (("any pass is not 0", report.common), ("exact-1 is not 0", report.exact1)):
        counts = rates.counts
        table.add_row(name, "re-feed", *_comparison(counts.refeed, rates.refeed))
        table.add_row("", "replica (floor)", *_comparison(counts.floor, rates.floor))
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
    table.add_row("no decode-time state", "re-feed", *_comparison(control.refeed, None))
    table.add_row("(free control)", "replica (floor)", *_comparison(control.floor, None))


def _excess(report: Report) -> Iterator[Text]:
    pooled, mean = report.pooled_excess, report.clustered
    yield Text(
        f"pooled            {points(pooled.value)} {interval(pooled.ci95, signed=True)} (CR2: SE "
        f"{points(pooled.se).lstrip('+')}, t = {number(pooled.t)}, df = {number(pooled.df, 1)}, {p_value(pooled.p)})"
    )
    yield Text(
        f"                  bootstrap over problems {interval(report.pooled_bootstrap.ci95, signed=True)}; sign-flip "
        f"{p_value(report.pooled_sign_flip.p)} (one-sided)"
    )
    yield Text(
        f"per-problem mean  {points(mean.mean)}, {_t(mean.t, mean.df, mean.why)}, {p_value(mean.p)}; sign-flip "
        f"{p_value(report.clustered_sign_flip.p)}"
    )
    yield Text(
        f"problems          {mean.refeed_worse} re-feed worse, {mean.floor_worse} replica worse, {mean.equal} equal"
    )


def _t(t: float | None, df: int | None, why: str | None) -> str:
    if t is None:
        return f"t {why or 'undefined'}"
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


def _pairs(report: Report) -> Iterator[Text]:
    pairs, bias = report.mcnemar, report.bias
    yield Text(
        f"McNemar  {pairs.b} changed only when re-fed, {pairs.c} only in the replica; z = {number(pairs.z)} taking "
        f"pivots for independent, {number(pairs.z_clustered)} by problem"
    )
    yield Text(
        f"bias     re-feed minus exact-1: mean {number(bias.mean, 4)} {interval(bias.ci95, scale=1, digits=4)}, "
        f"t = {number(bias.t)} taking pivots for independent, {number(bias.clustered.t)} by CR2"
    )


def _selection(report: Report) -> Table:
    table = _table("selected at", "against exact-1", "both", "either", "Jaccard", "95%", "near the cut", left=2)
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
    return f"differs by {points(contrast.difference)} ({p_value(contrast.p)})"


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
        proofs = [
            f"{count:,} by {name}" for name, count in (("ledger", tally.ledger), ("counts", tally.counts)) if count
        ]
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


def _decision(report: Report) -> str:
    return f"{report.decision.verdict or 'none'} (registered: {report.decision.rule})"


def _notes(report: Report) -> Iterator[RenderableType]:
    from stats.notes import all_notes  # noqa: PLC0415 - beside its only use, so that sections read top down

    notes = [one_line(note) for note in all_notes(report)]
    if not notes:
        return
    yield Text()
    yield Text("Notes", style="bold")
    for note in notes:
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(width=1)
        grid.add_column()
        grid.add_row("-", note)
        yield Padding(grid, (0, 0, 0, INDENT))
