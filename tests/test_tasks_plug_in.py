"""A task plug-in: the example of the documentation, installed and run, and plug-ins that are broken."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.tasks.registry import open_task
from sessions.errors import RefeedError

REPO = Path(__file__).resolve().parents[1]
GUIDE = REPO / "docs" / "tasks.md"


def _install(folder: Path, name: str, value: str, source: str) -> Path:
    """Lay a package with one entry point into a folder, as an installer would."""
    (folder / f"{value.partition(':')[0]}.py").write_text(source, encoding="utf-8")
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[refeed_tui.tasks]\n{name} = {value}\n", encoding="utf-8")
    return folder


def _documented() -> tuple[str, str, str]:
    """Name, value and source of the documentation's plug-in."""
    text = GUIDE.read_text(encoding="utf-8")
    entry = re.search(r'"refeed_tui\.tasks"\]\n(\w+) = "([\w:]+)"', text)
    source = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert entry is not None
    assert source is not None
    return entry[1], entry[2], source[1]


def test_the_documented_plug_in_opens_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example, copied from the page, is a task with and without an argument."""
    monkeypatch.syspath_prepend(str(_install(tmp_path, *_documented())))
    task, small = open_task("squares"), open_task("squares:7")
    assert (len(task), len(small)) == (100, 7)
    assert (small.problem(6).question, small.problem(6).gold) == ("What is 6 squared?", "36")
    assert task.digest != small.digest


def test_the_documented_plug_in_is_registered_by_launch(tmp_path: Path) -> None:
    """`launch --dry-run` in a process of its own registers the plug-in's task with its digest."""
    folder = _install(tmp_path, *_documented())
    done = subprocess.run(
        [sys.executable, "-m", "tui.cli", "launch", "--engine", "embedded", "--task", "squares:9", "--problems", "9",
         "--dry-run", "--json"],
        env={**os.environ, "PYTHONPATH": f"{folder}:{REPO}", "REFEED_TUI_HOME": str(tmp_path / "home")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    spec = json.loads(done.stdout)["spec"]
    assert (spec["task"], len(spec["task_digest"])) == ("squares:9", 64)


@pytest.mark.parametrize(
    "source",
    [
        "def open_it(argument):\n    raise KeyError('no')",
        "def open_it(argument):\n    return None",
        "open_it = 5",
        "import nothing_of_this_name",
        "def open_it(argument):\n    return []",
        (
            "class T:\n    name, digest, instruction = 'a', 'b', ''\n    def __len__(self): return 0\n"
            "def open_it(argument):\n    return T()"
        ),
        (
            "from engine.tasks.task import Problem\n"
            "class T:\n    name, digest, instruction = 'a', 'b', ''\n    def __len__(self): return 1\n"
            "    def problem(self, index): return Problem(0, 'a?', 'many')\n"
            "def open_it(argument):\n    return T()"
        ),
    ],
)
def test_a_broken_plug_in_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """Whatever a plug-in does or lacks is an error of the task."""
    monkeypatch.syspath_prepend(str(_install(tmp_path, "broken", f"broken_{abs(hash(source))}:open_it", source)))
    with pytest.raises(RefeedError) as caught:
        open_task("broken")
    assert caught.value.kind == "task"


def test_a_plug_in_takes_no_name_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`jsonl` and the like stay what they are, whatever is installed."""
    monkeypatch.syspath_prepend(str(_install(tmp_path, "jsonl", "taken:open_it", "def open_it(argument): return 5")))
    with pytest.raises(RefeedError) as caught:
        open_task("jsonl")
    assert caught.value.kind == "spec"
