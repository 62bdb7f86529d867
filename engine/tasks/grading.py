"""Is a solution right? Finds its final answer and compares it with the gold one as exact numbers.

Two rules. `solution` reads the whole completed solution. `published` is the rule of the published harness, kept so that
its numbers can be reproduced: it is meant for the continuation alone and knows only digits, commas and a decimal point.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

from engine.tasks import quantities, statements, symbolic
from engine.tasks.values import whole
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from engine.tasks.quantities import Quantity
    from sessions.spec import Grader

Rule = Literal["solution", "published"]

_AROUND: Final = " \t\r\n*_`$"

_PUBLISHED_NUMBER: Final = r"-?\d[\d,]*+(?:\.\d++)?"
_PUBLISHED_BOXED: Final = re.compile(r"\\boxed\{\s*+\$?\s*+(" + _PUBLISHED_NUMBER + r")\s*+\}")
_PUBLISHED_ANSWER: Final = re.compile(r"(?i)answer\s*+[:=]?\s*+\$?\s*+(" + _PUBLISHED_NUMBER + r")")
_PUBLISHED_LAST: Final = re.compile(r"-?\$?\d[\d,]*+(?:\.\d++)?")
_PUBLISHED_TOLERANCE: Final = Fraction(1, 10_000)


def grade(text: str, gold: str, rule: Rule, grader: Grader = "number") -> bool:
    """Whether the text's final answer is the gold one.

    Args:
        text: the completed solution for `solution`, the continuation alone for `published`.
        gold: the right answer, as `check_gold` accepts it.
        rule: `solution` compares exactly; `published` allows a difference below 1e-4, and knows numbers alone.
        grader: `number` compares exact numbers and times, `math` what math-verify can parse, `exact` strings.

    Raises:
        RefeedError: kind "task" when the grader cannot read the gold answer; kind "spec" for `published` with another
            grader than `number`.
    """
    if rule == "published":
        _require_number(grader)
        found, right = _published(text), read_gold(gold)
        return found is not None and isinstance(right, Fraction) and abs(found - right) < _PUBLISHED_TOLERANCE
    if grader == "exact":
        return stated(text) == bare(gold)
    if grader == "math":
        return symbolic.equal(statements.cut(text), gold)
    said = _final(text)
    return said is not None and quantities.same(said, read_gold(gold))


def check_gold(gold: str, grader: Grader) -> None:
    """Refuse a gold answer that a grader cannot read whole.

    Raises:
        RefeedError: kind "task" when it cannot; kind "task" for `math` where math-verify is not installed.
    """
    if grader == "number":
        read_gold(gold)
    elif grader == "math":
        symbolic.read_gold(gold)


def extract(text: str, rule: Rule) -> str | None:
    """The text's final answer in canonical spelling ("18", "3/4", "15:30"), or None when it has none."""
    found = _published(text) if rule == "published" else _final(text)
    return None if found is None else quantities.spell(found)


@lru_cache(maxsize=1024)
def read_gold(gold: str) -> Quantity:
    """The value of a gold answer.

    Raises:
        RefeedError: kind "task" when it is not one number or time, with at most a currency, a unit or an `x =`.
    """
    value = whole(gold)
    if value is None:
        message = f"the gold answer {quantities.quoted(gold)} is not one number"
        raise RefeedError("task", message, "give each problem's answer as a number, or choose another grader")
    return value


def stated(text: str) -> str:
    """What the last explicit statement of a text says, else its last line, without markup: for comparing strings."""
    text = statements.cut(text)
    found = statements.explicit(text)
    return bare(found[-1].payload if found else text.rstrip().rpartition("\n")[2])


def bare(text: str) -> str:
    r"""A text without the Markdown, dollar signs, \\boxed, blanks and full stop around it, and with single blanks."""
    boxed = re.fullmatch(r"\s*\\boxed\s?\{(.*)\}[\s.]*", text.strip(_AROUND), re.DOTALL)
    return " ".join((boxed[1] if boxed else text).strip(_AROUND).removesuffix(".").strip(_AROUND).split())


def _require_number(grader: Grader) -> None:
    """The published rule reads numbers alone."""
    if grader != "number":
        raise RefeedError("spec", f"grader = {grader} with grading = published", "use grader = number with it")


def _final(text: str) -> Quantity | None:
    r"""The final answer of a completed solution.

    The last explicit statement that can be read wins: "answer: N", "the answer is N", \boxed{}, "#### N", <answer>.
    Without any, a number in bold that no number follows; then the last number. Where a statement has mathematics that
    cannot be read whole, there is no answer rather than a part of it.
    """
    text = statements.cut(text)
    said = statements.explicit(text)
    for statement in (*reversed(said), *reversed(statements.bold(text) if not said else ())):
        value = statements.value_of(statement)
        if value is not None:
            return value
    if any(re.search(r"[\d\\]", statement.payload) for statement in said):
        return None
    return statements.last_number(text)


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
