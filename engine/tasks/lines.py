"""Tasks that come as rows of a question and an answer: JSON-lines files, and GSM8K."""

from __future__ import annotations

import hashlib
import importlib
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from engine.network import network_errors, reason
from engine.tasks.grading import read_gold
from engine.tasks.task import INSTRUCTION, Problem, check_index
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

GOLD_MARK: Final = "####"
HUB_NAME: Final = "openai/gsm8k"


class RowsTask:
    """Problems in memory, in the order of their rows."""

    def __init__(self, name: str, rows: Iterable[tuple[str, str]]) -> None:
        """Number the (question, gold) rows and hash them.

        The digest covers questions and gold answers alone: the same problems from a file or from a hub are one task.
        """
        self.name: Final = name
        self.instruction: Final = INSTRUCTION
        self._problems = tuple(Problem(index, question, gold) for index, (question, gold) in enumerate(rows))
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


def read_jsonl(path: Path, question: str = "question", answer: str = "answer") -> Iterator[tuple[str, str]]:
    """The (question, gold) rows of a file with one JSON object a line; blank lines are skipped.

    Args:
        path: the file, UTF-8.
        question: the field with the question.
        answer: the field with the answer, a number or a text that is one; after "####" where that stands in it.

    Raises:
        RefeedError: kind "task", naming the file, the line and the reason.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        message = f"cannot read {path}: {error.strerror or error}"
        raise RefeedError("task", message, "give the path of a file with one JSON object a line") from error
    seen = False
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.strip():
            seen = True
            yield _row(line, f"{path}, line {number}", question, answer)
    if not seen:
        message = f"{path} holds no problem"
        raise RefeedError("task", message, "give a file with one JSON object a line")


def _row(line: bytes, where: str, question: str, answer: str) -> tuple[str, str]:
    """One line's question and gold answer; numbers keep their digits as written."""
    try:
        row = json.loads(line, parse_int=str, parse_float=str, parse_constant=str)
    except UnicodeDecodeError as error:
        raise _bad(where, f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise _bad(where, f"not JSON ({error.msg} at column {error.colno})") from error
    except RecursionError as error:
        raise _bad(where, "nested too deeply") from error
    if not isinstance(row, dict):
        raise _bad(where, "not a JSON object")
    return _text(row, question, where), _gold(_text(row, answer, where), where)


def _text(row: dict[str, object], field: str, where: str) -> str:
    """A field that must be there and not be empty."""
    if field not in row:
        raise _bad(where, f'no field "{field}" (it has {", ".join(sorted(row)) or "none"})')
    value = row[field]
    if not isinstance(value, str) or not value.strip():
        raise _bad(where, f'the field "{field}" is not a text or is empty')
    return value


def _gold(answer: str, where: str) -> str:
    """The gold answer: what follows "####", else all of it; it must be one number."""
    gold = answer.rpartition(GOLD_MARK)[2].strip()
    try:
        read_gold(gold)
    except RefeedError as error:
        raise _bad(where, error.message) from error
    return gold


def _bad(where: str, reason: str) -> RefeedError:
    """The error for one line."""
    return RefeedError("task", f"{where}: {reason}", "correct or remove the line")


def _silence() -> str:
    """Why the hub does not answer within HF_HUB_ETAG_TIMEOUT (10 seconds); empty when it does, if with an error."""
    hub = importlib.import_module("huggingface_hub")
    try:
        hub.HfApi().dataset_info(HUB_NAME, timeout=hub.constants.HF_HUB_ETAG_TIMEOUT)
    except network_errors() as error:
        return "" if getattr(error, "response", None) is not None else reason(error)
    return ""


@contextmanager
def _given_up_in_time(datasets: Any) -> Iterator[str]:
    """Let `datasets` look in its cache alone where the hub is silent, and say why: by itself it tries for minutes."""
    places = (importlib.import_module("huggingface_hub.constants"), datasets.config)
    were = [place.HF_HUB_OFFLINE for place in places]
    silence = _silence()
    for place, was in zip(places, were, strict=True):
        place.HF_HUB_OFFLINE = was or silence != ""
    try:
        yield silence
    finally:
        for place, was in zip(places, were, strict=True):
            place.HF_HUB_OFFLINE = was


def open_gsm8k(path: Path | None) -> RowsTask:
    """GSM8K's test problems, from a JSON-lines file, or through the `datasets` library where no path is given.

    Raises:
        RefeedError: kind "task" when neither can be had.
    """
    if path is not None:
        return RowsTask("gsm8k", read_jsonl(path))
    try:
        datasets = importlib.import_module("datasets")
    except ImportError as error:
        message = "task gsm8k needs the `datasets` library, which is not installed"
        raise RefeedError("task", message, "pip install '.[gsm8k]', or give a file: gsm8k:PATH") from error
    with _given_up_in_time(datasets) as silence:
        try:
            rows = datasets.load_dataset(HUB_NAME, "main", split="test")
        except (OSError, ValueError) as error:
            message = f"task gsm8k could not be fetched from the hub ({silence or reason(error)})"
            raise RefeedError("task", message, "connect, or give a file: gsm8k:PATH") from error
    found = [(str(row["question"]), _gold(str(row["answer"]), f"{HUB_NAME}, row {i}")) for i, row in enumerate(rows)]
    return RowsTask("gsm8k", found)
