from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import tui.cli

REPO = Path(__file__).resolve().parent.parent
HOUSE = {"tui", "engine", "stats", "sessions"}


@pytest.fixture(name="project")
def read_project() -> dict[str, Any]:
    """The parsed pyproject.toml."""
    return tomllib.loads((REPO / "pyproject.toml").read_text())


def test_the_console_script_is_the_command(project: dict[str, Any]) -> None:
    """`refeed-tui` starts `tui.cli.main`."""
    assert project["project"]["scripts"] == {"refeed-tui": "tui.cli:main"}
    assert callable(tui.cli.main)


def test_the_wheel_carries_the_four_packages_and_nothing_else(project: dict[str, Any]) -> None:
    """Tests, benchmarks and scripts stay out of the wheel."""
    assert set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == HOUSE


def test_the_base_install_has_no_engine(project: dict[str, Any]) -> None:
    """A laptop that only reads sessions installs neither torch nor vLLM."""
    names = {re.split(r"[<>=!~;\[ ]", line)[0] for line in project["project"]["dependencies"]}
    assert not names & {"torch", "vllm", "tokenizers", "safetensors", "transformers"}
    assert {"embedded", "vllm"} <= set(project["project"]["optional-dependencies"])


def test_every_top_level_package_declares_its_types() -> None:
    """Each package of the house ships py.typed."""
    assert all((REPO / package / "py.typed").is_file() for package in HOUSE)


def test_makefile_targets_are_those_that_people_were_promised() -> None:
    """`make demo` and `make test` exist, and CI calls the latter."""
    targets = set(re.findall(r"^([a-z-]+):", (REPO / "Makefile").read_text(), flags=re.MULTILINE))
    assert {"demo", "test", "test-slow", "wheel-test"} <= targets
    assert "make test" in (REPO / ".ci" / "run").read_text()
