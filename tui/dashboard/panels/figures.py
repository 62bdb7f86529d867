"""Panels 3 to 5: the paper's figures on this campaign's evidence."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from sessions.numbers import interval, nats, number, percent
from stats.joint import joint
from stats.probes import ecdf, probes
from stats.selection import selection
from stats.table import EXACT2, REFEED, REFEED_PROBE, REPLICA_PROBE
from tui.dashboard.panels.base import Pane
from tui.dashboard.panels.path import POINTS_PER_COLUMN, thinned
from tui.dashboard.panels.rates import CONDITIONS, whisker
from tui.dashboard.widgets.lines import Lines, ScrollLines
from tui.dashboard.widgets.plot import Figure, Plot, Series
from tui.dashboard.words import heading, signed

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from sessions.state.campaign import CampaignState
    from stats.counts import Condition
    from stats.joint import Joint
    from stats.probes import Probes
    from stats.report import Report
    from stats.selection import Overlap
    from stats.table import PivotTable
    from tui.dashboard.style import Glyphs, Ink, Line, Span
    from tui.viewer.session import LiveSession


class JointPane(Pane):
    """Figure 1: joint distribution of the estimates.

    Attributes:
        condition: which pivots are eligible; a key switches it.
    """

    title = "Joint"
    keys: ClassVar = (("c", "eligibility"),)
    condition: Condition = "common"

    def compose(self) -> ComposeResult:
        """The maps, scrolling where K is large."""
        yield ScrollLines(id="joint")

    def paint(self, session: LiveSession, *, plots: bool) -> None:
        """Show the maps of the present evidence."""
        state, body = session.state, self.query_one("#joint", ScrollLines)
        size = body.size
        if plots and self.stale(session.token, len(state.measured), self.condition, size):
            body.show(heat_map(state, self.condition, max(20, size.width), size.height, self.glyphs))

    def switch_condition(self) -> None:
        """Count the other set of eligible pivots."""
        self.condition = "exact1" if self.condition == "common" else "common"

    def copied(self, session: LiveSession) -> str:
        """The maps as text."""
        del session
        return self.query_one("#joint", ScrollLines).text


class ProbePane(Pane):
    """Figure 3: the probes' distribution."""

    title = "Probe"

    def compose(self) -> ComposeResult:
        """Numbers above the plot."""
        yield Lines(id="probe-numbers", classes="note")
        yield Lines(id="probe-title", classes="note")
        yield Plot(id="probe", ascii_only=self.glyphs.ascii_only)

    def paint(self, session: LiveSession, *, plots: bool) -> None:
        """Show the present evidence."""
        state, plot = session.state, self.query_one("#probe", Plot)
        if not plots or not self.stale(session.token, len(state.measured), plot.size):
            return
        width = max(20, plot.size.width)
        self.query_one("#probe-numbers", Lines).show(numbers(state))
        title = "Share of pivots at or below |first logprob - exact-1's|, nats"
        self.query_one("#probe-title", Lines).show(((), heading(title, width, self.glyphs, "log axis")))
        plot.show(figure(state, width))

    def copied(self, session: LiveSession) -> str:
        """Numbers and plot as text."""
        return f"{super().copied(session)}\n{self.query_one('#probe', Plot).text}"


class SelectionPane(Pane):
    """Critical tokens: Jaccard against its ceiling."""

    title = "Select"
    wants_report = True

    def compose(self) -> ComposeResult:
        """Lines."""
        yield ScrollLines(id="selection")

    def paint(self, session: LiveSession, *, plots: bool) -> None:
        """Show the present evidence; intervals come when they are computed."""
        state, body = session.state, self.query_one("#selection", ScrollLines)
        if plots and self.stale(session.token, len(state.measured), session.report_of, body.size):
            made = session.report if session.report_of == len(state.measured) else None
            body.show(lines(state, made, max(20, body.size.width - 1), self.glyphs))

    def copied(self, session: LiveSession) -> str:
        """Lines as text."""
        del session
        return self.query_one("#selection", ScrollLines).text


