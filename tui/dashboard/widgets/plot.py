"""Plots in the terminal: the one module that knows plotext.

plotext draws characters; its colours are only used as numbers that say which ink a character has, so themes, NO_COLOR
and light backgrounds work as everywhere else. Its figure is one per process and the dashboard draws from one thread.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tui.dashboard.style import INKS, Inked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.strip import Strip

    from tui.dashboard.style import Ink, Span

Marker = Literal["line", "fine", "thin", "dots", "steps"]
Side = Literal["left", "right"]

SMALLEST: Final = (16, 4)
_MARKS: Final[dict[Marker, str]] = {
    "line": "hd",
    "fine": "braille",
    "thin": "braille",
    "dots": "braille",
    "steps": "hd",
}
_ASCII: Final = str.maketrans("┌┐└┘├┤┬┴┼│─╭╮╰╯", "+++++++++|-++++")
_STYLE: Final = re.compile(r"\x1b\[([0-9;]*)m")
_ASCII_MARKS: Final = "*o+x#"


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one colour.

    Attributes:
        x, y: the same length.
        ink: role.
        marker: joined by lines, by finer ones (for low plots), by thin dotted ones or by steps, or left as dots.
        label: written at a point; empty for none.
        label_at: that point; None for the last one.
        side: on which side of that point the label lies.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    ink: Ink
    marker: Marker = "line"
    label: str = ""
    side: Side = "left"
    label_at: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line at `y`; its label stands on the axis."""

    y: float
    ink: Ink


@dataclass(frozen=True, slots=True)
class Figure:
    """What a plot shows.

    Attributes:
        series: drawn in order.
        x_limits, y_limits: of the axes.
        x_ticks, y_ticks: (place, label).
        levels: horizontal lines.
        empty: said in place of the plot while there is nothing to draw.
    """

    series: tuple[Series, ...] = ()
    x_limits: tuple[float, float] = (0.0, 1.0)
    y_limits: tuple[float, float] = (0.0, 1.0)
    x_ticks: tuple[tuple[float, str], ...] = ()
    y_ticks: tuple[tuple[float, str], ...] = ()
    levels: tuple[Level, ...] = ()
    empty: str = ""


def drawn(figure: Figure, width: int, height: int, *, ascii_only: bool = False) -> list[list[Span]]:
    """A figure as `height` lines of at most `width` cells.

    Args:
        figure: to draw.
        width: cells.
        height: lines.
        ascii_only: for terminals without Unicode.
    """
    if not any(series.x for series in figure.series) or width < SMALLEST[0] or height < SMALLEST[1]:
        return [[(figure.empty[:width], "muted")]]
    plotext = _plotext()
    plotext.terminal.limit(width=False, height=False)
    canvas = plotext.figure
    canvas.clear()
    canvas.theme("colorless")
    canvas.plot_size(width, height)
    for axis, limits, ticks in (("x", figure.x_limits, figure.x_ticks), ("y", figure.y_limits, figure.y_ticks)):
        ruler = canvas.ruler(axis)
        ruler.lim(*limits)
        ruler.ticks([place for place, _ in ticks], labels=[label for _, label in ticks])
    canvas.axes(active=False, side="upper", axis="x")
    canvas.axes(active=False, side="right", axis="y")
    for level in figure.levels:
        canvas.line(level.y, orientation=0, pixel=_pixel(level.ink), style="default")
    for number, series in enumerate(figure.series):
        _draw(canvas, series, number, width, ascii_only=ascii_only)
    for series in figure.series:
        if series.label and series.x:
            label = plotext.colorize(series.label).fill(_pixel(series.ink))
            alignment = "right" if series.side == "left" else "left"
            x, y = series.label_at or (series.x[-1], series.y[-1])
            canvas.draw(canvas.text(x, y, label, alignment=alignment))
    text = canvas.build().string()
    canvas.clear()
    return [list(_spans(row.translate(_ASCII) if ascii_only else row)) for row in text.rstrip("\n").split("\n")]


@functools.cache
def _plotext() -> Any:
    """The library, loaded with the first plot: its documentation alone takes 0.1 s to import."""
    import plotext  # noqa: PLC0415

    return plotext


def _pixel(ink: Ink) -> Any:
    return _plotext().pixel(foreground=INKS.index(ink) + 1)


def _draw(canvas: Any, series: Series, number: int, columns: int, *, ascii_only: bool) -> None:
    x, y = list(series.x), list(series.y)
    if series.marker == "steps":
        x, y = _steps(x, y)
    if series.marker == "thin":
        x, y = _dotted(x, y, columns)
    mark = _MARKS[series.marker]
    if ascii_only:
        mark = "." if series.marker in {"dots", "thin"} else _ASCII_MARKS[number % len(_ASCII_MARKS)]
    signal = canvas.signal(x, y, marker=_plotext().marker(mark, pixel=_pixel(series.ink)))
    if series.marker in {"line", "fine", "steps"} and len(x) > 1:
        signal.lines(active=True)
    canvas.draw(signal)


def _dotted(x: list[float], y: list[float], columns: int) -> tuple[list[float], list[float]]:
    """Points on the line through the given ones, about one a column."""
    if len(x) < 2:  # noqa: PLR2004  (a line needs two)
        return x, y
    places = np.linspace(x[0], x[-1], max(2, columns))
    return places.tolist(), np.interp(places, x, y).tolist()


def _steps(x: list[float], y: list[float]) -> tuple[list[float], list[float]]:
    """Corners of a right-continuous step function."""
    xs, ys = x[:1], y[:1]
    for at, value in zip(x[1:], y[1:], strict=True):
        xs += [at, at]
        ys += [ys[-1], value]
    return xs, ys


def _spans(row: str) -> Iterator[Span]:
    """A row of plotext's output, its colour numbers turned into inks."""
    ink: Ink = "muted"
    end = 0
    for match in _STYLE.finditer(row):
        if match.start() > end:
            yield row[end : match.start()], ink
        end = match.end()
        codes = match[1].split(";")
        if codes[:2] == ["38", "5"]:
            ink = INKS[int(codes[2]) - 1]
        elif codes[0] in {"", "0"}:
            ink = "muted"
    if end < len(row):
        yield row[end:], ink


class Plot(Inked):
    """Draws one figure, again only when the figure or the size changed."""

    DEFAULT_CSS = "Plot { height: 1fr; width: 1fr; }"

    def __init__(self, *, id: str | None = None, ascii_only: bool = False) -> None:  # noqa: A002  (Textual's name)
        super().__init__(id=id)
        self.ascii_only = ascii_only
        self.draws = 0
        self._figure = Figure()
        self._drawn: tuple[Figure, int, int, bool] | None = None
        self._rows: list[list[Span]] = []

    def show(self, figure: Figure) -> None:
        """Replace the figure."""
        if figure != self._figure:
            self._figure = figure
            self.refresh()

    @property
    def text(self) -> str:
        """What it shows, without inks."""
        self._settle()
        return "\n".join("".join(text for text, _ in row) for row in self._rows)

    def _settle(self) -> None:
        wanted = (self._figure, self.size.width, self.size.height, self.ascii_only)
        if wanted != self._drawn:
            self._rows = drawn(self._figure, self.size.width, self.size.height, ascii_only=self.ascii_only)
            self._drawn = wanted
            self.draws += 1

    def render_line(self, y: int) -> Strip:
        """One row of the plot."""
        self._settle()
        return self.strip(self._rows[y] if y < len(self._rows) else (), self.size.width)
