"""The paper's Table 1 row of a campaign, as a section of a report and in LaTeX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sessions.numbers import NONE, number, percent, points
from sessions.report.document import LONGEST, Grid, Section
from sessions.report.sections import cache_checks, plain_t
from sessions.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions.report.document import Document
    from stats.counts import Comparison
    from stats.report import Report
    from stats.sequential import StopRule

_HEADER: Final = (
    "configuration",
    "pivots",
    "eligible",
    "re-feed (reversed)",
    "floor (reversed)",
    "excess",
    "t_clust",
    "z",
    "excess (exact-1)",
    "verified",
)
_CAPTION: Final = (
    "re-feed, floor: share of the eligible pivots whose sign changed, and in brackets the share whose sign was "
    "reversed, neither side zero. Eligible are pivots with nonzero credit in some pass, for excess (exact-1) in "
    "exact-1. Excesses are in percentage points. t_clust: by problem, valid once, at the planned end; z: as if pivots "
    "were independent."
)
_NAMED_FAILURES: Final = 10


class Row(NamedTuple):
    """Cells as text; rates are percent with strict reversals in parentheses, excesses percentage points."""

    configuration: str
    pivots: str
    eligible: str
    refeed: str
    floor: str
    excess: str
    t_clust: str
    z: str
    excess_exact1: str
    verified: str


def row(report: Report, label: str) -> Row:
    """Table 1 row (section 5.1): common eligible set, excess before rounding, clustered t, unclustered z.

    A value that cannot be computed is a dash.
    """
    common = report.common.counts
    return Row(
        configuration=label,
        pivots=f"{report.pivots:,}",
        eligible=f"{common.n:,}",
        refeed=_rate(common.refeed),
        floor=_rate(common.floor),
        excess=_excess(common.excess),
        t_clust=number(report.clustered.t),
        z=number(report.mcnemar.z),
        excess_exact1=_excess(report.exact1.counts.excess),
        verified=NONE if report.cache is None else percent(report.cache.rate),
    )


def _rate(found: Comparison) -> str:
    return NONE if found.rate is None else f"{percent(found.rate)} ({percent(found.reversal_rate)})"


def _excess(value: float | None) -> str:
    """In percentage points, which the caption says once for the whole column."""
    return points(value).removesuffix("pp")


def section(found: Row) -> Section:
    """The row as a section of a report, with what its columns are."""
    return Section("Row of the paper's Table 1", (Grid(_HEADER, (found,)), _CAPTION))


_LATEX_ESCAPES: Final = {
    "\\": r"\textbackslash{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def latex(found: Row, report: Report, written: Document, looked: StopRule = "none") -> Iterator[str]:
    """One row of a tabular; in comments before it what its columns are and whatever changes how it may be read.

    The row is the paper's: numbers of other tables stay in the report. The verdict, what the t is worth, the cache
    checks and every note stand here, so that a row that is pasted into a paper comes with them.
    """
    yield f"% {' & '.join(_HEADER)}\n"
    says = (_CAPTION, written.headline, plain_t(report, looked), *cache_checks(report.cache, _NAMED_FAILURES))
    yield from (f"% {printable(line, LONGEST)}\n" for line in says)
    yield from (f"% note: {printable(note, LONGEST)}\n" for note in written.notes)
    yield f"% {printable(written.closing, LONGEST)}\n"
    cells = ("".join(_LATEX_ESCAPES.get(letter, letter) for letter in cell) for cell in found)
    yield f"{' & '.join(cells)} \\\\\n"
