"""Data as people have it: nested fields, chats, gzip, arrays, Parquet, MATH, the hub, and files that are none."""

import gzip
import json
import os
import resource
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from engine.tasks import files
from engine.tasks.registry import from_anywhere, open_task
from engine.tasks.task import INSTRUCTION
from sessions.errors import RefeedError
from tests.helpers.shared import shared_path

ROWS = [{"question": "a?", "answer": "1"}, {"question": "b?", "answer": "2.5"}]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


def _golds(spec: str, **options: Any) -> list[tuple[str, str]]:
    """(question, gold) of every problem of a task."""
    task = open_task(spec, **options)
    return [(p.question, p.gold) for p in map(task.problem, range(len(task)))]


def _refused(spec: str, **options: Any) -> RefeedError:
    """The error of a task that cannot be opened: of kind "task", and one line."""
    with pytest.raises(RefeedError) as caught:
        open_task(spec, **options)
    assert caught.value.kind == "task"
    assert "\n" not in str(caught.value)
    return caught.value


def _write(path: Path, *rows: object) -> Path:
    """A file of one JSON value a line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", LINES),
        ("a.jsonl.gz", gzip.compress(LINES)),
        ("a.json", json.dumps(ROWS, indent=1).encode()),
        ("a.json.gz", gzip.compress(b"\xef\xbb\xbf\n" + json.dumps(ROWS).encode())),
    ],
)
def test_every_form_of_a_file_is_the_same_task(tmp_path: Path, name: str, content: bytes) -> None:
    """Lines and arrays, packed or not, are known by their content and give one digest."""
    (tmp_path / name).write_bytes(content)
    (tmp_path / "plain.jsonl").write_bytes(LINES)
    spec = f"jsonl:{tmp_path / name}"
    assert _golds(spec) == [("a?", "1"), ("b?", "2.5")]
    assert open_task(spec).digest == open_task(f"jsonl:{tmp_path / 'plain.jsonl'}").digest


def test_parquet_is_read_with_its_nested_fields(tmp_path: Path) -> None:
    """A table as verl writes it: a chat as prompt, the answer in a nested object, whole numbers."""
    arrow = pytest.importorskip("pyarrow", reason="the extra `parquet` is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [
        {"prompt": [{"role": "user", "content": f"{n}?"}], "reward_model": {"ground_truth": n, "style": "rule"}}
        for n in range(3)
    ]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "verl.parquet")
    spec = f"jsonl:{tmp_path / 'verl.parquet'}?question=prompt&answer=reward_model.ground_truth"
    assert _golds(spec) == [("0?", "0"), ("1?", "1"), ("2?", "2")]
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "verl.parquet").read_bytes()[:-20])
    assert "cut.parquet" in _refused(f"jsonl:{tmp_path / 'cut.parquet'}").message


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pyarrow is absent, the error says how to install it."""
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "[parquet]" in _refused(f"jsonl:{tmp_path / 'a.parquet'}").hint


def test_a_name_with_dots_is_a_field_before_it_is_a_path(tmp_path: Path) -> None:
    """A field that has dots in its own name wins over the nested one."""
    row = {"q": {"text": "a?"}, "a.b": "1", "a": {"b": "2"}}
    assert _golds(f"jsonl:{_write(tmp_path / 'a.jsonl', row)}?question=q.text&answer=a.b") == [("a?", "1")]
    nested = {"q": {"text": "a?"}, "a": {"b": 2}}
    assert _golds(f"jsonl:{_write(tmp_path / 'b.jsonl', nested)}?question=q.text&answer=a.b") == [("a?", "2")]


@pytest.mark.parametrize(
    "chat",
    [
        [],
        [{"role": "system", "content": "s"}, {"role": "user", "content": "a?"}],
        [{"role": "user", "content": "a?"}, {"role": "assistant", "content": "b"}],
        ["a?"],
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": [{"type": "text", "text": "a?"}]}],
    ],
)
def test_a_chat_that_is_not_one_users_message_is_refused(tmp_path: Path, chat: list[Any]) -> None:
    """Nothing of a chat is dropped in silence: not a system message, not an earlier turn."""
    path = _write(tmp_path / "a.jsonl", {"question": chat, "answer": "1"})
    assert f"{path}, line 1: " in _refused(f"jsonl:{path}").message


