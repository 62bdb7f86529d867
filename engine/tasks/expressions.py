"""Evaluates numbers, fractions, powers and roots, in plain text and in LaTeX, exactly or not at all.

What cannot be evaluated exactly has no value; the first operand of a larger expression is never taken for it.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from engine.tasks.quantities import MAX_DIGITS, WHOLE

LONGEST: Final = 300
"""Characters of an expression; a longer one has no value."""
_DEEPEST: Final = 20
_MOST_BITS: Final = int(MAX_DIGITS * 3.33)

_NUMBER: Final = re.compile(rf"(?:{WHOLE}(?:\.\d++)?|\.\d++)(?:[eE][+-]?\d{{1,3}}(?![\d.]))?")
_DECIMAL_COMMA: Final = re.compile(
    r"(?>\d{1,3}(?:\.\d{3}){1,5}|\d{1,15}),(?:\d{1,2}|\d{4,15})(?![\d,])|0,\d{1,15}(?![\d,])"
)
_MIXED: Final = re.compile(
    r"(\d{1,12})(?: | and |-|\s?(?=\\frac))"
    r"(?:\\frac\s?\{(\d{1,40})\}\s?\{(\d{1,40})\}|\\frac\s?(\d)\s?(\d)|(\d{1,40})\s?/\s?(\d{1,40}))(?![\d/])"
)


class NoValueError(Exception):
    """The text is no expression that can be evaluated exactly."""


def evaluate(text: str, *, strict: bool) -> tuple[Fraction, int, bool]:
    """Evaluate the longest expression that opens a text.

    Args:
        text: with look-alike characters and LaTeX's spacing spelled in ASCII; its first LONGEST characters are read.
        strict: whether a decimal comma is refused: "2,5" could be a list.

    Returns:
        the value, where its text ends, and whether it is one number as written, without an operation.

    Raises:
        NoValueError: when no exact and rational value of at most MAX_DIGITS digits opens the text.
    """
    reader = _Reader(text[:LONGEST], strict=strict)
    try:
        value = reader.sum()
    except ZeroDivisionError as error:
        raise NoValueError from error
    return value, reader.at, reader.operations == 0


def _bounded(value: Fraction) -> Fraction:
    """The value, where it has no more digits than an answer may have."""
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MOST_BITS:
        raise NoValueError
    return value


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    """An exact power; a fractional exponent takes an exact root."""
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(exponent) > _MOST_BITS or size * abs(exponent) > _MOST_BITS or exponent.denominator > _DEEPEST:
        raise NoValueError
    return _bounded(_root(base, exponent.denominator) ** exponent.numerator)


def _root(value: Fraction, degree: int) -> Fraction:
    """The exact root of a value, which must be rational and not negative."""
    if degree == 1:
        return value
    if value < 0 or not 1 < degree <= _DEEPEST:
        raise NoValueError
    return Fraction(_whole_root(value.numerator, degree), _whole_root(value.denominator, degree))


def _whole_root(value: int, degree: int) -> int:
    """The exact root of an integer of 0 or more."""
    low, high = 0, 1 << (value.bit_length() // degree + 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**degree <= value else (low, middle - 1)
    if low**degree != value:
        raise NoValueError
    return low


class _Reader:
    """A recursive descent over one expression; every method raises NoValueError where it cannot go on."""

    def __init__(self, text: str, *, strict: bool) -> None:
        """Begin at the first character."""
        self._text = text
        self._strict = strict
        self._depth = 0
        self.at = 0
        self.operations = 0

    def sum(self) -> Fraction:
        """Terms joined by + and -, which nothing but more of them may follow."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise NoValueError
        value = self._product()
        while sign := self._take(r"\s?([-+])(?=\s?[\d.\\({$])"):
            self.operations += 1
            value = _bounded(value + self._product() * (1 if sign[1] == "+" else -1))
        self._depth -= 1
        return value

    def _take(self, pattern: str) -> re.Match[str] | None:
        """The match of a pattern here, passed over."""
        match = re.compile(pattern).match(self._text, self.at)
        if match is not None:
            self.at = match.end()
        return match

    def _product(self) -> Fraction:
        """Factors joined by *, at most one /, or by standing before a root, a fraction or an opening parenthesis."""
        value = self._factor()
        divided = False
        while mark := self._take(r"\s?([*/])(?!\*)\s?|(?<=[\d})])\s?(?=\\(?:sqrt|frac))|(?<=[\d})])(?=[({])"):
            self.operations += 1
            factor = self._factor()
            if mark[1] == "/":
                if divided:
                    raise NoValueError
                divided, factor = True, 1 / factor
            value = _bounded(value * factor)
        return value

    def _factor(self) -> Fraction:
        """A signed power."""
        sign = -1 if (mark := self._take(r"\s*([-+])\s*")) and mark[1] == "-" else 1
        base = self._primary()
        if self._take(r"\s?\^\s?"):
            self.operations += 1
            base = _power(base, self._exponent())
        return sign * base

    def _exponent(self) -> Fraction:
        """What follows a ^."""
        if self._take(r"\{"):
            return self._until(r"\s*\}")
        sign = -1 if self._take("-") else 1
        return sign * self._number()

    def _primary(self) -> Fraction:
        """A number, a group, a fraction or a root."""
        if self._take(r"\s*\("):
            return self._until(r"\s*\)")
        if self._take(r"\s*\{"):
            return self._until(r"\s*\}")
        if self._take(r"\s*\\frac"):
            self.operations += 1
            top = self._argument()
            return _bounded(top / self._argument())
        if root := self._take(r"\s*(?:\\sqrt\s?(?:\[(\d{1,2})\])?|√)"):
            self.operations += 1
            return _root(self._argument(), int(root[1] or 2))
        return self._number()

    def _until(self, closing: str) -> Fraction:
        """A sum and its closing mark."""
        value = self.sum()
        if not self._take(closing):
            raise NoValueError
        return value

    def _argument(self) -> Fraction:
        """The argument of a command: a group, or one digit; of a root sign a number."""
        if self._take(r"\s?\{"):
            return self._until(r"\s*\}")
        if self._text[: self.at].endswith("√"):
            return self._primary()
        digit = self._take(r"\s?(\d)")
        if digit is None:
            raise NoValueError
        return Fraction(digit[1])

    def _number(self) -> Fraction:
        """A mixed number, a decimal number, or an integer, with the separators that people use."""
        self._take(r"\s*\$?")
        if mixed := self._take(_MIXED.pattern):
            top, bottom = (part for part in mixed.groups()[1:] if part is not None)
            return int(mixed[1]) + Fraction(int(top), int(bottom))
        comma = self._take(_DECIMAL_COMMA.pattern)
        number = comma or self._take(_NUMBER.pattern)
        if number is None or (comma is not None and (self._strict or self._depth > 1)) or len(number[0]) > MAX_DIGITS:
            raise NoValueError
        digits = number[0].replace(".", "").replace(",", ".") if comma else re.sub(r"[, _']", "", number[0])
        return _bounded(Fraction(digits))
