"""How the dashboard looks: roles of text, marks in Unicode and ASCII, and the two themes."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from rich.segment import Segment
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget

from tui.console import speaks_unicode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.style import Style

Ink = Literal[
    "plain", "muted", "strong", "title", "good", "bad", "warn", "refeed", "floor", "accent", "cursor", "key",
    "heat1", "heat2", "heat3", "heat4",
]  # fmt: skip
Span = tuple[str, Ink]
Line = tuple[Span, ...]

INKS: Final[tuple[Ink, ...]] = get_args(Ink)

DARK: Final[dict[str, str]] = {
    "ink-plain": "#d5dbe1",
    "ink-muted": "#8c98a5",
    "ink-strong": "#ffffff",
    "ink-title": "#b9c7d6",
    "ink-good": "#35c99b",
    "ink-bad": "#ffffff",
    "ink-bad-ground": "#b3400f",
    "ink-warn": "#f0e442",
    "ink-refeed": "#f0a30a",
    "ink-floor": "#5cb8ef",
    "ink-accent": "#cc9ee6",
    "ink-cursor-ground": "#2b3d52",
    "ink-key": "#f0e442",
    "ink-heat1": "#d5dbe1",
    "ink-heat1-ground": "#1f3147",
    "ink-heat2": "#ffffff",
    "ink-heat2-ground": "#2d5170",
    "ink-heat3": "#10161d",
    "ink-heat3-ground": "#7fb0b0",
    "ink-heat4": "#10161d",
    "ink-heat4-ground": "#f2e59a",
}
LIGHT: Final[dict[str, str]] = {
    "ink-plain": "#1d2733",
    "ink-muted": "#5a6672",
    "ink-strong": "#000000",
    "ink-title": "#33475c",
    "ink-good": "#006a4e",
    "ink-bad": "#ffffff",
    "ink-bad-ground": "#a8330a",
    "ink-warn": "#6e5600",
    "ink-refeed": "#9c4e00",
    "ink-floor": "#005f9e",
    "ink-accent": "#7a3b9c",
    "ink-cursor-ground": "#cfe0f2",
    "ink-key": "#6e5600",
    "ink-heat1": "#1d2733",
    "ink-heat1-ground": "#dfe9ee",
    "ink-heat2": "#1d2733",
    "ink-heat2-ground": "#b3cfdc",
    "ink-heat3": "#ffffff",
    "ink-heat3-ground": "#35708e",
    "ink-heat4": "#ffffff",
    "ink-heat4-ground": "#173a52",
}
"""After Okabe and Ito: orange and blue keep apart in every common colour blindness, and failures are a filled block."""


def line(*spans: Span | str) -> Line:
    """A line; bare text is plain."""
    return tuple((span, "plain") if isinstance(span, str) else span for span in spans)


def text_of(spans: Iterable[Span]) -> str:
    """A line without its inks."""
    return "".join(text for text, _ in spans)


class Inked(Widget):
    """A widget that draws inked spans with the line API; `ink--NAME` component classes hold the styles."""

    COMPONENT_CLASSES = {f"ink--{name}" for name in INKS}  # noqa: RUF012  (Textual's own declaration is a mutable set)

    _inks: dict[str, Style] | None = None

    def notify_style_update(self) -> None:
        """Forget styles that were put together from a theme that no longer holds."""
        self._inks = None
        super().notify_style_update()

    def ink(self, name: Ink, ground: Ink | None = None) -> Style:
        """Style of an ink on this widget's background; never empty, as the monochrome filter needs one.

        Args:
            name: of the ink.
            ground: ink whose background and marks lie under the text.
        """
        if self._inks is None:
            self._inks = {}
        known = f"{name}/{ground}"
        style = self._inks.get(known)
        if style is None:
            style = self.rich_style + self.get_component_rich_style(f"ink--{name}", partial=True)
            if ground is not None:
                style += self.get_component_rich_style(f"ink--{ground}", partial=True)
            self._inks[known] = style
        return style

    def strip(self, spans: Sequence[Span], width: int, ground: Ink | None = None) -> Strip:
        """Spans as exactly `width` cells.

        Args:
            spans: in order.
            width: cells.
            ground: ink whose background lies under the whole line.
        """
        segments = [Segment(text, self.ink(name, ground)) for text, name in spans]
        return Strip(segments).adjust_cell_length(width, self.ink("plain", ground))


@dataclass(frozen=True, slots=True)
class Glyphs:
    """Characters that views draw with.

    Attributes:
        ascii_only: whether every one of them is ASCII.
        dot: before a state.
        full, part, empty: cells of a bar: filled, shaded, not filled.
        high: upper end of an interval.
        span: between an estimate and that end.
        rule: horizontal line.
        sep: between facts.
        minus: of numbers in tables.
        alpha, at_least: in formulas.
        play, hold: of a replay's clock.
    """

    ascii_only: bool
    dot: str
    full: str
    part: str
    empty: str
    high: str
    span: str
    rule: str
    sep: str
    alpha: str
    at_least: str
    times: str
    play: str
    hold: str
    ellipsis: str


UNICODE: Final = Glyphs(
    ascii_only=False,
    dot="●",
    full="█",
    part="▓",
    empty="░",
    high="┤",
    span="─",
    rule="─",
    sep="·",
    alpha="α",  # noqa: RUF001  (the letter is meant)
    at_least="≥",
    times="×",  # noqa: RUF001  (the sign is meant)
    play="▶",
    hold="■",
    ellipsis="…",
)
ASCII: Final = Glyphs(
    ascii_only=True,
    dot="*",
    full="#",
    part="=",
    empty=".",
    high="|",
    span="-",
    rule="-",
    sep="|",
    alpha="alpha",
    at_least=">=",
    times="x",
    play=">",
    hold="#",
    ellipsis="...",
)


def wants_ascii() -> bool:
    """Whether this terminal should be spared Unicode: a dumb one, a plain console, or a locale that is not UTF-8."""
    return os.environ.get("TERM", "dumb") in {"dumb", "linux", "vt100", "vt220"} or not speaks_unicode(sys.__stdout__)


THEMES: Final = (
    Theme(
        name="refeed-dark",
        primary="#5cb8ef",
        secondary="#f0a30a",
        warning="#f0e442",
        error="#e0693a",
        success="#35c99b",
        accent="#cc9ee6",
        foreground="#d5dbe1",
        background="#10161d",
        surface="#17202a",
        panel="#1e2a36",
        dark=True,
    ),
    Theme(
        name="refeed-light",
        primary="#005f9e",
        secondary="#a35200",
        warning="#6e5600",
        error="#a8330a",
        success="#006a4e",
        accent="#7a3b9c",
        foreground="#1d2733",
        background="#fbfbf8",
        surface="#f0f1ee",
        panel="#e4e7e6",
        dark=False,
    ),
)