def test_all_bad_lines_are_counted_and_the_first_five_named(tmp_path: Path) -> None:
    """One refusal says how many rows are bad, shows five, and names a grader that reads the golds."""
    error = _refused(f"jsonl:{shared_path('data/cases/gold_two_bad_lines.jsonl')}")
    assert "2 of 4" in error.message
    assert "line 2" in error.message
    assert "line 4" in error.message
    rows = [{"question": f"{n}?", "answer": "1" if n % 2 else rf"{n + 2}\pi"} for n in range(20)]
    path = _write(tmp_path / "a.jsonl", *rows)
    error = _refused(f"jsonl:{path}")
    assert "10 of 20" in error.message
    assert [f"line {n}:" in error.message for n in (1, 3, 5, 7, 9, 11)] == [True] * 5 + [False]


def test_the_grader_that_is_named_reads_the_golds(tmp_path: Path) -> None:
    """What the hint of a refusal names opens the same file."""
    pytest.importorskip("math_verify", reason="the extra `math` is not installed")
    roots = _write(tmp_path / "roots.jsonl", {"question": "a?", "answer": r"\sqrt{2}"})
    assert "grader = math" in _refused(f"jsonl:{roots}").hint
    assert _golds(f"jsonl:{roots}", grader="math") == [("a?", r"\sqrt{2}")]
    strange = _write(tmp_path / "strange.jsonl", {"question": "a?", "answer": r"\frac{1"})
    assert "grader = exact" in _refused(f"jsonl:{strange}").hint
    assert _golds(f"jsonl:{strange}", grader="exact") == [("a?", r"\frac{1")]


def test_golds_of_the_seven_once_misread_problems_are_refused_together() -> None:
    """Four of the seven are no number, and each is named."""
    assert "4 of 7" in _refused(f"jsonl:{shared_path('data/cases/gold_silently_wrong.jsonl')}").message


def test_math_keeps_levels_and_subjects_and_takes_the_last_box(tmp_path: Path) -> None:
    """MATH's own rows have a solution, copies an answer, and subjects under either name."""
    pytest.importorskip("math_verify", reason="the extra `math` is not installed")
    path = _write(
        tmp_path / "math.jsonl",
        {
            "problem": "a?",
            "solution": r"First \boxed{1}, so \boxed{\frac{\pi}{2}}.",
            "level": "Level 5",
            "type": "Geometry",
        },
        {"problem": "b?", "answer": "(2,\\infty)", "solution": "none", "level": 3, "subject": "Algebra"},
        {"problem": "c?", "answer": "7"},
    )
    task = open_task(f"math:{path}", grader="math")
    assert [(p.question, p.gold, p.level, p.subject) for p in map(task.problem, range(3))] == [
        ("a?", r"\frac{\pi}{2}", "Level 5", "Geometry"),
        ("b?", r"(2,\infty)", "3", "Algebra"),
        ("c?", "7", None, None),
    ]
    assert task.name == "math:math.jsonl"
    assert task.instruction != INSTRUCTION
    assert from_anywhere("math:x.jsonl") == f"math:{Path.cwd() / 'x.jsonl'}"
    assert "grader = math" in _refused(f"math:{path}").hint


@pytest.mark.parametrize(
    "solution", ["no box", rf"\boxed{{1}} and \boxed{{{'1' * 400}}}", r"\boxed{1} and \boxed{2", ""]
)
def test_a_solution_without_a_whole_last_box_is_refused(tmp_path: Path, solution: str) -> None:
    """An earlier box is never taken for the last one."""
    assert "line 1" in _refused(f"math:{_write(tmp_path / 'a.jsonl', {'problem': 'a?', 'solution': solution})}").message


