"""Opening tasks: names, files, and what a bad line says."""

import builtins
import json
import sys
import threading
import types
from pathlib import Path
from typing import ClassVar

import pytest

from engine.tasks.registry import open_task
from engine.tasks.task import INSTRUCTION, Problem, user_message
from sessions.errors import RefeedError
from tests.helpers.hub_server import asked_by_this_process
from tests.helpers.shared import shared_path


def _write(path: Path, *lines: str) -> Path:
    """A file of those lines."""
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_arithmetic_is_a_task() -> None:
    """The generated task opens by its name and knows its problems."""
    task = open_task("arithmetic")
    assert (task.name, len(task), task.instruction) == ("arithmetic", 100_000, INSTRUCTION)
    assert task.problem(3).index == 3
    assert len(task.digest) == 64


def test_gsm8k_from_a_file_has_its_1319_problems() -> None:
    """The test set opens from its file, in order, with the numbers after "####" as gold answers."""
    task = open_task(f"gsm8k:{shared_path('data/gsm8k/test.jsonl')}")
    assert (task.name, len(task)) == ("gsm8k", 1319)
    assert task.problem(0).question.startswith("Janet")
    assert [task.problem(index).gold for index in range(3)] == ["18", "3", "70000"]


def test_jsonl_reads_named_fields_and_numbers_as_written(tmp_path: Path) -> None:
    """Fields may have other names, numbers keep their digits, blank lines and a byte-order mark are skipped."""
    path = tmp_path / "mine.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf{"prompt": "a?", "gold": 0.1000000000000000000001}\n\n{"prompt": "b?", "gold": "3/4"}\r\n'
    )
    task = open_task(f"jsonl:{path}?question=prompt&answer=gold")
    assert [task.problem(0).gold, task.problem(1).gold] == ["0.1000000000000000000001", "3/4"]
    assert (task.name, len(task)) == ("jsonl:mine.jsonl", 2)


def test_digest_covers_the_problems_and_not_the_file(tmp_path: Path) -> None:
    """Two files with the same problems are one task; another question, answer or order is another."""
    a, b = {"question": "a?", "answer": "1"}, {"question": "b?", "answer": "2"}
    files = ([a, b], [{**a, "more": "1"}, b], [b, a], [{**a, "answer": "3"}, b], [a])
    digests = [
        open_task(f"jsonl:{_write(tmp_path / f'{i}.jsonl', *(json.dumps(row) for row in rows))}").digest
        for i, rows in enumerate(files)
    ]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 4


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ('{"question": "a?"}', 'no field "answer" (it has question)'),
        ('{"question": "", "answer": "1"}', 'the field "question" is not a text or is empty'),
        ('{"question": "a?", "answer": true}', 'the field "answer" is not a text or is empty'),
        ('{"question": "a?", "answer": "many"}', "the gold answer 'many' is not one number"),
        ('{"question": "a?", "answer": NaN}', "the gold answer 'NaN' is not one number"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_bad_line_names_file_line_and_reason(tmp_path: Path, line: str, reason: str) -> None:
    """The error says which line of which file is wrong, and why."""
    path = _write(tmp_path / "bad.jsonl", '{"question": "a?", "answer": "1"}', "", line)
    with pytest.raises(RefeedError) as caught:
        open_task(f"jsonl:{path}")
    assert caught.value.kind == "task"
    assert f"{path}, line 3: " in caught.value.message
    assert reason in caught.value.message


def test_bytes_that_are_not_utf8_are_named(tmp_path: Path) -> None:
    """A line in another encoding is an error of that line."""
    path = tmp_path / "latin.jsonl"
    path.write_bytes(b'{"question": "\xe9", "answer": "1"}')
    with pytest.raises(RefeedError, match=r"line 1: not UTF-8 at byte 14"):
        open_task(f"jsonl:{path}")


def test_a_missing_or_empty_file_is_an_error(tmp_path: Path) -> None:
    """No file, a folder, and a file without problems are each refused by name."""
    for path in (tmp_path / "absent.jsonl", tmp_path, _write(tmp_path / "empty.jsonl", "", "")):
        with pytest.raises(RefeedError, match=str(path)) as caught:
            open_task(f"jsonl:{path}")
        assert caught.value.kind == "task"


@pytest.mark.parametrize(
    "spec", ["", "gsm8k:", "jsonl:", "jsonl", "math", "arithmetic:1", "jsonl:x?prompt=a", "jsonl:x?question="]
)
def test_an_unknown_task_is_a_bad_spec(spec: str) -> None:
    """A task that is none of the known forms is an error of the spec that lists them."""
    with pytest.raises(RefeedError, match="jsonl:PATH") as caught:
        open_task(spec)
    assert caught.value.kind == "spec"


def test_gsm8k_without_the_library_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `datasets` is not installed, the error names gsm8k:PATH."""
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(RefeedError, match="gsm8k:PATH") as caught:
        open_task("gsm8k")
    assert caught.value.kind == "task"


class Library:
    """Stands where `datasets` would be, which is not installed: it raises what that does, and keeps what it saw."""

    config = types.SimpleNamespace(HF_HUB_OFFLINE=False)
    asked_offline: ClassVar[list[tuple[bool, bool]]] = []

    @classmethod
    def load_dataset(cls, *_: str, **__: str) -> None:
        """Fail as without a copy."""
        constants = sys.modules["huggingface_hub.constants"]
        cls.asked_offline.append((cls.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE))
        raise builtins.ConnectionError("Couldn't reach 'openai/gsm8k' on the Hub")


def test_a_hub_without_the_data_names_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the hub answers and the data cannot be had, the error says why and names gsm8k:PATH."""
    pytest.importorskip("huggingface_hub", reason="it comes with datasets")
    monkeypatch.setitem(sys.modules, "datasets", Library)
    monkeypatch.setattr(Library, "asked_offline", [])
    with (
        asked_by_this_process(monkeypatch, tmp_path) as hub,
        pytest.raises(RefeedError, match=r"Couldn't reach 'openai/gsm8k'.*gsm8k:PATH"),
    ):
        open_task("gsm8k")
    assert Library.asked_offline == [(False, False)]
    assert hub.got("GET /api/datasets/openai/gsm8k")


def test_a_silent_hub_is_given_up_in_time_for_what_is_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The library is asked offline, where it looks in its cache and does not try again; later calls are as before."""
    constants = pytest.importorskip("huggingface_hub.constants", reason="it comes with datasets")
    monkeypatch.setitem(sys.modules, "datasets", Library)
    monkeypatch.setattr(Library, "asked_offline", [])
    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 0.5)
    with asked_by_this_process(monkeypatch, tmp_path) as hub:
        hub.hanging = threading.Event()
        with pytest.raises(RefeedError, match=r"timed out.*gsm8k:PATH"):
            open_task("gsm8k")
    assert Library.asked_offline == [(True, True)]
    assert (Library.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE) == (False, False)


def test_user_message_is_question_blank_line_instruction() -> None:
    """The instruction follows a blank line; an empty one leaves the question alone."""
    problem = Problem(0, "How many?", "1")
    assert user_message(problem, "Solve.") == "How many?\n\nSolve."
    assert user_message(problem, "") == "How many?"
