"""Marks of the dashboard, in Unicode and in ASCII."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Final

from tui.console import speaks_unicode


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
