"""What a campaign needs from a task: numbered problems, each with a question and the right answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from sessions.errors import RefeedError

INSTRUCTION: Final = 'Solve it step by step. End with a line "Answer: N".'
"""The default instruction of every task; the bundled model is trained on it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a task.

    Attributes:
        index: its number within the task, from 0.
        question: what the model is asked, without the instruction.
        gold: the right answer as text that the campaign's grader can read.
        level: of difficulty, as the data has it; None where it has none.
        subject: the same.
    """

    index: int
    question: str
    gold: str
    level: str | None = None
    subject: str | None = None


class Task(Protocol):
    """A numbered, fixed list of problems."""

    @property
    def name(self) -> str:
        """Name for people and reports; never part of a digest."""
        ...

    @property
    def digest(self) -> str:
        """SHA-256 (64 hex digits) over the content that decides the problems."""
        ...

    @property
    def instruction(self) -> str:
        """What follows the question where the spec sets no prompt of its own."""
        ...

    def __len__(self) -> int:
        """How many problems there are."""
        ...

    def problem(self, index: int) -> Problem:
        """The problem of that number.

        Raises:
            RefeedError: kind "task" when there is none.
        """
        ...


def user_message(problem: Problem, instruction: str) -> str:
    """The user's turn: question, blank line, instruction; the question alone where the instruction is empty."""
    return f"{problem.question}\n\n{instruction}" if instruction else problem.question


def check_index(name: str, index: int, size: int) -> None:
    """Refuse a problem number outside 0..size-1.

    Raises:
        RefeedError: kind "task", naming the number and the range.
    """
    if not 0 <= index < size:
        message = f"{name} has no problem {index}"
        raise RefeedError("task", message, f"its problems are 0 to {size - 1}; lower start or problems")
