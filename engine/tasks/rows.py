"""Tasks that come as rows: which field is the question, which the gold answer, and whether both can be used."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from engine.tasks import symbolic
from engine.tasks.grading import check_gold
from engine.tasks.statements import boxed
from engine.tasks.task import INSTRUCTION, Problem, check_index
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.tasks.files import Row
    from sessions.spec import Grader

GOLD_MARK: Final = "####"
_SHOWN: Final = 5
_FIELDS_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class Fields:
    """Which fields of a row are meant; of several names the first that a row has.

    Attributes:
        question: text, or a list of one user's message; a name with dots reaches into nested objects.
        answer: number, or text: after "####" where that stands in it.
        solution: text whose last box holds the answer, where a row has no field `answer`.
        level: kept with the problem.
        subject: kept with the problem.
    """

    question: tuple[str, ...] = ("question",)
    answer: tuple[str, ...] = ("answer",)
    solution: tuple[str, ...] = ()
    level: tuple[str, ...] = ()
    subject: tuple[str, ...] = ()


class RowsTask:
    """Problems in memory, in the order of their rows."""

    def __init__(self, name: str, problems: Iterable[Problem], instruction: str = INSTRUCTION) -> None:
        """Keep the problems and hash them.

        The digest covers questions and gold answers alone: the same problems from a file or from a hub are one task.
        """
        self.name: Final = name
        self.instruction: Final = instruction
        self._problems = tuple(problems)
        hashed = hashlib.sha256()
        for problem in self._problems:
            hashed.update(json.dumps([problem.question, problem.gold]).encode() + b"\n")
        self.digest: Final = hashed.hexdigest()

    def __len__(self) -> int:
        """How many problems there are."""
        return len(self._problems)

    def problem(self, index: int) -> Problem:
        """Problem `index`.

        Raises:
            RefeedError: kind "task" when there is none.
        """
        check_index(self.name, index, len(self._problems))
        return self._problems[index]

    def duplicates(self) -> str:
        """One sentence on questions that come more than once, empty where none does: they are no separate evidence."""
        first: dict[str, int] = {}
        repeats = [(p.index, at) for p in self._problems if (at := first.setdefault(p.question, p.index)) != p.index]
        if not repeats:
            return ""
        index, earlier = repeats[0]
        return (
            f"{self.name} has {len(repeats)} of {len(self)} questions more than once (problem {index} is problem "
            f"{earlier} again): they are counted as separate problems, which they are not"
        )


def problems_of(source: str, rows: Iterable[Row], fields: Fields, grader: Grader) -> list[Problem]:
    """The problems of all rows.

    Args:
        source: the file or data set, for errors.
        rows: as `engine.tasks.files.read_rows` yields them.
        fields: which of their fields are meant.
        grader: that must be able to read every gold answer.

    Raises:
        RefeedError: kind "task", saying how many rows cannot be used, the first five with their reasons, and which
            grader reads the gold answers that this one cannot.
    """
    problems: list[Problem] = []
    bad: list[str] = []
    golds: list[str] = []
    for where, row in rows:
        try:
            problem = _problem(len(problems), row, fields)
            check_gold(problem.gold, grader)
        except _BadRowError as error:
            bad.append(f"{where}: {error}")
        except RefeedError as error:
            bad.append(f"{where}: {error.message}")
            golds.append(problem.gold)
        else:
            problems.append(problem)
    if bad:
        raise _refusal(source, bad, golds, len(problems) + len(bad))
    if not problems:
        raise RefeedError("task", f"{source} holds no problem", "give a file with one JSON object a line")
    return problems


def _refusal(source: str, bad: Sequence[str], golds: Sequence[str], rows: int) -> RefeedError:
    """The error for all bad rows of a source."""
    if len(bad) == 1:
        return RefeedError("task", f"{source}, {bad[0]}", _way_out(golds))
    shown = "; ".join(bad[:_SHOWN]) + ("; ..." if len(bad) > _SHOWN else "")
    return RefeedError("task", f"{source}: {len(bad)} of {rows} rows cannot be used: {shown}", _way_out(golds))


def _way_out(golds: Sequence[str]) -> str:
    """What to do about gold answers that the grader cannot read."""
    if not golds:
        return "correct or remove them"
    if not symbolic.installed():
        return "correct or remove them, or try grader = math (pip install '.[math]'), or grader = exact for strings"
    try:
        for gold in golds[:_SHOWN]:
            symbolic.read_gold(gold)
    except RefeedError:
        return "correct or remove them, or use grader = exact, which compares strings"
    return f"correct or remove them, or use grader = math, which reads {'it' if len(golds) == 1 else 'the first ones'}"


class _BadRowError(Exception):
    """A row that is no problem, and why."""


def _problem(index: int, row: dict[str, Any] | str, fields: Fields) -> Problem:
    """The problem of a row."""
    if isinstance(row, str):
        raise _BadRowError(row)
    question = _text(row, fields.question, chat=True)
    level, subject = (_optional(row, names) for names in (fields.level, fields.subject))
    return Problem(index, question, _gold(row, fields), level, subject)


def _gold(row: dict[str, Any], fields: Fields) -> str:
    """The gold answer: a field, after "####" where that stands in it, else the last box of a solution."""
    if fields.solution and _optional(row, fields.answer) is None:
        return _last_box(_text(row, fields.solution), fields.solution[0])
    return _text(row, fields.answer).rpartition(GOLD_MARK)[2].strip()


def _last_box(solution: str, name: str) -> str:
    """What the last box of a solution holds; a last box that is not closed in time is no reason to take another."""
    found = [*boxed(solution)]
    if not found or solution.rfind("\\boxed") > found[-1].at:
        raise _BadRowError(f'the field "{name}" ends in no \\boxed{{}} answer that can be read')
    return found[-1].payload.strip()


def _optional(row: dict[str, Any], names: Sequence[str]) -> str | None:
    """A text field that may be missing."""
    found = next((value for name in names if (value := _value(row, name)) is not None), None)
    return found if isinstance(found, str) and found.strip() else None


def _text(row: dict[str, Any], names: Sequence[str], *, chat: bool = False) -> str:
    """A field that must be there and not be empty; with `chat`, it may be a list of messages with one user's."""
    name = next((name for name in names if _value(row, name) is not None), names[0])
    value = _value(row, name)
    if value is None and name not in row:
        has = sorted(row)
        raise _BadRowError(f'no field "{name}" (it has {", ".join(has[:_FIELDS_SHOWN]) or "none"})')
    if chat and isinstance(value, list):
        value = _user_turn(value, name)
    if not isinstance(value, str) or not value.strip():
        raise _BadRowError(f'the field "{name}" is not a text or is empty')
    return value


def _user_turn(messages: Sequence[Any], name: str) -> Any:
    """The content of a chat's only message, the user's.

    A system message would have to reach the model as one, and earlier turns as turns: neither is dropped in silence.
    """
    roles = [message.get("role") if isinstance(message, dict) else None for message in messages]
    if roles != ["user"]:
        has = ", ".join(map(str, roles[:_SHOWN])) or "none"
        raise _BadRowError(
            f'the chat in the field "{name}" has the roles {has}, not one user; give a system message as system_prompt'
        )
    return messages[0].get("content")


def _value(row: dict[str, Any], name: str) -> Any:
    """A field by its name, which may have dots itself, or by its path through nested objects."""
    if name in row:
        return row[name]
    value: Any = row
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
