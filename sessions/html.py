"""A session's report as one HTML file that needs nothing else: tables, one chart, and what limits the numbers.

It loads nothing and runs nothing (its own policy says so), and everything from the session is escaped text.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from sessions.noted import noted
from sessions.printable import printable
from sessions.remarks import remarks, unfinished
from sessions.svg import eprocess_chart
from sessions.version import VERSION
from stats.decision import unsettled
from stats.report import report

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sessions.campaign import CampaignState
    from stats.cache import CacheTally
    from stats.clustered import Interval
    from stats.disagreement import Comparison
    from stats.probes import Probes
    from stats.rates import RateInterval
    from stats.report import ProcessReport, Report
    from stats.selection import Overlap

_DASH: Final = "\N{EN DASH}"
_MINUS: Final = "\N{MINUS SIGN}"
_LONG: Final = 2000
_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.35rem; } h2 { font-size: 1.05rem; margin: 1.8rem 0 .4rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem .2rem 0; text-align: right; border-bottom: 1px solid #8884; white-space: nowrap; }
th { font-weight: 600; } th:first-child, td:first-child { text-align: left; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; } dd { margin: 0; }
.scroll { overflow-x: auto; } footer, .small { color: #767676; font-size: .85rem; overflow-wrap: anywhere; }
svg { max-width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
"""


def page(state: CampaignState, label: str, digest: str, standing: Sequence[str]) -> Iterator[str]:
    """The file, piece by piece.

    Args:
        state: folded.
        label: what the session is called.
        digest: of its spec.
        standing: how far it came, where that is not all.
    """
    spec = state.spec
    notes = (*standing, *remarks(state))
    tally = state.cache_tally()
    made = report(state.table(), alpha=spec.alpha, decision=spec.decision, seed=spec.seed, cache=tally, notes=notes)
    so_far = " so far" if unfinished(state) else ""
    title = f"Replay audit {_text(label)}"
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    yield '<meta name="viewport" content="width=device-width">\n'
    yield f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    engine = spec.engine if state.engine is None else state.engine.engine
    kernels = ", batch-invariant" if spec.batch_invariant or spec.numerics == "invariant" else ""
    yield f"<p>{_text(spec.model or '')} on {_text(engine)} ({spec.dtype}{kernels}), {_text(spec.task or '')}.<br>\n"
    ks = ", ".join(str(k) for k in made.k) or "none"
    yield f"{made.pivots:,} pivots, K = {ks}; "
    yield f"{made.informative_problems} of {made.problems} problems informative.</p>\n"
    yield f"<p><strong>{_headline(made, so_far)}</strong></p>\n"
    yield from _sections(made, tally, so_far)
    yield "<h2>Notes</h2>\n<ul>\n"
    yield from (f"<li>{_text(note)}</li>\n" for note in noted(made))
    yield f"</ul>\n<footer>refeed-tui {VERSION}; spec digest {_text(digest)}; intervals at 95%, pp = percentage points"
    yield "</footer>\n</body>\n</html>\n"


def _sections(made: Report, tally: CacheTally, so_far: str) -> Iterator[str]:
    yield from _table(
        "Table 1", ("eligible", "pass", "n", "changed", "rate", "95%", "to or from 0", "reversed"), _one(made)
    )
    yield from _facts("Excess of re-feed over the floor", _excess(made))
    yield f"<h2>Valid at every look (reject at e &#8805; {1 / made.sequential.alpha:.6g})</h2>\n"
    yield eprocess_chart(made.sequential.path, 1 / made.sequential.alpha)
    yield from _table("", ("e-process", "e now", "maximum", "crossed at", "mean excess at least"), _watched(made))
    yield "<p>The plain t of the per-problem mean is valid once, at the planned end; it may not be watched.</p>\n"
    yield from _facts("Pairs of pivots", _pairs(made))
    head = ("selected", "pass", "both", "either", "Jaccard", "95%")
    yield from _table("Critical tokens: who selects the same ones", head, _selection(made))
    yield from _table("Margin", ("top-1 minus top-2", "n", "re-feed", "floor"), _margin(made))
    probes = [("re-feed", *_probe(made.probe.refeed)), ("replica", *_probe(made.probe.replica))]
    head = ("pass", "pivots", "bit-exact", "diverged", "p90 (nats)", "median if not 0 (nats)")
    yield from _table("Greedy probes against exact-1", head, probes)
    yield from _facts("Cache checks", _cache(tally))
    verdict = _verdict(made, so_far)
    yield from _facts("Decision", [("verdict", verdict), ("registered rule", made.decision.rule)])


