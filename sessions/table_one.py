"""The paper's Table 1 row of a campaign, in Markdown and LaTeX."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stats.clustered import problem_mean
from stats.disagreement import disagreement, problem_counts
from stats.paired import mcnemar

if TYPE_CHECKING:
    from sessions.campaign import CampaignState
    from stats.disagreement import Comparison

_HEADER = (
    "configuration",
    "pivots",
    "eligible",
    "re-feed",
    "floor",
    "excess",
    "t_clust",
    "z",
    "excess (exact-1)",
    "verified",
)


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


def markdown(found: Row) -> str:
    """A table of this row, with header."""
    head = "| " + " | ".join(_HEADER) + " |"
    rule = "| --- |" + " ---: |" * (len(_HEADER) - 1)
    cells = (cell.replace("|", "\\|") for cell in found)
    return "\n".join((head, rule, "| " + " | ".join(cells) + " |", ""))


_LATEX_ESCAPES = {
    "\\": r"\textbackslash{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def latex(found: Row) -> str:
    """One row of a tabular, with its columns named in a comment."""
    cells = ("".join(_LATEX_ESCAPES.get(letter, letter) for letter in cell) for cell in found)
    return f"% {' & '.join(_HEADER)}\n{' & '.join(cells)} \\\\\n"
