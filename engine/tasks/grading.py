"""Is a solution right? Finds its final answer and compares it with the gold one as exact numbers.

Two rules. `solution` reads the whole completed solution. `published` is the rule of the published harness, kept so that
its numbers can be reproduced: it is meant for the continuation alone and knows only digits, commas and a decimal point.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

from engine.tasks import quantities
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.tasks.quantities import Quantity

Rule = Literal["solution", "published"]

_TRIES: Final = 200
"""How many statements of one kind are tried from the end; a text with more holds no answer that a reader would find."""
_PAYLOAD: Final = 300

_LABEL: Final = re.compile(
    r"(?im)(?:^[ \t#>*_\-`\[(]{0,20}(?:(?:so|thus|hence|therefore),?[ ]|my[ ]|the[ ])?(?:final[ ])?answer\b"
    r"(?P<start>[ \t*_`)\]]{0,8}(?:[:=\uff1a]|is\b|(?=[ \t]+[-$]?\d[\d,.]*[ \t*]*$)|(?P<heading>[ \t*_`]*$)))"
    r"|\banswer\b(?:[ ](?:to[^.\n:=]{0,80}|would|should|must|will))?(?P<inline>[ ](?:is|be|equals|comes[ ]to)\b))"
)
_BOLD: Final = re.compile(r"\*\*([^*\n]{1,80})\*\*|__([^_\n]{1,80})__")
_LIST_MARK: Final = re.compile(r"\s*\d{1,3}[.):]\s*$")
_HASHES: Final = re.compile(r"(?m)^[ \t]{0,8}####[ \t]*(?=\S)")
_LETTERS: Final = re.compile(r"[^\W\d_]{2,}")
_HEDGES: Final = frozenset(
    ("about", "approximately", "approx", "around", "roughly", "exactly", "just", "only", "is", "be", "equals", "to",
     "usd", "eur", "gbp", "rs", "number", "total", "of", "the", "value", "now", "thus", "therefore", "so", "then")
)  # fmt: skip

_PUBLISHED_NUMBER: Final = r"-?\d[\d,]*+(?:\.\d++)?"
_PUBLISHED_BOXED: Final = re.compile(r"\\boxed\{\s*+\$?\s*+(" + _PUBLISHED_NUMBER + r")\s*+\}")
_PUBLISHED_ANSWER: Final = re.compile(r"(?i)answer\s*+[:=]?\s*+\$?\s*+(" + _PUBLISHED_NUMBER + r")")
_PUBLISHED_LAST: Final = re.compile(r"-?\$?\d[\d,]*+(?:\.\d++)?")
_PUBLISHED_TOLERANCE: Final = Fraction(1, 10_000)


def grade(text: str, gold: str, rule: Rule) -> bool:
    """Whether the text's final answer is the gold one.

    Args:
        text: the completed solution for `solution`, the continuation alone for `published`.
        gold: the right answer, a number or a time as text.
        rule: `solution` compares exactly; `published` allows a difference below 1e-4.

    Raises:
        RefeedError: kind "task" when the gold answer is not a number.
    """
    right = read_gold(gold)
    if rule == "published":
        found = _published(text)
        return found is not None and isinstance(right, Fraction) and abs(found - right) < _PUBLISHED_TOLERANCE
    said = _final(text)
    return said is not None and quantities.same(said, right)


def extract(text: str, rule: Rule) -> str | None:
    """The text's final answer in canonical spelling ("18", "3/4", "15:30"), or None when it has none."""
    found = _published(text) if rule == "published" else _final(text)
    return None if found is None else quantities.spell(found)


@lru_cache(maxsize=1024)
def read_gold(gold: str) -> Quantity:
    """The value of a gold answer.

    Raises:
        RefeedError: kind "task" when it is not one number or time, with at most a unit after it.
    """
    found = [
        value for match in quantities.find(quantities.plain(gold)) if (value := quantities.read(match)) is not None
    ]
    if len(found) != 1:
        message = f"the gold answer {gold[:80]!r} is not one number"
        raise RefeedError("task", message, "give each problem's answer as a number")
    return found[0]


def _final(text: str) -> Quantity | None:
    r"""The final answer of a completed solution.

    The last explicit statement wins: a line "answer: N", "the answer is N", a \boxed{}, a "#### N", or a number in
    bold. Without any, the last number of the text. A statement that cannot be read is passed over. The word
    "answer" before a number in passing ("to answer 5 questions") is no statement.
    """
    statements = sorted((*_labelled(text), *_boxed(text), *_bold(text), *_hashes(text)), reverse=True)
    for _, payload in statements:
        value = _payload_value(payload)
        if value is not None:
            return value
    return _last_number(text)


