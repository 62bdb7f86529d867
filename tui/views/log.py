"""What happened, one line an entry."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from tui.widgets.table import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.widgets.ink import Ink, Span

COLUMNS: Final = (Column("", 0),)
BAD: Final = ("FAILED", "aborted:", "failed:", "interrupted:", "DROPPED", "dropped")
INDENT: Final = " " * 8
LOUD: Final = ("WARNING", "DEVIATION", "NOTE:", "paused")


def ink_of(entry: str) -> Ink:
    """Failures and warnings stand out; their words say so, too."""
    if any(word in entry for word in BAD):
        return "bad"
    return "warn" if any(word in entry for word in LOUD) else "plain"


class LogLines:
    """Entries broken into lines that fit; only new entries are broken, so that a long log costs nothing."""

    def __init__(self, width: int) -> None:
        """Break at this many cells."""
        self.width = width
        self._taken = 0
        self._lines: list[Span] = []

    def take(self, entries: Sequence[str], first: int) -> list[Span]:
        """All lines, after breaking the entries that came since the last time.

        Args:
            entries: those that are still kept, oldest first.
            first: number of the first of these since the start.
        """
        for entry in entries[max(0, self._taken - first) :]:
            ink = ink_of(entry)
            parts = textwrap.wrap(entry, max(20, self.width), subsequent_indent=INDENT, break_on_hyphens=False)
            self._lines += [(part, ink) for part in parts or [""]]
        self._taken = first + len(entries)
        return self._lines


class LogRows:
    """Lines of a log, oldest first; a line's name is its number."""

    def __init__(self, lines: Sequence[Span]) -> None:
        """Take them as they are."""
        self._lines = lines
        self._count = len(lines)

    def __len__(self) -> int:
        """How many."""
        return self._count

    def cells(self, row: int) -> tuple[Span, ...]:
        """One line."""
        return (self._lines[row],)

    def key(self, row: int) -> int:
        """Its number."""
        return row

    def find(self, key: int) -> int | None:
        """The same number."""
        return key if key < self._count else None
