"""Critical-token selection: how well re-feed selects what exact-1 selects, against the ceiling that a replica sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessions.words import interval, number
from stats.selection import selection
from tui.views.disagreement import whisker
from tui.views.words import heading

if TYPE_CHECKING:
    from sessions.campaign import CampaignState
    from stats.report import Report
    from stats.selection import Overlap
    from tui.views.glyphs import Glyphs
    from tui.widgets.ink import Ink, Line

THRESHOLDS: Final = ("0.5", "0.75")


def lines(state: CampaignState, report: Report | None, width: int, glyphs: Glyphs) -> tuple[Line, ...]:
    """Jaccard of the selected sets at both thresholds.

    Args:
        state: its evidence is selected from.
        report: carries the intervals; None while they are computed.
        width: cells.
        glyphs: marks of this terminal.
    """
    table = state.table()
    out: list[Line] = [
        (("Pivots with |credit| at or above a threshold: what training would act on.", "muted"),),
        (("Jaccard with exact-1's set; an exact replica's is the ceiling.", "muted"),),
    ]
    for cut in THRESHOLDS:
        found = selection(table, cut)
        made = None if report is None else report.selection.get(cut)
        title = f"|credit| >= {cut}"
        out += [(), heading(title, width, glyphs, f"exact-1 selects {found.selected_exact1:,} of {len(table.group):,}")]
        rows: tuple[tuple[str, Ink, Overlap, object], ...] = (
            ("re-feed", "refeed", found.refeed, None if made is None else made.refeed_ci.ci95),
            ("replica", "floor", found.replica, None if made is None else made.replica_ci.ci95),
        )
        for name, ink, overlap, ci95 in rows:
            out += _overlap(name, ink, overlap, ci95, width, glyphs, waiting=report is None)  # type: ignore[arg-type]
    out += [(), (("intervals: BCa bootstrap over problems, 95%", "muted"),)]
    return tuple(out)


def _overlap(
    name: str,
    ink: Ink,
    overlap: Overlap,
    ci95: tuple[float, float] | None,
    width: int,
    glyphs: Glyphs,
    *,
    waiting: bool,
) -> list[Line]:
    if overlap.jaccard is None:
        return [((f"{name:<9} no pivot is selected by either pass", "muted"),)]
    spread = "computing" if waiting else interval(ci95, scale=1, digits=2)
    lead = f"{name:<9}{number(overlap.jaccard):>5} {spread:<13} {overlap.both:,} of {overlap.either:,} "
    near = f"{'':9}{overlap.differ:,} differ, {overlap.within_quantum:,} of these within one 1/K of the threshold"
    return [
        ((lead, ink), *whisker(overlap.jaccard, ci95, 1.0, max(0, width - len(lead) - 1), glyphs, ink)),
        ((near, "muted"),),
    ]
