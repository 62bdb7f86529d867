"""From the `task` field of a spec to the task."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from engine.tasks.arithmetic import Arithmetic
from engine.tasks.files import read_rows
from engine.tasks.grading import check_gold
from engine.tasks.hub import HubSet, read_hub
from engine.tasks.rows import Fields, RowsTask, problems_of
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.tasks.task import Task
    from sessions.spec import Grader

    Tell = Callable[[str], None]

FORMS: Final = (
    "arithmetic, gsm8k, gsm8k:PATH, math:PATH, jsonl:PATH, hub:NAME?split=SPLIT, or the name of a task plug-in "
    "(docs/tasks.md); after PATH or NAME ?question=FIELD&answer=FIELD where the fields have other names"
)
PLUG_INS: Final = "refeed_tui.tasks"
PATHS: Final = frozenset({"gsm8k", "jsonl", "math"})
GSM8K: Final = HubSet("gsm8k", "openai/gsm8k", "main", "test", "give a file: gsm8k:PATH")
MATH_INSTRUCTION: Final = r"Solve it step by step. Put the final answer in \boxed{}."
MATH_FIELDS: Final = Fields(("problem", "question"), ("answer",), ("solution",), ("level",), ("subject", "type"))
_CHECKED: Final = 1_000
"""Gold answers of a plug-in's task that are looked at when it is opened; the others are when they are graded."""


def open_task(spec: str, grader: Grader = "number", tell: Tell | None = None) -> Task:
    """The task that a spec names.

    Args:
        spec: one of FORMS.
        grader: that must be able to read the gold answers.
        tell: told in one sentence of questions that come more than once.

    Raises:
        RefeedError: kind "spec" when it is none of these, kind "task" when the data is missing or bad.
    """
    kind, colon, rest = spec.partition(":")
    if spec == "arithmetic":
        return Arithmetic()
    if spec == "gsm8k":
        return _told(RowsTask(spec, problems_of(GSM8K.name, read_hub(GSM8K), Fields(), grader)), tell)
    if kind in PATHS and rest:
        return _told(_from_file(kind, rest, grader), tell)
    if kind == "hub" and rest:
        return _told(_from_hub(spec, rest, grader), tell)
    found = None if kind in {"arithmetic", "hub", *PATHS} else _plug_in(kind)
    if found is None or bool(rest) != bool(colon):
        raise RefeedError("spec", f"task {spec!r} is unknown", f"give {FORMS}")
    return _from_plug_in(found, rest, grader)


def from_anywhere(spec: str) -> str:
    """The same task with its file named from the root: a worker does not run where the campaign was launched."""
    kind, _colon, rest = spec.partition(":")
    return f"{kind}:{Path(rest).expanduser().absolute()}" if rest and kind in PATHS else spec


def _told(task: RowsTask, tell: Tell | None) -> RowsTask:
    """The task, after telling of its duplicates."""
    if tell is not None and (said := task.duplicates()):
        tell(said)
    return task


def _from_file(kind: str, rest: str, grader: Grader) -> RowsTask:
    """The task of a file: MATH's fields and instruction, or a question and an answer."""
    path, named = _asked(rest, is_file=True)
    fields = _named(MATH_FIELDS if kind == "math" else Fields(), named, {"question", "answer"})
    problems = problems_of(str(path), read_rows(path), fields, grader)
    name = kind if kind == "gsm8k" else f"{kind}:{path.name}"
    return RowsTask(name, problems, MATH_INSTRUCTION) if kind == "math" else RowsTask(name, problems)


def _from_hub(spec: str, rest: str, grader: Grader) -> RowsTask:
    """The task of a data set of the hub."""
    name, named = _asked(rest, is_file=False)
    fields = _named(Fields(), named, {"question", "answer", "config", "split"})
    if "split" not in named:
        raise RefeedError("spec", f"task {spec!r} names no split", f"give hub:{name}?split=test, or another split")
    source = HubSet(spec, str(name), named.get("config"), named["split"], "give a file: jsonl:PATH")
    return RowsTask(spec, problems_of(source.name, read_hub(source), fields, grader))


def _asked(rest: str, *, is_file: bool) -> tuple[Path, dict[str, str]]:
    """The path or name and what follows its question mark; a file whose name has a "?" stays whole."""
    path, mark, query = rest.rpartition("?")
    if not mark or (is_file and Path(rest).expanduser().exists()):
        return Path(rest).expanduser(), {}
    named = dict(parse_qsl(query, keep_blank_values=True))
    if not named or not all(named.values()):
        raise RefeedError("spec", f"task field names {query!r} are not NAME=FIELD", f"give {FORMS}")
    return Path(path).expanduser(), named


def _named(fields: Fields, named: dict[str, str], known: set[str]) -> Fields:
    """The fields with those that a spec names in place of the usual ones."""
    if not named.keys() <= known:
        strange = ", ".join(sorted(named.keys() - known))
        raise RefeedError("spec", f"task field names {strange!r} are not {' or '.join(sorted(known))}", f"give {FORMS}")
    question = (named["question"],) if "question" in named else fields.question
    if "answer" not in named:
        return Fields(question, fields.answer, fields.solution, fields.level, fields.subject)
    return Fields(question, (named["answer"],), (), fields.level, fields.subject)


def _plug_in(name: str) -> EntryPoint | None:
    """The installed plug-in of that name."""
    return next(iter(entry_points(group=PLUG_INS, name=name)), None)


def _from_plug_in(found: EntryPoint, argument: str, grader: Grader) -> Task:
    """The task that a plug-in opens, its first gold answers checked; whatever it raises is told in one line."""
    try:
        task: Any = found.load()(argument)
        problems = [task.problem(index) for index in range(min(len(task), _CHECKED))]
        named = [str(part) for part in (task.name, task.digest, task.instruction)]
    except RefeedError:
        raise
    except Exception as error:
        message = f"task plug-in {found.name} ({found.value}) failed: {type(error).__name__}: {str(error)[:160]}"
        raise RefeedError("task", message, "see docs/tasks.md for what a plug-in returns") from error
    if not problems or not all(named[:2]):
        raise RefeedError("task", f"task plug-in {found.name} gives no problem, name or digest", "see docs/tasks.md")
    for problem in problems:
        check_gold(problem.gold, grader)
    return task  # type: ignore[no-any-return]  # its parts were used above
