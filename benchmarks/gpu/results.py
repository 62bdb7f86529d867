"""A results file that is written after every part, so that a run that is cut short keeps what it has."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from engine.backend import EngineInfo


class Results:
    """Named parts of one benchmark, with the conditions that they were measured under."""

    def __init__(self, path: Path) -> None:
        """Write to `path`."""
        self._path = path
        self._began = time.perf_counter()
        self.parts: dict[str, Any] = {}

    def add(self, name: str, value: Any) -> None:
        """Keep a part, print it in short, and write the file."""
        self.parts[name] = value
        self.parts["seconds_so_far"] = round(time.perf_counter() - self._began, 1)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self.parts, indent=2, default=_plain) + "\n", encoding="utf-8")
        print(f"[{self.parts['seconds_so_far']:.0f} s] {name}: {json.dumps(value, default=_plain)[:1500]}", flush=True)

    def engine(self, info: EngineInfo) -> None:
        """Keep what the engine turned out to be, without the ids of its vocabulary."""
        told = asdict(info) | {"special_ids": len(info.special_ids), "stop_ids": len(info.stop_ids)}
        self.add("engine", told)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)
