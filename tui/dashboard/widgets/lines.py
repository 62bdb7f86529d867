"""A block of inked lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.geometry import Size
from textual.scroll_view import ScrollView

from tui.dashboard.style import Inked, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.strip import Strip

    from tui.dashboard.style import Line


class Lines(Inked):
    """A fixed block of lines, cut at its right edge; it takes as many rows as it has lines unless styled otherwise."""

    DEFAULT_CSS = "Lines { height: auto; width: 1fr; }"

    def __init__(self, lines: Sequence[Line] = (), *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002  (Textual's name)
        super().__init__(id=id, classes=classes)
        self._lines = tuple(lines)

    def show(self, lines: Sequence[Line]) -> None:
        """Replace the lines; nothing is redrawn when they are the same."""
        new = tuple(lines)
        if new == self._lines:
            return
        grown = len(new) != len(self._lines)
        self._lines = new
        self.refresh(layout=grown and self.styles.is_auto_height)

    @property
    def text(self) -> str:
        """What it says, without inks."""
        return "\n".join(text_of(spans) for spans in self._lines)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many rows as lines."""
        del container, viewport, width
        return len(self._lines)

    def render_line(self, y: int) -> Strip:
        """One line."""
        return self.strip(self._lines[y] if y < len(self._lines) else (), self.size.width)


class ScrollLines(ScrollView, Inked, can_focus=True):
    """Inked lines that scroll, for text that is longer than the screen."""

    COMPONENT_CLASSES = Inked.COMPONENT_CLASSES  # Textual inherits them along the first base alone
    BINDINGS: ClassVar = [
        Binding("j", "scroll_down", "down", show=False),
        Binding("k", "scroll_up", "up", show=False),
        Binding("g", "scroll_home", "first", show=False),
        Binding("G", "scroll_end", "last", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name)
        super().__init__(id=id)
        self._lines: tuple[Line, ...] = ()

    def show(self, lines: Sequence[Line]) -> None:
        """Replace the lines, keeping the place."""
        new = tuple(lines)
        if new == self._lines:
            return
        self._lines = new
        width = max((sum(len(text) for text, _ in spans) for spans in new), default=0)
        self.virtual_size = Size(width, len(new))
        self.refresh()

    @property
    def text(self) -> str:
        """What it says, without inks."""
        return "\n".join(text_of(spans) for spans in self._lines)

    def render_line(self, y: int) -> Strip:
        """One line of the visible part."""
        x, top = self.scroll_offset
        row = top + y
        spans = self._lines[row] if row < len(self._lines) else ()
        width = self.scrollable_content_region.width
        return self.strip(spans, max(width + x, self.virtual_size.width)).crop(x, x + width)
