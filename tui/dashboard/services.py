"""What screens and panels ask of the application that shows them; they know nothing else of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, cast

if TYPE_CHECKING:
    from textual.dom import DOMNode

    from sessions.store import SessionFolder
    from tui.dashboard.style import Glyphs


Command = Literal["pause", "resume", "abort"]


class Services(Protocol):
    """The application, as its screens and panels see it.

    Attributes:
        glyphs: marks that this terminal can show.
        slow: whether everything runs at half rate, for bad links.
    """

    glyphs: Glyphs
    slow: bool

    def open(self, folder: SessionFolder, mode: Literal["attach", "replay"]) -> None:
        """Show a session on a screen of its own.

        Raises:
            RefeedError: its spec cannot be read.
        """

    def copy(self, text: str) -> None:
        """Copy text to the terminal's clipboard and to a file."""

    def wake(self, text: str) -> None:
        """Ring the bell and notify the terminal, unless the text is empty."""

    def command(self, folder: SessionFolder, name: Command) -> object:
        """Send a command to a session's worker, and show its answer when it comes."""


def services(node: DOMNode) -> Services:
    """The application that shows a screen or a widget; Textual types it as any application."""
    return cast("Services", node.app)