def _text(text: str) -> str:
    """Text from a session, safe in HTML: escaped, on one line, invisible characters shown."""
    return escape(printable(text, _LONG))


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if title:
        yield f"<h2>{escape(title)}</h2>\n"
    yield '<div class="scroll"><table>\n<tr>'
    yield "".join(f"<th>{escape(cell)}</th>" for cell in head)
    yield "</tr>\n"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>\n"
    yield "</table></div>\n"


def _facts(title: str, facts: Sequence[tuple[str, str]]) -> Iterator[str]:
    yield f"<h2>{escape(title)}</h2>\n<dl>\n"
    yield from (f"<dt>{_text(name)}</dt><dd>{_text(fact)}</dd>\n" for name, fact in facts)
    yield "</dl>\n"


def _percent(rate: float | None) -> str:
    return _DASH if rate is None else f"{100 * rate:.1f}%"


def _points(value: float | None) -> str:
    return _DASH if value is None else f"{100 * value:+.1f}pp".replace("-", _MINUS)


def _number(value: float | None, digits: int = 2) -> str:
    return _DASH if value is None else f"{value:.{digits}f}".replace("-", _MINUS)


def _p(value: float | None) -> str:
    return f"p {_DASH}" if value is None else f"p = {value:.2g}"


def _interval(bounds: Interval | None, scale: float = 100.0, digits: int = 1) -> str:
    return _DASH if bounds is None else f"[{_number(scale * bounds[0], digits)}, {_number(scale * bounds[1], digits)}]"


def _verdict(made: Report, so_far: str) -> str:
    if made.decision.verdict is None:
        return "none"
    doubt = unsettled(made.decision.verdict, made.pooled_excess.ci95)
    return f"{made.decision.verdict}{so_far}{', ' + doubt if doubt else ''}"


def _headline(made: Report, so_far: str) -> str:
    counts = made.common.counts
    if counts.n == 0:
        return "No pivot is eligible: no credit estimate differs from 0 in any pass."
    return (
        f"Re-feeding changed the sign of {counts.refeed.disagree:,} of {counts.n:,} credit estimates "
        f"({_percent(counts.refeed.rate)}), an exact replica of {counts.floor.disagree:,} "
        f"({_percent(counts.floor.rate)}); excess {_points(made.pooled_excess.value)} "
        f"{_interval(made.pooled_excess.ci95)}: {_verdict(made, so_far)}."
        f"{' Nothing seen is not zero: see the notes.' if counts.refeed.disagree == 0 else ''}"
    )


def _one(made: Report) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, rates in (("any pass not 0", made.common), ("exact-1 not 0", made.exact1)):
        rows.append((name, "re-feed", *_comparison(rates.counts.refeed, rates.refeed)))
        rows.append(("", "replica", *_comparison(rates.counts.floor, rates.floor)))
        rows.append(("", "excess", "", "", _points(rates.counts.excess), "", "", ""))
    control = made.no_decode_state
    if control is not None:
        rows.append(("no decode state", "re-feed", *_comparison(control.refeed, None)))
        rows.append(("(free control)", "replica", *_comparison(control.floor, None)))
    return rows


def _comparison(counts: Comparison, spread: RateInterval | None) -> tuple[str, ...]:
    ci95 = None if spread is None else spread.ci95
    changes = (f"{counts.zero_crossings:,}", f"{counts.reversals:,}")
    return f"{counts.n:,}", f"{counts.disagree:,}", _percent(counts.rate), _interval(ci95), *changes


