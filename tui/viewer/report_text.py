"""A report as text: a document laid out at 80 columns, and the headline numbers of several reports side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sessions.numbers import NONE, e_value, interval, number, p_value, percent, points
from sessions.report.document import Chart, Facts, Grid
from sessions.report.reasons import noted
from sessions.report.sections import verdict
from sessions.text import one_line
from stats.decision import doubt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import RenderableType

    from sessions.report.audit import Audit
    from sessions.report.document import Part
    from stats.counts import Comparison

INDENT: Final = 2
SHOWN_FAILURES: Final = 10
WIDE: Final = 8  # columns of a table that fits 80 characters with one blank between them, not with two


def render(audit: Audit) -> Iterator[RenderableType]:
    """Yield a report as rich renderables, good at 80 columns."""
    written = audit.document(failures=SHOWN_FAILURES)
    yield Text(one_line(f"Report of {written.subject}"), style="bold")
    yield from map(_safe, written.opening)
    yield Text()
    yield Text(one_line(written.headline), style="bold")
    for section in written.sections:
        yield from _section(section.title, *(_laid_out(part) for part in section.body if not isinstance(part, Chart)))
    if written.notes:
        yield from _section("Notes", _bullets(written.notes))
    yield Text()
    yield Text(one_line(written.closing), style="dim")


def side_by_side(audits: Sequence[Audit]) -> Iterator[RenderableType]:
    """Yield the headline numbers of several reports, a column each, then the notes of each."""
    table = _table("", *(audit.sessions[0].folder.name or audit.sessions[0].folder.id for audit in audits), words=0)
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
            yield _bullets(notes)


def _section(title: str, *body: RenderableType) -> Iterator[RenderableType]:
    yield Text()
    yield Text(one_line(title), style="bold")
    for part in body:
        yield Padding(part, (0, 0, 0, INDENT))


def _laid_out(part: Part) -> RenderableType:
    if isinstance(part, Grid):
        table = _table(*part.columns, words=part.words)
        for row in part.rows:
            table.add_row(*map(_safe, row))
        return table
    return _facts(part.rows) if isinstance(part, Facts) else _safe(str(part))


def _table(*columns: str, words: int = 1) -> Table:
    """A table without borders; the first `words` columns are words, the others numbers."""
    gap = 1 if len(columns) >= WIDE else 2
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")
    for at, column in enumerate(columns):
        table.add_column(column, justify="left" if at < words else "right", no_wrap=at >= words)
    return table


def _bullets(sentences: Sequence[str]) -> Table:
    return _facts([("-", sentence) for sentence in sentences])


def _facts(rows: Sequence[tuple[str, str]]) -> Table:
    """Names and sentences in two columns, so that a long sentence wraps beside its name."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for name, sentence in rows:
        grid.add_row(_safe(name), _safe(sentence))
    return grid


def _safe(text: str) -> Text:
    """Text from anywhere on one line; as a Text, so that rich looks for no markup in it whatever console prints it."""
    return Text(one_line(text))


def _rate(counts: Comparison) -> str:
    return f"{counts.disagree}/{counts.n} {percent(counts.rate)}"


def _checked(audit: Audit) -> str:
    tally = audit.report.cache
    if tally is None or tally.checked == 0:
        return "not checked"
    return f"{tally.verified}/{tally.checked}"


def _survives(audit: Audit) -> str:
    """The bound that looks at the data leave standing, where they could end the campaign."""
    looked = audit.looked
    return NONE if looked == "none" else points(audit.report.sequential.followed(looked).lower)


def _against_cell(audit: Audit) -> str:
    found = audit.difference
    return NONE if found is None else f"{points(found.excess.difference)}, {p_value(found.excess.p)}"


# Rows that stand where a session has them.
WHERE_ANY: Final = frozenset({"batch-invariant", "  at least", "difference", "  but"})
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
    ("  at least", _survives),
    ("t", lambda audit: number(audit.report.clustered.t)),
    ("e, symmetry", lambda audit: e_value(audit.report.sequential.symmetry.e_max)),
    ("bit-exact", lambda audit: percent(audit.report.probe.refeed.bit_exact)),
    ("cache checks", _checked),
    ("difference", _against_cell),
    ("verdict", lambda audit: verdict(audit.report, so_far=audit.so_far) or NONE),
    ("  but", lambda audit: doubt(audit.report.decision, audit.report.pooled_excess.ci95) or NONE),
)