def test_repeated_questions_are_told_once_with_their_number(tmp_path: Path) -> None:
    """Duplicates stay, since they are the user's data, but are told."""
    said: list[str] = []
    rows = [{"question": q, "answer": "1"} for q in ("a?", "b?", "a?", "a?")]
    open_task(f"jsonl:{_write(tmp_path / 'a.jsonl', *rows)}", tell=said.append)
    assert len(said) == 1
    assert "2 of 4" in said[0]
    open_task(f"jsonl:{_write(tmp_path / 'b.jsonl', *rows[:2])}", tell=said.append)
    assert len(said) == 1


class Library:
    """Stands where `datasets` would be, which is not installed, and gives the rows of a table."""

    config = types.SimpleNamespace(HF_HUB_OFFLINE=False)

    @staticmethod
    def load_dataset(name: str, config: str | None, *, split: str) -> list[dict[str, Any]]:
        """Rows that say what was asked for."""
        return [{"extra": {"q": f"{name} {config} {split}?"}, "n": 3}]


def test_a_data_set_of_the_hub_is_named_with_its_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name, configuration, split and fields reach the library."""
    pytest.importorskip("huggingface_hub", reason="it comes with datasets")
    monkeypatch.setitem(sys.modules, "datasets", Library)
    monkeypatch.setattr("engine.tasks.hub._silence", lambda _: "")
    spec = "hub:org/set?config=main&split=test[:5]&question=extra.q&answer=n"
    assert _golds(spec) == [("org/set main test[:5]?", "3")]
    for bad in ("hub:org/set", "hub:", "hub:org/set?split=", "hub:org/set?spilt=test"):
        with pytest.raises(RefeedError) as caught:
            open_task(bad)
        assert caught.value.kind == "spec"


def test_a_device_a_pipe_and_a_folder_are_refused_without_being_read(tmp_path: Path) -> None:
    """A device never ends and a pipe never begins: neither is opened."""
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe", tmp_path):
        assert str(path) in _refused(f"jsonl:{path}").message


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe{\x00",
        b"[" * 200_000,
        b'{"question": "a?", "answer": ' + b"[" * 200_000,
        b'{"question": "a?", "answer": ' + b"1" * 10_000 + b"}",
        b'{"question": "a?", "answer": "' + b"(" * 200_000 + b'"}',
        b'{"question": "a?", "answer": 1e999999999}',
        b"[1, 2]",
        b'["a"]',
        b'"a"',
        b"\x1f\x8b" + b"\0" * 100,
        gzip.compress(LINES)[:-9],
        b"PAR1" + b"\0" * 100 + b"PAR1",
        b"\0" * 1000,
        b"[]",
    ],
    ids=lambda content: repr(content[:24]),
)
def test_hostile_content_is_one_line_with_the_file_and_the_cause(tmp_path: Path, content: bytes) -> None:
    """Nothing but a refusal comes out, whatever lies in the file."""
    (tmp_path / "a.bin").write_bytes(content)
    error = _refused(f"jsonl:{tmp_path / 'a.bin'}")
    assert str(tmp_path / "a.bin") in error.message
    assert len(str(error)) < 1_000


def test_a_file_that_unpacks_above_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Size is bounded before unpacking and after it."""
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b" " * 2_000_000))
    monkeypatch.setattr(files, "MOST_BYTES", 1_000_000)
    assert "1,000,000" in _refused(f"jsonl:{tmp_path / 'bomb.gz'}").message
    (tmp_path / "large.jsonl").write_bytes(b" " * 1_000_001)
    assert "1,000,001" in _refused(f"jsonl:{tmp_path / 'large.jsonl'}").message


def test_a_bomb_is_refused_within_a_bounded_memory(tmp_path: Path) -> None:
    """2 GB of zeros in gzip: a process that may map 3 GiB refuses it in one line."""
    zeros = b"\0" * (1 << 20)
    with gzip.open(tmp_path / "bomb.gz", "wb", compresslevel=1) as file:
        for _ in range(2_000):
            file.write(zeros)
    code = f"from engine.tasks.registry import open_task; open_task('jsonl:{tmp_path / 'bomb.gz'}')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30)),
    )
    assert done.returncode == 1
    assert "RefeedError" in done.stderr.splitlines()[-1]