def _excess(made: Report) -> list[tuple[str, str]]:
    pooled, mean = made.pooled_excess, made.clustered
    by_cr2 = (
        f"SE {_points(pooled.se).lstrip('+')}, t = {_number(pooled.t)}, df = {_number(pooled.df, 1)}, {_p(pooled.p)}"
    )
    flip, mean_flip = made.pooled_sign_flip.p, made.clustered_sign_flip.p
    by_t = f"t({_DASH if mean.df is None else mean.df}) = {_number(mean.t)}, {_p(mean.p)}"
    return [
        ("pooled", f"{_points(pooled.value)} {_interval(pooled.ci95)} by CR2: {by_cr2}"),
        ("bootstrap over problems", _interval(made.pooled_bootstrap.ci95)),
        ("sign-flip (one-sided)", _p(flip)),
        ("per-problem mean", f"{_points(mean.mean)}, {by_t}; sign-flip {_p(mean_flip)} (one-sided)"),
        ("problems", f"{mean.refeed_worse} re-feed worse, {mean.floor_worse} replica worse, {mean.equal} equal"),
    ]


def _watched(made: Report) -> list[tuple[str, ...]]:
    found = made.sequential
    named = (("symmetry (primary)", found.symmetry), ("betting", found.betting), ("t, Gaussian", found.t_e))
    return [(name, *_process(process)) for name, process in named]


def _process(process: ProcessReport) -> tuple[str, ...]:
    crossing = process.crossing
    crossed = "not crossed" if crossing is None else f"problem {crossing.informative} (task {crossing.problem})"
    return f"{process.e:.4g}", f"{process.e_max:.4g}", crossed, _points(process.lower)


def _pairs(made: Report) -> list[tuple[str, str]]:
    pairs, bias = made.mcnemar, made.bias
    only = f"{pairs.b} changed only when re-fed, {pairs.c} only in the replica"
    mean = f"re-feed minus exact-1: mean {_number(bias.mean, 4)} {_interval(bias.ci95, 1, 4)}"
    naive = "if pivots were independent"
    return [
        ("McNemar", f"{only}; z = {_number(pairs.z)} {naive}, {_number(pairs.z_clustered)} by problem"),
        ("bias", f"{mean}, t = {_number(bias.t)} {naive}, {_number(bias.clustered.t)} by CR2"),
    ]


def _selection(made: Report) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for cut, chosen in made.selection.items():
        name = f"|A| \N{GREATER-THAN OR EQUAL TO} {cut} ({chosen.selection.selected_exact1:,})"
        rows.append((name, "re-feed", *_overlap(chosen.selection.refeed), _interval(chosen.refeed_ci.ci95)))
        rows.append(("", "replica", *_overlap(chosen.selection.replica), _interval(chosen.replica_ci.ci95)))
    return rows


def _overlap(overlap: Overlap) -> tuple[str, str, str]:
    return f"{overlap.both:,}", f"{overlap.either:,}", _percent(overlap.jaccard)


def _margin(made: Report) -> list[tuple[str, ...]]:
    named = (("below 0.3 nats", made.margin.below), ("from 0.3 nats", made.margin.above))
    return [(name, f"{one.n:,}", _percent(one.refeed), _percent(one.floor)) for name, one in named]


def _probe(probes: Probes) -> tuple[str, ...]:
    nats = (_DASH if value is None else f"{value:.3g}" for value in (probes.p90, probes.median_nonzero))
    return f"{probes.pivots:,}", _percent(probes.bit_exact), _percent(probes.diverged), *nats


def _cache(tally: CacheTally) -> list[tuple[str, str]]:
    facts = [("checked", f"{tally.checked:,}"), ("verified", f"{tally.verified:,} ({_percent(tally.rate)})")]
    facts += [("proof", f"{tally.ledger:,} by the block ledger, {tally.counts:,} by token counts")]
    if tally.not_instrumented > 0:
        facts.append(("NOT INSTRUMENTED", f"{tally.not_instrumented:,}: their source recorded no cache counts"))
    return [*facts, *(("FAILED", failure) for failure in tally.failures)]
