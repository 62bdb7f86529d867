"""What the full-size screens share: the services of the application, and the answer to a terminal that is too small."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.screen import Screen

from tui.dashboard.services import Services, services
from tui.dashboard.widgets.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.dashboard.style import Line

SMALLEST: Final = (80, 24)


class SizedScreen(Screen[None]):
    """A screen that adapts to its size, and says so when the terminal is below the smallest one."""

    AUTO_FOCUS = ""  # a hidden field would take the keys

    @property
    def services(self) -> Services:
        """What the application offers."""
        return services(self)

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
