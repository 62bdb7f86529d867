"""The one family of errors that a person sees."""

from __future__ import annotations

from typing import Literal

Kind = Literal["failed", "usage", "spec", "session", "cache", "integrity", "engine", "task"]


class RefeedError(Exception):
    """What was wrong, with which value, and what to do.

    Attributes:
        kind: decides the exit code of the command (`tui.cli`).
        message: one sentence with the offending value.
        hint: what to do about it; may be empty.
    """

    def __init__(self, kind: Kind, message: str, hint: str = "") -> None:
        """Store the parts; `str(error)` joins message and hint."""
        super().__init__(f"{message}; {hint}" if hint else message)
        self.kind = kind
        self.message = message
        self.hint = hint
