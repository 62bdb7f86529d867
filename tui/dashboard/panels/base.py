"""What panes and screens share."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.containers import Vertical
from textual.screen import Screen

from tui.dashboard.widgets.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.dashboard.app import RefeedApp
    from tui.dashboard.style import Glyphs, Line
    from tui.viewer.session import Watched

SMALLEST = (80, 24)


class Pane(Vertical):
    """One numbered panel of a campaign. `paint` hands what views say to widgets; it runs only while it is shown.

    Attributes:
        title: in the row of panels.
        keys: (key, what it does) of this panel, for the bottom line.
        wants_report: whether it shows numbers that take longer than a frame.
    """

    title: ClassVar[str] = ""
    keys: ClassVar[tuple[tuple[str, str], ...]] = ()
    wants_report: ClassVar[bool] = False

    def __init__(self, *, id: str) -> None:  # noqa: A002  (Textual's name)
        """Style it as a pane."""
        super().__init__(id=id, classes="pane")
        self._shown_for: tuple[object, ...] = ()

    @property
    def glyphs(self) -> Glyphs:
        """Marks of this terminal."""
        return cast("RefeedApp", self.app).glyphs

    def paint(self, watched: Watched, *, plots: bool) -> None:
        """Show the session as it is now.

        Args:
            watched: the session.
            plots: whether it is time to draw plots, too.
        """

    def stale(self, *shown: object) -> bool:
        """Whether what is shown depends on something else than the last time this was asked."""
        if shown == self._shown_for:
            return False
        self._shown_for = shown
        return True

    def copied(self, watched: Watched) -> str:
        """What `y` copies from this pane."""
        del watched
        return "\n".join(lines.text for lines in self.query(Lines) if lines.display)


class SizedScreen(Screen[None]):
    """A screen that adapts to its size, and says so when the terminal is below the smallest one."""

    AUTO_FOCUS = ""  # a hidden field would take the keys

    def too_small(self) -> Sequence[Line]:
        """What stands there below the smallest size; subclasses add what must not be missed."""
        width, height = self.app.size
        return (
            ((f"{width}x{height} is too small: {SMALLEST[0]}x{SMALLEST[1]} needed.", "strong"),),
            (("Enlarge the terminal; `--plain` works anywhere.", "plain"),),
            (("q leaves", "muted"),),
        )

    def on_resize(self) -> None:
        """Switch to and from the message for small terminals."""
        size = self.app.size
        small = size.width < SMALLEST[0] or size.height < SMALLEST[1]
        self.set_class(small, "-small")
        if small:
            for lines in self.query("#too-small").results(Lines):
                lines.show(self.too_small())
