"""Small windows above a screen: a question, a confirmation, the help."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen

from tui.plaintext import one_line
from tui.views.words import width_of, wrapped
from tui.widgets.entry import PlainInput
from tui.widgets.lines import Lines, ScrollLines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.widgets import Input

    from tui.widgets.ink import Line

NARROWEST = 76
_R = TypeVar("_R")


class Dialog(ModalScreen[_R]):
    """A window in the middle."""


class Confirm(Dialog[bool]):
    """A question whose yes is a key that is not pressed by accident."""

    BINDINGS: ClassVar = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape,q,enter", "answer(False)", "no"),
    ]

    def __init__(self, lines: Sequence[Line]) -> None:
        """Say what is at stake."""
        super().__init__()
        self._lines = tuple(lines)

    def compose(self) -> ComposeResult:
        """The question and its two answers."""
        with Vertical():
            yield Lines(self._lines, id="question")
            yield Lines(((), (("y", "key"), (" yes   ", "plain"), ("n", "key"), (" no", "plain"))), id="answers")

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(yes)


class Ask(Dialog[str | None]):
    """A question answered by a line of text."""

    BINDINGS: ClassVar = [Binding("escape", "cancel", "cancel")]

    def __init__(self, question: str, value: str = "") -> None:
        """Ask it."""
        super().__init__()
        self._question = question
        self._value = value

    def compose(self) -> ComposeResult:
        """The question and a field."""
        with Vertical():
            yield Lines(wrapped(self._question, 68, "strong"))
            yield PlainInput(one_line(self._value), id="answer")
            yield Lines(((("enter", "key"), (" go   ", "plain"), ("esc", "key"), (" cancel", "plain")),))

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Close with the text."""
        self.dismiss(message.value)

    def action_cancel(self) -> None:
        """Close without an answer."""
        self.dismiss(None)


class Text(Dialog[None]):
    """Text to read: help, a report; the window is as wide as its longest line, where there is room."""

    FRAME: ClassVar = (5, 6)  # cells beside the text: border, padding and scrollbar; border, padding, key line, and one

    BINDINGS: ClassVar = [Binding("escape,q,question_mark", "close", "close")]

    def __init__(self, lines: Sequence[Line]) -> None:
        """Show these lines."""
        super().__init__()
        self._lines = tuple(lines)

    def compose(self) -> ComposeResult:
        """The lines, scrolling where they do not fit."""
        with Vertical():
            yield ScrollLines(id="text")
            yield Lines(((("esc", "key"), (" close", "plain")),))

    def on_mount(self) -> None:
        """Fill it."""
        text = self.query_one(ScrollLines)
        longest = max(width_of(line) for line in self._lines)
        self.query_one(Vertical).styles.width = max(NARROWEST, longest + self.FRAME[0])
        text.show(self._lines)
        text.focus()
        self.on_resize()

    def on_resize(self) -> None:
        """Leave room for the key that closes it, also in a terminal that became smaller."""
        height = min(len(self._lines), max(1, self.app.size.height - self.FRAME[1]))
        self.query_one(ScrollLines).styles.height = height

    def action_close(self) -> None:
        """Close it."""
        self.dismiss(None)
