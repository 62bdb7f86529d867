"""A line that a person types or pastes into."""

from __future__ import annotations

from textual.widgets import Input

from sessions.text import one_line


class PlainInput(Input):
    """An input that shows control characters of what was pasted as escapes: it would pass them on to the terminal."""

    def replace(self, text: str, start: int, end: int) -> None:
        """Replace a part; everything that is typed or pasted comes by here."""
        super().replace(one_line(text), start, end)
