"""What happened, one line an entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tui.widgets.table import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.widgets.ink import Ink, Span

COLUMNS: Final = (Column("", 0),)
BAD: Final = ("FAILED", "aborted:", "failed:", "interrupted:", "DROPPED", "dropped")
LOUD: Final = ("WARNING", "DEVIATION", "NOTE:", "paused")


def ink_of(entry: str) -> Ink:
    """Failures and warnings stand out; their words say so, too."""
    if any(word in entry for word in BAD):
        return "bad"
    return "warn" if any(word in entry for word in LOUD) else "plain"


class LogRows:
    """Entries, oldest first; an entry's name is its number since the start."""

    def __init__(self, entries: Sequence[str], first: int = 0) -> None:
        """Take them as they are; `first` is the number of the first that is still kept."""
        self._entries = tuple(entries)
        self._first = first

    def __len__(self) -> int:
        """How many."""
        return len(self._entries)

    def cells(self, row: int) -> tuple[Span, ...]:
        """One entry."""
        entry = self._entries[row]
        return ((entry, ink_of(entry)),)

    def key(self, row: int) -> int:
        """Its number."""
        return self._first + row

    def find(self, key: int) -> int | None:
        """Row of a number."""
        row = key - self._first
        return row if 0 <= row < len(self._entries) else None
