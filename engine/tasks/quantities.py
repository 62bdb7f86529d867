"""Reads numbers out of prose, exactly: signs, groups, fractions, magnitudes, powers of ten, clock times, LaTeX.

Every pattern is bounded or possessive, so that no text can make a search backtrack for longer than its own length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DIGITS: Final = 400
"""Longer digit strings are noise, not answers; Python itself refuses to convert more than 4,300."""


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day or a duration written with colons.

    Attributes:
        seconds: since its zero, on the 24-hour clock where `half` is known.
        half: "am", "pm", or None where the text did not say.
    """

    seconds: int
    half: str | None


Quantity = Fraction | Clock

MAGNITUDES: Final = {
    "hundred": 2,
    "k": 3,
    "thousand": 3,
    "lakh": 5,
    "lakhs": 5,
    "m": 6,
    "mn": 6,
    "million": 6,
    "crore": 7,
    "crores": 7,
    "b": 9,
    "bn": 9,
    "billion": 9,
    "trillion": 12,
}
VULGAR: Final = {
    "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5", "⅘": "4/5",
    "⅙": "1/6", "⅚": "5/6", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
}  # fmt: skip
SUPERSCRIPTS: Final = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
CHARACTERS: Final = str.maketrans(
    {
        "\u2010": "-",  # hyphen
        "\u2011": "-",  # no-break hyphen
        "\u2013": "-",  # en dash
        "\u2212": "-",  # minus sign
        "\ufe63": "-",  # small hyphen-minus
        "\uff0d": "-",  # fullwidth hyphen-minus
        "\u2044": "/",  # fraction slash
        "\u2215": "/",  # division slash
        "\u00d7": "*",  # multiplication sign
        "\u22c5": "*",  # dot operator
        "\u00a0": " ",  # no-break space
        "\u2009": " ",  # thin space
        "\u202f": " ",  # narrow no-break space
        "\u2007": " ",  # figure space
        "\u2006": " ",  # six-per-em space
        "\u2008": " ",  # punctuation space
        "\u200a": " ",  # hair space
        "\u200b": "",  # zero width space
        "~": " ",
    }
)
_LATEX: Final = (
    (re.compile(r"\{,\}|,\\!\s?"), ","),
    (re.compile(r"\\[()\[\]]"), ""),
    (re.compile(r"-(?:\\[,;:! ])++"), "-"),
    (re.compile(r"\\[,;: ]|\\q?quad\b"), " "),
    (re.compile(r"\\!"), ""),
    (re.compile(r"\\([$%#&])"), r"\1"),
    (re.compile(r"\\(?:left|right|displaystyle)\b"), ""),
    (re.compile(r"\\(?:times|cdot)\b"), "*"),
    (re.compile(r"\\(?:text|textbf|mathrm|mathbf|mbox)\s?\{([^{}]{0,200})\}"), r"\1"),
    (re.compile(r"(\d)\s?\\[dt]?frac\s?\{([^{}]{0,60})\}\s?\{([^{}]{0,60})\}"), r"\1 \2/\3"),
    (re.compile(r"\\[dt]?frac\s?\{([^{}]{0,60})\}\s?\{([^{}]{0,60})\}"), r"\1/\2"),
    (re.compile(r"(\d)\s?\\[dt]?frac\s?(\d)\s?(\d)"), r"\1 \2/\3"),
    (re.compile(r"\\[dt]?frac\s?(\d)\s?(\d)"), r"\1/\2"),
)

_CLOCK: Final = r"(?P<clock>\d{1,3}:[0-5]\d(?::[0-5]\d)?)(?![\d:])(?:\s?(?P<half>[aApP]\.?[mM]\b))?"
WHOLE: Final = (
    r"(?>\d{1,3}(?:,\d{2,3}){0,20},\d{3}(?!\d)|\d{1,3}(?: \d{3}){1,20}(?!\d)|\d{1,3}(?:_\d{3}){1,20}(?!\d)"
    r"|\d{1,3}(?:'\d{3}){1,20}(?!\d)|\d++)"
)
_FRACTION: Final = (
    r"(?:(?P<whole>\d{1,12})(?: | and |-))?(?P<top>\d{1,40}(?:\.\d{1,40})?)\s?/\s?(?P<bottom>\d{1,40})(?![\d/]|\.\d)"
)
_DECIMAL: Final = rf"(?P<number>{WHOLE}(?:\.\d++)?|(?<![A-Za-z])\.\d++)"
_POWER: Final = (
    r"(?:[eE](?P<e>[+-]?\d{1,3})(?![\d.])"
    r"|\s?[*xX]\s?10\s?(?:\^\s?\{?(?P<ten>[+-]?\d{1,3})\}?|(?P<raised>⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3})))"
)
_MAGNITUDE: Final = (
    r"(?:[ -]?(?P<word>(?i:hundred|thousand|lakhs?|crores?|million|billion|trillion|mn|bn))\b|(?P<letter>[kKMB])\b)"
)
_QUANTITY: Final = re.compile(
    r"(?<!\d)(?<![^A-Za-z]\.)(?P<sign>(?<![\w)\]%])[-+])?(?:[$€£¥₹]\s?)?(?P<inner>-)?"
    rf"(?:{_CLOCK}|{_FRACTION}|{_DECIMAL}(?:{_POWER})?)(?:{_MAGNITUDE})?"
)
_DIGIT: Final = re.compile(r"\d")
_BEFORE_DIGIT: Final = 5
"""Sign, currency, a blank, a second sign and a point may stand before a quantity's first digit."""


