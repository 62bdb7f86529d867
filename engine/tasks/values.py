"""Reads a text that is one value from its first character to its last, with a currency, an `x =` and a unit at most.

The rule of this module is that nothing is half read. What it cannot evaluate exactly has no value; it never takes the
first operand of a larger expression.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.tasks import quantities
from engine.tasks.expressions import LONGEST, NoValueError, evaluate
from engine.tasks.quantities import MAGNITUDES, WHOLE

if TYPE_CHECKING:
    from engine.tasks.quantities import Quantity


_CLOCK: Final = re.compile(r"\d{1,3}:[0-5]\d(?::[0-5]\d)?(?:\s?[aApP]\.?[mM]\b\.?)?")
_CURRENCY: Final = re.compile(
    r"([-+]?)\s*(?:(?:US|CA|AU|A|C|HK|NZ)?\$|[€£¥₹₩]|(?:Rs|INR|USD|EUR|GBP)\b\.?)\s*(?=[-+.\d])"
)
_SIGN_WORD: Final = re.compile(r"(?i)(?:minus|negative)\s+")
_NAME: Final = re.compile(r"\\?[A-Za-z][A-Za-z]{0,11}(?:_\{?\w{1,6}\}?)?\s*=(?!=)\s*")
_MAGNITUDE: Final = re.compile(r"[ -]?(?i:(hundred|thousand|lakhs?|crores?|million|billion|trillion|mn|bn))\b")
_LETTER_MAGNITUDE: Final = re.compile(r"([kKMB])\b")
_SPELLINGS: Final = (
    (re.compile(r"\\[dtc]frac(?![A-Za-z])"), r"\\frac"),
    (re.compile(r"\{,\}|,\\!\s?"), ","),
    (re.compile(r"\\(?:left|right|displaystyle|bigl?|bigr?)(?![A-Za-z])"), ""),
    (re.compile(r"\\!"), ""),
    (re.compile(r"\\[,;: ]|\\q?quad\b|~"), " "),
    (re.compile(r"\\[()\[\]]"), ""),
    (re.compile(r"\\(?:boxed|fbox)\b"), ""),
    (re.compile(r"\\([$%#&])"), r"\1"),
    (re.compile(r"\\(?:times|cdot|ast)(?![A-Za-z])"), "*"),
    (re.compile(r"\\div(?![A-Za-z])|÷"), "/"),
    (re.compile(r"\^\s?\{?\s?\\circ\s?\}?|\\degree\b"), "°"),
    (re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox)\s?\{([^{}]{0,200})\}"), r" \1 "),
    (re.compile(r"(?<=\d)\s?[xX]\s?(?=10\s?\^)"), "*"),
    (re.compile(r"[ \t]{2,}"), " "),
)
_SUPERSCRIPT: Final = re.compile(r"⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}")

_SHORT_UNITS: Final = (
    "mm|cm|dm|km|mg|kg|ml|mL|dl|cl|lb|lbs|oz|ft|in|yd|yds|mi|hr|hrs|min|mins|sec|secs|ms|mph|kph|rpm|Hz|kW|kWh|pm|am"
)
_NO_UNIT: Final = (
    "pi|or|and|to|by|times|plus|minus|over|sqrt|log|ln|sin|cos|tan|exp|mod|base|if|for|more|less|than|is|not"
)
_UNIT: Final = re.compile(
    rf"\s*(?:[%°]|(?:per ?cent|{_SHORT_UNITS})\b|[ -](?!(?:{_NO_UNIT})\b)(?=[A-Za-z]*[aeiouyAEIOUY])[A-Za-z]{{3,30}})"
    rf"(?:\s?\^\s?\{{?[23]\}}?)?(?:(?:\s?/\s?| (?!(?:or|and|to|times|plus|minus|over)\b))[A-Za-z]{{1,30}}\.?){{0,5}}"
    r"(?:\s?\^\s?\{?[23]\}?)?[\s.]*"
)
_CURRENCY_AFTER: Final = re.compile(r"\s*[$€£¥₹][\s.]*")
_RESIDUE: Final = re.compile(
    r"\s?(?:[\^_/{}|<>]|\\|!(?=\S)|\*(?!\*)|[-+]\s?[\w\\({]|[,;]\s?[-+(]?\$?\s?\d|[,;]\s?\\|[.:][\d\\]|\d|[√π∞±])|\("
    r"|[A-Za-z](?<![mgshLlWVJNCFD])(?![A-Za-z])|\s[xyznXYZN](?![\w'])|\s(?:or|and|to)\s+[-+$\\(]*\d"
    r"|\s?(?:hours?|hrs?|minutes?|mins?|days?|weeks?|months?|years?|feet|foot|ft|pounds?|lbs?|dollars?)\s(?:and\s)?\d"
)

_ONES: Final = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS: Final = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_WORDS: Final = {word: n for n, word in enumerate(_ONES)} | {word: 10 * n for n, word in enumerate(_TENS, start=2)}


class Read(NamedTuple):
    """What opens a text.

    Attributes:
        value: of it.
        rest: what follows it.
        literal: whether it is one number as written, without an operation.
    """

    value: Quantity
    rest: str
    literal: bool


def spelled(text: str) -> str:
    """The text with LaTeX's spacing and wrapping removed, and look-alike characters spelled in ASCII."""
    text = text.translate(quantities.CHARACTERS)
    for pattern, replacement in _SPELLINGS:
        text = pattern.sub(replacement, text)
    for symbol, fraction in quantities.VULGAR.items():
        text = re.sub(rf"(\d)\s?{symbol}", rf"\1 {fraction}", text).replace(symbol, fraction)
    return _SUPERSCRIPT.sub(lambda match: f"^{{{match[0].translate(quantities.SUPERSCRIPTS)}}}", text)


