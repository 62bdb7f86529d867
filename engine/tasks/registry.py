"""From the `task` field of a spec to the task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from engine.tasks.arithmetic import Arithmetic
from engine.tasks.lines import RowsTask, open_gsm8k, read_jsonl
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from engine.tasks.task import Task

FORMS: Final = "arithmetic, gsm8k, gsm8k:PATH, jsonl:PATH or jsonl:PATH?question=FIELD&answer=FIELD"


def open_task(spec: str) -> Task:
    """The task that a spec names.

    Args:
        spec: `arithmetic`, `gsm8k`, `gsm8k:PATH`, or `jsonl:PATH`, the last with the names of its fields after a
            question mark where they are not question and answer.

    Raises:
        RefeedError: kind "spec" when it is none of these, kind "task" when the data is missing or bad.
    """
    kind, colon, rest = spec.partition(":")
    if spec == "arithmetic":
        return Arithmetic()
    if kind == "gsm8k" and bool(rest) == bool(colon):
        return open_gsm8k(Path(rest).expanduser() if rest else None)
    if kind == "jsonl" and rest:
        path, fields = _fields(rest)
        return RowsTask(f"jsonl:{path.name}", read_jsonl(path, **fields))
    message = f"task {spec!r} is unknown"
    raise RefeedError("spec", message, f"give {FORMS}")


def from_anywhere(spec: str) -> str:
    """The same task with its file named from the root: a worker does not run where the campaign was launched."""
    kind, _colon, rest = spec.partition(":")
    return f"{kind}:{Path(rest).expanduser().absolute()}" if rest and kind in {"gsm8k", "jsonl"} else spec


def _fields(rest: str) -> tuple[Path, dict[str, str]]:
    """The path and the field names of `PATH?question=FIELD&answer=FIELD`; a file whose name has a "?" stays whole."""
    path, mark, query = rest.rpartition("?")
    if not mark or Path(rest).expanduser().exists():
        return Path(rest).expanduser(), {}
    fields = dict(parse_qsl(query, keep_blank_values=True))
    if not fields or not fields.keys() <= {"question", "answer"} or not all(fields.values()):
        message = f"task field names {query!r} are not question=FIELD or answer=FIELD"
        raise RefeedError("spec", message, f"give {FORMS}")
    return Path(path).expanduser(), fields