def plain(text: str) -> str:
    """The text with LaTeX, vulgar fractions and look-alike characters spelled in ASCII where they write numbers."""
    ascii_only = text.isascii()  # most texts are, and a table of single characters is slow
    text = text.replace("~", " ") if ascii_only else text.translate(CHARACTERS)
    if "\\" in text or "{,}" in text:
        for pattern, spelled in _LATEX:
            text = pattern.sub(spelled, text)
    if ascii_only:
        return text
    for symbol, spelled in VULGAR.items():
        if symbol in text:
            text = re.sub(rf"(\d)\s?{symbol}", rf"\1 {spelled}", text).replace(symbol, spelled)
    return text


def find(text: str) -> Iterator[re.Match[str]]:
    """Every stretch of a `plain` text that looks like a quantity, from the left.

    The same as `_QUANTITY.finditer`, but words are skipped: a quantity has a digit among its first characters.
    """
    at = 0
    while (digit := _DIGIT.search(text, at)) is not None:
        match = _QUANTITY.search(text, max(at, digit.start() - _BEFORE_DIGIT))
        if match is None:
            return
        yield match
        at = match.end()


def read(match: re.Match[str]) -> Quantity | None:
    """The value of a stretch that `find` found, or None when it is none (a division by zero, hundreds of digits)."""
    if match["clock"] is not None:
        return _clock(match["clock"], match["half"])
    value = _fraction(match) if match["top"] is not None else _decimal(match)
    if value is None:
        return None
    magnitude = (match["word"] or match["letter"] or "").lower()
    value *= Fraction(10) ** MAGNITUDES.get(magnitude, 0)
    return -value if "-" in ((match["sign"] or ""), (match["inner"] or "")) else value


def _clock(text: str, half: str | None) -> Clock | None:
    """h:mm or h:mm:ss, with am or pm where it is written."""
    hours, minutes, *rest = (int(part) for part in text.split(":"))
    half = half.replace(".", "").lower() if half else None
    if half is not None:
        if not 1 <= hours <= 12:  # noqa: PLR2004 - hours of a half day
            return None
        hours = hours % 12 + (12 if half == "pm" else 0)
    return Clock(hours * 3600 + minutes * 60 + (rest[0] if rest else 0), half)


def _fraction(match: re.Match[str]) -> Fraction | None:
    """a/b or a mixed number."""
    bottom = int(match["bottom"])
    if bottom == 0:
        return None
    return Fraction(match["top"]) / bottom + int(match["whole"] or 0)


def _decimal(match: re.Match[str]) -> Fraction | None:
    """A decimal number with its power of ten."""
    digits = re.sub(r"[, _']", "", match["number"])
    if len(digits) > MAX_DIGITS:
        return None
    raised = match["raised"].translate(SUPERSCRIPTS) if match["raised"] else None
    return Fraction(digits) * Fraction(10) ** int(match["e"] or match["ten"] or raised or 0)


def same(a: Quantity, b: Quantity) -> bool:
    """Whether two quantities are the same number or time, without rounding.

    A time on the half-day clock equals one that leaves the half open; a full hour equals the number of that hour.
    """
    if isinstance(a, Clock) and isinstance(b, Clock):
        half_day = 12 * 3600
        return a.seconds == b.seconds or (
            (a.half is None or b.half is None) and (a.seconds - b.seconds) % half_day == 0
        )
    if isinstance(a, Clock):
        return not isinstance(b, Clock) and same(b, a)
    if isinstance(b, Clock):
        hours = Fraction(b.seconds, 3600)
        return hours.denominator == 1 and a in (hours, hours - 12 if b.half == "pm" else hours)
    return a == b


def spell(quantity: Quantity) -> str:
    """The quantity as canonical text: an integer, p/q, or h:mm:ss."""
    if isinstance(quantity, Clock):
        minutes, seconds = divmod(quantity.seconds, 60)
        text = f"{minutes // 60}:{minutes % 60:02d}" + (f":{seconds:02d}" if seconds else "")
        return f"{text} {quantity.half}" if quantity.half else text
    return str(quantity)


def quoted(text: str) -> str:
    """The first characters of a text in quotes and on one line, for a message; a backslash of LaTeX stays one."""
    return repr(text[:80]).replace("\\\\", "\\")
