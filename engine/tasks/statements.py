"""Where a solution states its final answer: labels, boxes, "####", <answer>, then bold, then the last number."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.tasks import quantities
from engine.tasks.values import leading, number_words, spelled, whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.tasks.quantities import Quantity

_TRIES: Final = 200
"""How many statements of one kind are tried from the end; a text with more holds no answer that a reader would find."""
_PAYLOAD: Final = 300

_LABEL: Final = re.compile(
    r"(?im)(?:^[ \t#>*_\-`\[(]{0,20}(?:(?:so|thus|hence|therefore),?[ ]|my[ ]|the[ ])?(?:final[ ])?answer\b"
    r"(?P<start>[ \t*_`)\]]{0,8}(?:[:=\uff1a]|is\b|(?=[ \t]+[-$]?\d[\d,.]*[ \t*]*$)|(?P<heading>[ \t*_`]*$)))"
    r"|\banswer\b(?:[ ](?:to[^.\n:=]{0,80}|would|should|must|will)|,[ ](?:then|therefore|thus|so),)?"
    r"(?P<inline>[ ](?:is|be|equals|comes[ ]to)\b)"
    r"|(?:答案|答え|정답)(?P<script>(?:是|为|為|は|은)?[ ]?[:\uff1a]?))"
)
_LABEL_WORDS: Final = ("answer", "答案", "答え", "정답")
_BOLD: Final = re.compile(r"\*\*([^*\n]{1,80})\*\*|__([^_\n]{1,80})__")
_SENTENCE_END: Final = re.compile(r"[.!?。](?=\s|$)|\n")
_LIST_MARK: Final = re.compile(r"\s*\d{1,3}[.):]\s*$")
_HASHES: Final = re.compile(r"(?<!#)####(?!#)[ \t]*(?=\S)(?!\d{1,3}[.):][ \t]+\S)")
_TAGS: Final = re.compile(r"(?i)<answer>")
_RUN_ON: Final = re.compile(
    r"(?im)^[ \t#*]{0,8}(?:(?:next[ ]|new[ ])?(?:question|problem)[ ]?\d{0,4}|q|user|human|instruction|问题)"
    r"[ \t*]{0,4}[:\uff1a]"
    r"|<\|im_start\|>user|<\|user\|>"
)
_LETTERS: Final = re.compile(r"[^\W\d_]{2,}")
_HEDGE: Final = re.compile(
    r"(?i)[\s*_`:]*(?:(?:about|approximately|approx\.?|around|roughly|exactly|just|only|is|be|equals|to|number|total|of|the"
    r"|value|now|thus|therefore|so|then)\b[\s,:*_`]*)*"
)
_MATH: Final = re.compile(r"[-+]?\s?(?:[$€£¥₹\d.\\({\[√]|(?:Rs|USD|EUR|GBP|INR)\b)")
_ADJUNCT: Final = re.compile(
    r"(?i)\b(?:in|after|for|over|during|within|from|at|per|every|each|with|by|on|to|than|all|these|those)\s+[$€£]?$"
)
_CLAUSE: Final = re.compile(
    r"(?i)\s*(?:in|after|for|over|during|within|of|from|at|with|since|if|when|on)\b[^.\n]{0,100}?,\s"
)
_EXPRESSION_BEFORE: Final = re.compile(r"(?:[\^_]\s?\{?|\\(?:sqrt|log|ln|sqrt\[\d\]|[dt]?frac)\s?\{?|√|[^\W\d_xX]_?)$")
_UNIT_POWER: Final = re.compile(
    r"(?<![A-Za-z])(?:[cdkm]?m|ft|in|yd|mi|s|inch(?:es)?|feet|yards?|miles?|meters?|metres?|units?)\s?\^\s?\{?$"
)
_CURRENCY_BEFORE: Final = re.compile(r"\b(?:Rs|USD|EUR|GBP|INR|US|CA|AU)\.?$")
_EXPRESSION_AFTER: Final = re.compile(
    r"\s?(?:\^|\\(?:pi|sqrt|frac|theta)|[√π])|_\{?\d|[xyznXYZ](?![\w'])|!(?=[\s)]*[-+*/=])"
)


class Statement(NamedTuple):
    """One place in a text that says what the answer is.

    Attributes:
        at: its position, characters.
        payload: what it says, at most one line.
        boxed: whether it is mathematics alone: what a letter or a mark after a number means is then no unit.
    """

    at: int
    payload: str
    boxed: bool = False


def cut(text: str) -> str:
    """The text up to where it runs on into a question of its own, once it has stated an answer."""
    for match in _RUN_ON.finditer(text):
        if any(True for _ in explicit(text[: match.start()])):
            return text[: match.start()]
        return text if _RUN_ON.search(text, match.end()) is None else _cut_after(text, match.end())
    return text


def _cut_after(text: str, start: int) -> str:
    """The text up to its first question after `start` that an answer precedes."""
    first = min((statement.at for statement in explicit(text)), default=len(text))
    match = _RUN_ON.search(text, max(start, first))
    return text if match is None else text[: match.start()]


def explicit(text: str) -> list[Statement]:
    r"""Every "answer: N", "the answer is N", \boxed{}, "#### N" and <answer>, in the order of the text."""
    return sorted((*_labelled(text), *boxed(text), *_marked(text)))


def bold(text: str) -> list[Statement]:
    """Every number in bold after whose sentence no number comes, in the order of the text."""
    matches = _last(_BOLD.finditer(text))
    digits = _last(re.finditer(r"\d++", text))
    found = []
    for match in matches:
        content = match[1] or match[2]
        number = next(quantities.find(quantities.plain(content)), None)
        if number is None or _LIST_MARK.match(content):
            continue
        before = quantities.plain(content)[: number.start()]
        end = _SENTENCE_END.search(text, match.end() - 2)
        if (not _LETTERS.search(before) or "=" in before) and (end is None or end.start() > digits[-1].start()):
            found.append(Statement(match.start(), content))
    return found


def value_of(statement: Statement) -> Quantity | None:
    """The number that a statement states, or None where it states none or one that cannot be read whole.

    Of a calculation it is the last side of an "=" that is a number as written; of a sentence the number in bold, else
    the first that no preposition leads ("it takes 4 hours to drive 240 miles").
    """
    payload = statement.payload
    if statement.boxed and not re.search(r"=|[A-Za-z]{4}", re.sub(r"\\(?!text)[A-Za-z]+", "", payload)):
        return _of_box(payload)
    for match in _BOLD.finditer(payload):
        if re.search(r"\d", match[0]):
            payload = payload.replace(match[0], f" = {match[1] or match[2]}")
    sides = [side for side in re.split(r"(?<![<>!\\])=", spelled(payload)) if side.strip(" *_`$")]
    if len(sides) > 1:
        return _of_sides(sides)
    return _of_side(sides[0]) if sides else None


def last_number(text: str) -> Quantity | None:
    """The last number of a text without any statement; None where that is part of an expression."""
    spelled_text = quantities.plain(text)
    for match in reversed(_last(quantities.find(spelled_text))):
        if _is_unit_power(spelled_text, match):
            continue
        return None if _in_expression(spelled_text, match) else quantities.read(match)
    return None


def _of_box(payload: str) -> Quantity | None:
    """The value of a box without words: one number, perhaps with a decimal comma or a magnitude."""
    value = whole(payload)
    found = leading(payload, strict=False) if value is None else None
    return found.value if found is not None and not found.rest.strip(" .") else value


def _of_sides(sides: list[str]) -> Quantity | None:
    """The value of an equation, or None for several equations in one."""
    if any(re.search(r"[,;]\s*\\?[A-Za-z]\w?\s*$", side) for side in sides[1:-1]):
        return None
    read = [(side, leading(_HEDGE.sub("", side, count=1), strict=False)) for side in sides]
    found = [entry for _, entry in read if entry is not None]
    literal = [entry for entry in found if entry.literal]
    if literal or found:
        return (literal or found)[-1].value
    return _of_side(sides[-1])


def _of_side(text: str) -> Quantity | None:
    """The value of a text without "="."""
    clause = _CLAUSE.match(text)
    if clause is not None and re.search(r"\d", text[clause.end() :]):
        text = text[clause.end() :]
    text = text[match.end() :] if (match := _HEDGE.match(text)) else text
    found = leading(text, strict=False)
    if found is not None:
        return found.value
    return None if _MATH.match(text) else _of_sentence(text)


def _of_sentence(text: str) -> Quantity | None:
    """The number that a sentence is about."""
    if not re.search(r"\d", text):
        return number_words(text)
    text = quantities.plain(text)
    found = [match for match in quantities.find(text) if not _is_unit_power(text, match)]
    if not found or re.search(r"\\[A-Za-z]", text) or any(_in_expression(text, match) for match in found):
        return None
    free = [match for match in found if not _ADJUNCT.search(text[max(0, match.start() - 20) : match.start()])]
    return quantities.read(free[0] if free else found[-1])


def _is_unit_power(text: str, match: re.Match[str]) -> bool:
    """Whether a number is the exponent of a unit, as in cm^2."""
    return _UNIT_POWER.search(text[max(0, match.start() - 12) : match.start()]) is not None and match[0] in {"2", "3"}


def _in_expression(text: str, match: re.Match[str]) -> bool:
    """Whether a number is an operand of more than itself: an exponent, under a root, before a variable."""
    before = text[max(0, match.start() - 12) : match.start()]
    led = _EXPRESSION_BEFORE.search(before) is not None and not _CURRENCY_BEFORE.search(before)
    return (led and before[-1:].isascii()) or _EXPRESSION_AFTER.match(text, match.end()) is not None


def _last(matches: Iterable[re.Match[str]]) -> list[re.Match[str]]:
    """The last _TRIES matches."""
    return list(matches)[-_TRIES:]


def _labelled(text: str) -> Iterator[Statement]:
    """Each "answer: ..." and "the answer is ..."; after a heading the next line's."""
    lower = text.casefold()
    if not any(word in lower for word in _LABEL_WORDS):  # far faster than the search, and many a text has none
        return
    for match in _last(_LABEL.finditer(text)):
        rest = text[match.end() : match.end() + _PAYLOAD]
        blank = not rest.partition("\n")[0].strip(" *_`:")
        line = rest.lstrip("*_`: \t\r\n") if match["heading"] is not None or blank else rest
        yield Statement(match.end(), re.split(r"[\n。]|####|</?answer>|<\|", line, maxsplit=1)[0])


def boxed(text: str) -> Iterator[Statement]:
    r"""The content of each \boxed{...}, with nested braces."""
    for match in _last(re.finditer(r"\\(?:boxed|fbox)\s?\{", text)):
        depth, start = 1, match.end()
        for at in range(start, min(len(text), start + _PAYLOAD)):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            if depth == 0:
                yield Statement(start, text[start:at], boxed=True)
                break


def _marked(text: str) -> Iterator[Statement]:
    """What follows each "####" that is no heading, and what each <answer> holds."""
    for match in _last(_HASHES.finditer(text)):
        payload = text[match.end() : match.end() + _PAYLOAD].partition("\n")[0]
        if not _LETTERS.match(payload):
            yield Statement(match.end(), payload)
    for match in _last(_TAGS.finditer(text)):
        yield Statement(match.end(), text[match.end() : match.end() + _PAYLOAD].partition("</")[0].strip())
