"""What the panels of a campaign share."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical

from tui.dashboard.services import services
from tui.dashboard.widgets.lines import Lines

if TYPE_CHECKING:
    from tui.dashboard.style import Glyphs
    from tui.viewer.session import LiveSession


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
        super().__init__(id=id, classes="pane")
        self._shown_for: tuple[object, ...] = ()

    @property
    def glyphs(self) -> Glyphs:
        """Marks of this terminal."""
        return services(self).glyphs

    def paint(self, session: LiveSession, *, plots: bool) -> None:
        """Show the session as it is now.

        Args:
            session: the session.
            plots: whether it is time to draw plots, too.
        """

    def stale(self, *shown: object) -> bool:
        """Whether what is shown depends on something else than the last time this was asked."""
        if shown == self._shown_for:
            return False
        self._shown_for = shown
        return True

    def copied(self, session: LiveSession) -> str:
        """What `y` copies from this pane."""
        del session
        return "\n".join(lines.text for lines in self.query(Lines) if lines.display)