def _last(matches: Iterator[re.Match[str]]) -> list[re.Match[str]]:
    """The last _TRIES matches."""
    return list(matches)[-_TRIES:]


def _labelled(text: str) -> Iterator[tuple[int, str]]:
    """Position and payload of each "answer: ..." and "the answer is ..."; after a heading the next line's."""
    if "answer" not in text.casefold():  # far faster than the search, and many a continuation has none
        return
    for match in _last(_LABEL.finditer(text)):
        rest = text[match.end() : match.end() + _PAYLOAD]
        blank = not rest.partition("\n")[0].strip(" *_`:")
        line = rest.lstrip("*_`: \t\r\n") if match["heading"] is not None or blank else rest
        yield match.end(), line.partition("\n")[0]


def _boxed(text: str) -> Iterator[tuple[int, str]]:
    r"""Position and content of each \boxed{...}, with nested braces."""
    for match in _last(re.finditer(r"\\(?:boxed|fbox)\s?\{", text)):
        depth, start = 1, match.end()
        for at in range(start, min(len(text), start + _PAYLOAD)):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            if depth == 0:
                yield start, text[start:at]
                break


def _bold(text: str) -> Iterator[tuple[int, str]]:
    """Position and content of each bold stretch that is a number, perhaps with a few words of unit after it."""
    for match in _last(_BOLD.finditer(text)):
        content = match[1] or match[2]
        number = next(quantities.find(quantities.plain(content)), None)
        if number is None or _LIST_MARK.match(content):
            continue
        before = quantities.plain(content)[: number.start()]
        if not _LETTERS.search(before) or "=" in before:
            yield match.start(), content


def _hashes(text: str) -> Iterator[tuple[int, str]]:
    """Position and payload of each line "#### N"."""
    for match in _last(_HASHES.finditer(text)):
        payload = text[match.end() : match.end() + _PAYLOAD].partition("\n")[0]
        if not _LETTERS.match(payload):
            yield match.end(), payload


def _payload_value(payload: str) -> Quantity | None:
    """The number that a statement states: after its last "=" where it calculates, else the first if that opens it.

    In a sentence ("Final answer: the train arrives 4 hours later") it is the number in bold, else the last one.
    """
    for bold in _BOLD.finditer(payload):
        payload = payload.replace(bold[0], f" = {bold[1] or bold[2]}") if re.search(r"\d", bold[0]) else payload
    spelled = quantities.plain(payload).replace("\\boxed", " ")
    head, sign, tail = spelled.rpartition("=")
    if sign and any(True for _ in quantities.find(tail)):
        spelled = tail
    elif sign:
        spelled = head
    readable = [(match, value) for match in quantities.find(spelled) if (value := quantities.read(match)) is not None]
    if not readable:
        return None
    words = {word.lower() for word in _LETTERS.findall(spelled[: readable[0][0].start()])}
    return readable[0 if words <= _HEDGES else -1][1]


def _last_number(text: str) -> Quantity | None:
    """The last readable number of a text without any statement."""
    for match in reversed(_last(quantities.find(quantities.plain(text)))):
        value = quantities.read(match)
        if value is not None:
            return value
    return None


def _published(text: str) -> Fraction | None:
    """The published harness's answer: its last boxed number, else its last "answer N", else its last number.

    It takes any "answer" with only ":", "=", "$" and blanks before a number, in passing too, over a later bold number.
    Its numbers are digits with commas anywhere, a decimal part and an ASCII minus. So where they end a text, it reads
    3/4 as 4, .5 as 5, "1 000" as 0, 3.5 million as 3.5 and 3:30 as 30, and it drops a minus sign U+2212. It compared
    floats; the exact comparison here can differ from it only for numbers within rounding of the tolerance.
    """
    for pattern in (_PUBLISHED_BOXED, _PUBLISHED_ANSWER):
        found = [match[1] for match in pattern.finditer(text)][-1:]
        if found:
            return _published_number(found[0])
    found = [match[0] for match in _PUBLISHED_LAST.finditer(text)][-1:]
    return _published_number(found[0]) if found else None


def _published_number(digits: str) -> Fraction | None:
    """The value of a published number."""
    digits = digits.replace(",", "").replace("$", "")
    return Fraction(digits) if len(digits) <= quantities.MAX_DIGITS else None
