"""Grading by math-verify: expressions, intervals, sets, tuples and matrices, compared through SymPy.

math-verify ends work that takes too long by SIGALRM, which reaches Python code in the main thread alone. So what could
occupy SymPy's integers for hours (towers of powers, long exponents, large factorials) is refused before it is parsed.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import threading
from functools import lru_cache
from typing import Any, Final

from engine.tasks import quantities, statements
from sessions.errors import RefeedError

LONGEST: Final = 300
"""Characters of an answer; a longer one is not parsed."""
_SECONDS: Final = 5
_TAIL: Final = 1_000
_TRIES: Final = 3
_UNBOUNDED: Final = re.compile(
    r"\^\s*\{?[^{}]{0,20}\^|\*\*.{0,20}(?:\*\*|\^)|(?:\^|\*\*)[\s{(+-]*\d{4}|\d{4}[\s)}]*!|!\s*!|\d{60}"
)


def installed() -> bool:
    """Whether math-verify can be imported here."""
    return importlib.util.find_spec("math_verify") is not None


def read_gold(gold: str) -> None:
    """Refuse a gold answer that math-verify cannot parse, or does not find equal to itself.

    Raises:
        RefeedError: kind "task", also where math-verify is not installed.
    """
    parsed = _parsed(gold)
    if not parsed or not _verify(parsed, parsed):
        message = f"math-verify cannot read the gold answer {quantities.quoted(gold)}"
        raise RefeedError("task", message, "correct it, or use grader = exact")


def equal(text: str, gold: str) -> bool:
    """Whether the answer that a text states last equals the gold one.

    The statements are those of the number grader; a text without any is left to math-verify's own search.
    """
    right = _parsed(gold)
    said = statements.explicit(text)
    for statement in said[-_TRIES:][::-1]:
        found = _parsed(statement.payload)
        if found:
            return _verify(right, found)
    return not said and _verify(right, _parse(text[-_TAIL:]))


@lru_cache(maxsize=1024)
def _parsed(answer: str) -> tuple[Any, ...]:
    """The parsed form of one answer; empty where it has none."""
    answer = answer.strip(" \t\r\n*`.")
    inner = re.fullmatch(r"\$+([^$]*)\$+|\\\((.*)\\\)|\\boxed\{(.*)\}", answer)
    bare = answer if inner is None else next(group for group in inner.groups() if group is not None)
    if not bare.strip() or len(bare) > LONGEST:
        return ()
    return _parse(bare if "$" in bare.replace(r"\$", "") or r"\boxed" in bare else rf"\boxed{{{bare}}}")


def _parse(text: str) -> tuple[Any, ...]:
    """What math-verify finds in a text."""
    if _UNBOUNDED.search(text):
        return ()
    return tuple(_library().parse(text, fallback_mode="no_fallback", parsing_timeout=_limit()))


def _verify(gold: tuple[Any, ...], found: tuple[Any, ...]) -> bool:
    """Whether two parsed answers are equal."""
    return bool(gold and found) and bool(_library().verify(list(gold), list(found), timeout_seconds=_limit()))


def _limit() -> int | None:
    """Seconds for one step, where this thread can be interrupted."""
    return _SECONDS if threading.current_thread() is threading.main_thread() else None


def _library() -> Any:
    """math-verify.

    Raises:
        RefeedError: kind "task" where it is not installed.
    """
    try:
        return importlib.import_module("math_verify")
    except ImportError as error:
        message = "grader = math needs math-verify, which is not installed"
        raise RefeedError("task", message, "install it, from the checkout, with: pip install '.[math]'") from error
