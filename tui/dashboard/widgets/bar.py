"""The row of numbered panels, and the line of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message
from textual.strip import Strip

from tui.dashboard.style import Inked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.events import Click

    from tui.dashboard.style import Span


class TabBar(Inked):
    """Titles of panels with their digits; the shown one stands out by brackets, too."""

    class Picked(Message):
        """A title was clicked."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self, titles: Sequence[str], *, id: str) -> None:  # noqa: A002  (Textual's name)
        super().__init__(id=id)
        self._titles = tuple(titles)
        self._current = 0
        self._note = ""

    def show(self, current: int, note: str) -> None:
        """Mark a panel (from 0), and say something at the right end."""
        if (current, note) != (self._current, self._note):
            self._current, self._note = current, note
            self.refresh()

    def _cells(self) -> list[tuple[int, tuple[Span, ...]]]:
        cells: list[tuple[int, tuple[Span, ...]]] = []
        for number, title in enumerate(self._titles):
            shown = number == self._current
            left, right = ("[", "]") if shown else (" ", " ")
            spans: tuple[Span, ...] = (
                (left, "strong"),
                (str(number + 1), "key"),
                (f" {title}", "strong" if shown else "muted"),
                (right, "strong"),
            )
            cells.append((sum(len(text) for text, _ in spans), spans))
        return cells

    def render_line(self, y: int) -> Strip:
        """The one line."""
        del y
        spans: list[Span] = [span for _, cell in self._cells() for span in cell]
        width = self.size.width
        if not self._note:
            return self.strip(spans, width)
        note = self.strip([(f" {self._note}", "warn")], len(self._note) + 1)
        return Strip.join([self.strip(spans, max(0, width - note.cell_length)), note])

    def on_click(self, event: Click) -> None:
        """Tell which title was clicked."""
        place = 0
        for number, (width, _) in enumerate(self._cells(), start=1):
            place += width
            if event.x < place:
                self.post_message(self.Picked(number))
                return


class KeyBar(Inked):
    """Keys and what they do; those that do not fit are in the help."""

    def __init__(self, *, id: str) -> None:  # noqa: A002  (Textual's name)
        super().__init__(id=id)
        self._keys: tuple[tuple[str, str], ...] = ()

    def show(self, keys: tuple[tuple[str, str], ...]) -> None:
        """Replace the keys."""
        if keys != self._keys:
            self._keys = keys
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """The one line."""
        del y
        spans: list[Span] = []
        room = self.size.width
        for key, does in self._keys:
            room -= len(key) + len(does) + 3
            if room < 0:
                break
            spans += [(key, "key"), (f" {does}", "muted"), ("  ", "plain")]
        return self.strip(spans, self.size.width)