def whole(text: str) -> Quantity | None:
    """The value of a text that is one number or time with at most a currency, an `x =` and a unit, or None.

    A single letter after a number is a variable as well as a unit, "2,5" is a list as well as a decimal number, and
    "3-5" is a range as well as a difference: none of them has a value here.
    """
    text = _unwrapped(text)
    found = leading(text[match.end() :] if (match := _NAME.match(text)) else text, strict=True)
    if found is None:
        return number_words(text)
    plain_end = not found.rest.strip(" .") or _UNIT.fullmatch(found.rest) or _CURRENCY_AFTER.fullmatch(found.rest)
    return found.value if plain_end else None


def leading(text: str, *, strict: bool) -> Read | None:
    """The value that opens a text and does not go on into more mathematics, or None.

    Args:
        text: as `spelled` or not.
        strict: whether a decimal comma and the magnitudes k, K, M and B, which could mean else, are refused.
    """
    text = _unwrapped(text)
    text = _CURRENCY.sub(r"\1", _SIGN_WORD.sub("-", text, count=1) if _SIGN_WORD.match(text) else text, count=1)
    if (match := _CLOCK.match(text)) and not text[match.end() :].startswith(":"):
        return _clock(match, text)
    try:
        value, end, literal = evaluate(text, strict=strict)
    except NoValueError:
        return None
    value, end = _magnified(value, text, end, strict=strict)
    rest = text[end:]
    if _RESIDUE.match(rest) or end >= LONGEST or _is_range(text[:end]):
        return None
    return Read(value, rest, literal)


def number_words(text: str) -> Fraction | None:
    """The value of an English number in words, below 10^9 ("twenty-five eggs"), with at most three words more."""
    total, part, seen = 0, 0, 0
    words = re.findall(r"[a-z]+", text.lower())[:20]
    if re.search(r"[\d\\]", text):
        return None
    for at, word in enumerate(words):
        if word in _WORDS:
            part += _WORDS[word]
        elif word == "hundred" and seen:
            part *= 100
        elif word in ("thousand", "million") and seen:
            total, part = total + part * 10 ** MAGNITUDES[word], 0
        elif word != "and" or not seen:
            left = words[at:]
            unit = len(left) <= 3 and not {"of", "or", "more", "less", "than", *_WORDS} & {*left}  # noqa: PLR2004
            return Fraction(total + part) if seen and unit else None
        seen += 1
    return Fraction(total + part) if seen else None


def _unwrapped(text: str) -> str:
    """The text spelled, without the marks of Markdown and LaTeX around it."""
    text = spelled(text).strip(" \t\r\n*`")
    if text.startswith("$") and text.rstrip(". ").endswith("$"):
        text = text.rstrip(". ")[1:-1]
    return text.strip(" \t\r\n*`")


def _clock(match: re.Match[str], text: str) -> Read | None:
    """A time that opens a text."""
    value = quantities.read(next(quantities.find(match[0])))
    return None if value is None else Read(value, text[match.end() :], literal=True)


def _magnified(value: Fraction, text: str, end: int, *, strict: bool) -> tuple[Fraction, int]:
    """The value times the magnitude that follows it, and where that ends."""
    match = _MAGNITUDE.match(text, end) or (None if strict else _LETTER_MAGNITUDE.match(text, end))
    if match is None:
        return value, end
    return value * 10 ** MAGNITUDES[match[1].lower()], match.end()


def _is_range(text: str) -> bool:
    """Whether a text is two numbers and a hyphen, a range as well as a difference."""
    return re.fullmatch(rf"\s*[-+]?\s*{WHOLE}(?:\.\d+)?\s?-\s?{WHOLE}(?:\.\d+)?\s*", text) is not None
