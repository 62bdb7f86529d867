"""The paper's Table 1 row of a campaign, in Markdown and LaTeX."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sessions.printable import printable
from stats.clustered import problem_mean
from stats.disagreement import disagreement, problem_counts
from stats.paired import mcnemar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessions.campaign import CampaignState
    from stats.disagreement import Comparison

_HEADER = (
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
_CAPTION = (
    "re-feed, floor: share of the eligible pivots whose sign changed, and in brackets the share whose sign was "
    "reversed, neither side zero. Eligible are pivots with nonzero credit in some pass, for excess (exact-1) in "
    "exact-1. Excesses are in percentage points. t_clust: by problem; z: as if pivots were independent."
)
_MARKUP = "\\`*_{}[]<>#|"
_LONG = 2000


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


def row(state: CampaignState, label: str) -> Row:
    """Table 1 row (section 5.1): common eligible set, excess before rounding, clustered t, unclustered z.

    A value that cannot be computed is a dash.
    """
    table = state.table()
    common, exact1 = disagreement(table.net), disagreement(table.net, "exact1")
    counts = problem_counts(table)
    t, z = problem_mean(counts.excess, counts.n).t, mcnemar(table).z
    rate = state.cache_tally().rate
    return Row(
        configuration=label,
        pivots=f"{len(table.group):,}",
        eligible=f"{common.n:,}",
        refeed=_rate(common.refeed),
        floor=_rate(common.floor),
        excess=_points(common.excess),
        t_clust="-" if t is None else f"{t:.2f}",
        z="-" if z is None else f"{z:.2f}",
        excess_exact1=_points(exact1.excess),
        verified="-" if rate is None else f"{100 * rate:.1f}%",
    )


def _rate(found: Comparison) -> str:
    if found.rate is None or found.reversal_rate is None:
        return "-"
    return f"{100 * found.rate:.1f}% ({100 * found.reversal_rate:.1f}%)"


def _points(excess: float | None) -> str:
    return "-" if excess is None else f"{100 * excess:+.1f}"


def markdown(found: Row, remarks: Sequence[str] = ()) -> str:
    """A table of this row, with header; below it what its columns are, and what limits its numbers."""
    head = "| " + " | ".join(_HEADER) + " |"
    rule = "| --- |" + " ---: |" * (len(_HEADER) - 1)
    cells = (cell.replace("|", "\\|") for cell in found)
    table = "\n".join((head, rule, "| " + " | ".join(cells) + " |", ""))
    notes = "".join(("\n", *(f"- {_plain(remark)}\n" for remark in remarks)) if remarks else ())
    return f"{table}\n{_plain(_CAPTION)}\n{notes}"


_LATEX_ESCAPES = {
    "\\": r"\textbackslash{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def _plain(remark: str) -> str:
    """A remark as Markdown text that marks nothing up."""
    return "".join(f"\\{letter}" if letter in _MARKUP else letter for letter in printable(remark, _LONG))


def latex(found: Row, remarks: Sequence[str] = ()) -> str:
    """One row of a tabular; what its columns are and what limits its numbers, in comments before it."""
    cells = ("".join(_LATEX_ESCAPES.get(letter, letter) for letter in cell) for cell in found)
    notes = "".join(f"% note: {printable(remark, _LONG)}\n" for remark in remarks)
    return f"% {' & '.join(_HEADER)}\n% {_CAPTION}\n{notes}{' & '.join(cells)} \\\\\n"