COMPARED: Final[dict[int, tuple[str, Ink]]] = {REFEED: ("re-feed", "refeed"), EXACT2: ("exact-2 (floor)", "floor")}
HEAT: Final[tuple[Ink, ...]] = ("muted", "heat1", "heat2", "heat3", "heat4")
LABEL: Final = 5
GAP: Final = 4
FRAME: Final = 8


def heat_map(state: CampaignState, condition: Condition, width: int, height: int, glyphs: Glyphs) -> tuple[Line, ...]:
    """Both maps, beside each other where they fit, else one below the other; cells grow with the room."""
    table = state.table()
    ks = [int(k) for k in np.unique(table.k)]
    if not ks:
        why = "no problem has closed measured" if not state.measured else "no measured problem had a pivot that counts"
        return (((f"no evidence: {why}", "muted"),),)
    lines: list[Line] = [
        (("Pivots by estimate: rows exact-1, columns the compared pass.", "muted"),),
        ((f"{CONDITIONS[condition].capitalize()}; [n] has the same estimate in both.", "muted"),),
    ]
    for k in ks:
        cell = _cell_width(k, width)
        deep = max(1, min(3, (height - FRAME) // (len(ks) * (2 * k + 1))))
        maps = [
            (name, _map(joint(table, compared, k, condition), name, ink, cell, deep, glyphs))
            for compared, (name, ink) in COMPARED.items()
        ]
        one = LABEL + cell * (2 * k + 1)
        if 2 * one + GAP <= width:
            lines += _beside(maps[0][1], maps[1][1], one)
        else:
            lines += [*maps[0][1], (), *maps[1][1]]
        lines.append(())
    legend: list[Span] = [("shades, by count: ", "muted")]
    for name, ink in zip(("few", "some", "many", "most"), HEAT[1:], strict=True):
        legend += [(f" {name} ", ink), (" ", "plain")]
    lines.append((*legend, ("zero: to or from zero", "muted")))
    return tuple(lines)


def _cell_width(k: int, width: int) -> int:
    side = 2 * k + 1
    return max(3, min(8, ((width - GAP) // 2 - LABEL) // side))


def _map(found: Joint, name: str, ink: Ink, cell: int, deep: int, glyphs: Glyphs) -> list[Line]:
    counts, k = found.counts, found.k
    side = 2 * k + 1
    one = LABEL + cell * side
    total = int(counts.sum())
    first = np.sign(np.arange(-k, k + 1))
    same = int(counts[first[:, None] == first[None, :]].sum())
    opposite = int(counts[first[:, None] * first[None, :] < 0].sum())
    top = int(counts.max()) if total > 0 else 0
    lines: list[Line] = [
        ((f"{name}, K = {k}, n = {total:,}", ink),),
        (("ex-1 ", "muted"), ("".join(f"{signed(j - k):^{cell}}" for j in range(side)), "muted")),
    ]
    for i in range(side - 1, -1, -1):
        spans: list[Span] = []
        blank: list[Span] = []
        for j in range(side):
            count = int(counts[i, j])
            shade = _heat(count, top)
            spans.append((_cell(count, cell, diagonal=i == j), shade))
            blank.append((" " * cell, shade))
        middle = (deep - 1) // 2
        for row in range(deep):
            label = f"{signed(i - k):>4} " if row == middle else " " * LABEL
            lines.append(((label, "muted"), *(spans if row == middle else blank)))
    said = f"same {same:,}, zero {total - same - opposite:,}, reversed {opposite:,}"
    lines += [heading("", one, glyphs), ((said, "plain"),)]
    return lines


def _cell(count: int, width: int, *, diagonal: bool) -> str:
    """A count in the middle of its cell; brackets on the diagonal where they fit, a point for nothing elsewhere."""
    text = str(count) if count > 0 or diagonal else "."
    if diagonal and len(text) + 2 <= width:
        text = f"[{text}]"
    left = max(0, (width - len(text) + 1) // 2)
    return f"{' ' * left}{text}".ljust(width)


def _heat(count: int, top: int) -> Ink:
    """A shade for a count, on a log scale up to the largest count."""
    if count == 0 or top == 0:
        return HEAT[0]
    share = math.log1p(count) / math.log1p(top)
    return HEAT[min(4, 1 + int(share * 3.999))]


def _beside(left: list[Line], right: list[Line], width: int) -> list[Line]:
    lines: list[Line] = []
    for one, other in zip(left, right, strict=True):
        pad = width + GAP - sum(len(text) for text, _ in one)
        lines.append((*one, (" " * max(1, pad), "plain"), *other))
    return lines


COMPARISONS: Final[tuple[tuple[int, str, Ink], ...]] = (
    (REPLICA_PROBE, "replica", "floor"),
    (REFEED_PROBE, "re-feed", "refeed"),
)

NAMED_AT: Final = {"replica": 0.8, "re-feed": 0.4}
"""Share at which each curve is named."""


def numbers(state: CampaignState) -> tuple[Line, ...]:
    """Both comparisons in numbers."""
    head = f"{'against exact-1':<16}{'pivots':>8}{'bit-exact':>11}{'diverged':>10}{'p90':>11}{'median > 0':>12}"
    table = state.table()
    return (
        ((head, "title"),),
        *(((_row(name, probes(table, place)), ink),) for place, name, ink in COMPARISONS),
        (("bit-exact: both arms equal to the last bit; p90 and median in nats", "muted"),),
    )


def _row(name: str, found: Probes) -> str:
    return (
        f"{name:<16}{found.pivots:>8,}{percent(found.bit_exact):>11}{percent(found.diverged):>10}"
        f"{nats(found.p90):>11}{nats(found.median_nonzero):>12}"
    )


def figure(state: CampaignState, width: int) -> Figure:
    """Share of pivots at or below each |first-logprob difference|; log axis, with exact zeros at the left edge."""
    table = state.table()
    drawn = [(name, ink, _steps(table, place)) for place, name, ink in COMPARISONS]
    positive = [x for _, _, points in drawn for x, _ in points if x > 0]
    if not any(points for _, _, points in drawn):
        return Figure(empty="no probes in the evidence yet")
    low = math.floor(math.log10(min(positive))) if positive else -6
    high = max(low + 1, math.ceil(math.log10(max(positive)))) if positive else 0
    series = []
    for name, ink, points in drawn:
        placed = [(math.log10(x) if x > 0 else low - 1.0, share) for x, share in points]
        if placed and placed[0][0] > low - 1.0:
            placed.insert(0, (low - 1.0, 0.0))
        if placed:
            placed.append((float(high), placed[-1][1]))
        kept = thinned(placed, POINTS_PER_COLUMN * max(8, width))
        at = _riser(placed, NAMED_AT[name]) if placed else None
        series.append(Series(tuple(x for x, _ in kept), tuple(y for _, y in kept), ink, "steps", name, "right", at))
    if len({one.label_at for one in series}) < len(series):  # one name would hide the other
        label = ", ".join(one.label for one in series)
        series = [replace(one, label=label if one is series[-1] else "") for one in series]
    step = max(1, (high - low) // 6)
    ticks = ((low - 1.0, "0"), *((float(power), f"1e{power}") for power in range(low, high + 1, step)))
    shares = tuple((part / 4, f"{25 * part}%") for part in range(5))
    return Figure(tuple(series), (low - 1.0, float(high)), (0.0, 1.0), ticks, shares)


def _riser(placed: list[tuple[float, float]], share: float) -> tuple[float, float]:
    """Where a curve first reaches a share: every one ends at 100%, where names would hide each other."""
    x, reached = next(point for point in placed if point[1] >= share)
    return x, max(share, reached if x == placed[0][0] else share)


def _steps(table: PivotTable, comparison: int) -> list[tuple[float, float]]:
    found = ecdf(table, comparison)
    return list(zip(found.delta.tolist(), found.share.tolist(), strict=True))


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
