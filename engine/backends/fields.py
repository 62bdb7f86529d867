"""A checkpoint's JSON files, read field by field: a missing or odd value is named with its file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Fields:
    """Typed access to one JSON object; every complaint names the file, the field and the value."""

    def __init__(self, path: Path, values: Mapping[str, Any], prefix: str = "") -> None:
        """Wrap `values`, which stand in `path` under `prefix`."""
        self.path = path
        self.values = values
        self.prefix = prefix

    def refuse(self, name: str, reason: str) -> RefeedError:
        """The error for a field that cannot be run."""
        value = self.values.get(name)
        return RefeedError("engine", f"{self.path}: {self.prefix}{name} is {value!r}", reason)

    def integer(self, name: str, default: int | None = None) -> int:
        """A whole number of at least 1."""
        value = self.values.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.refuse(name, "the embedded engine needs a whole number of at least 1 there")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A positive number."""
        value = self.values.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not value > 0:
            raise self.refuse(name, "the embedded engine needs a positive number there")
        return float(value)

    def must_be(self, name: str, allowed: tuple[object, ...], why: str) -> None:
        """Refuse a field that has a value outside of `allowed` (None stands for absent)."""
        if self.values.get(name) not in allowed:
            raise self.refuse(name, why)


def read_json(path: Path) -> dict[str, Any]:
    """Read one JSON object.

    Raises:
        RefeedError: kind "engine" when the file is missing, unreadable, not JSON, or not an object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RefeedError("engine", f"{path} is missing", "a checkpoint folder in Hugging Face format has it") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise RefeedError("engine", f"{path} cannot be read: {error}", "download the checkpoint again") from error
    if not isinstance(value, dict):
        raise RefeedError("engine", f"{path} holds {type(value).__name__}, not an object")
    return value


def token_ids(fields: Fields, name: str) -> tuple[int, ...]:
    """A field that holds one token id, several, or none."""
    value = fields.values.get(name)
    found = [] if value is None else value if isinstance(value, list) else [value]
    if any(not isinstance(one, int) or isinstance(one, bool) or one < 0 for one in found):
        raise fields.refuse(name, "token ids are whole numbers from 0")
    return tuple(found)
