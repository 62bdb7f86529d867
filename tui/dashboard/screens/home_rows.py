"""Sessions of this machine as table rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessions.text import one_line
from tui.dashboard.widgets.table import Column
from tui.dashboard.words import block, status, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessions.listing import Entry
    from tui.dashboard.style import Glyphs, Line, Span

NARROW: Final = (
    Column("", 1),
    Column("state", 13),
    Column("session", 21),
    Column("problems", 8, "right"),
    Column("pivots", 6, "right"),
    Column("excess (re-feed, floor)", 0),
)
MEDIUM: Final = (
    Column("", 1),
    Column("state", 13),
    Column("id", 21),
    Column("name", 18),
    Column("model", 16),
    Column("problems", 8, "right"),
    Column("excess (re-feed vs floor)", 0),
)
WIDE: Final = (
    Column("", 1),
    Column("state", 13),
    Column("id", 21),
    Column("name", 20),
    Column("model", 24),
    Column("engine", 9),
    Column("started (UTC)", 17),
    Column("problems", 9, "right"),
    Column("pivots", 8, "right"),
    Column("excess (re-feed vs floor)", 0),
)
WIDTHS: Final = ((160, WIDE), (100, MEDIUM), (0, NARROW))


def columns(width: int) -> tuple[Column, ...]:
    """Columns that fit."""
    return next(found for least, found in WIDTHS if width >= least)


def detail(entry: Entry | None, width: int, glyphs: Glyphs) -> tuple[Line, ...]:
    """One session's id, name, model and headline in full; the table cuts long ones."""
    if entry is None:
        return ((),)
    row = entry.row
    facts = (row.id, row.name, row.model, row.headline)
    return wrapped(f" {glyphs.sep} ".join(one_line(fact) for fact in facts if fact), width, "muted")


class SessionRows:
    """Sessions, newest first; a row's name is derived from the session's id."""

    def __init__(self, entries: Sequence[Entry], marked: frozenset[str], width: int, glyphs: Glyphs) -> None:
        self.entries = tuple(entries)
        self._marked = marked
        self._columns = columns(width)
        self._glyphs = glyphs
        self._places = {self.name(entry): place for place, entry in enumerate(self.entries)}

    @staticmethod
    def name(entry: Entry) -> int:
        """Number that stands for a session."""
        return hash(entry.row.id)

    def __len__(self) -> int:
        return len(self.entries)

    def key(self, row: int) -> int:
        """Name of a row."""
        return self.name(self.entries[row])

    def find(self, key: int) -> int | None:
        """Row of a name."""
        return self._places.get(key)

    def cells(self, row: int) -> tuple[Span, ...]:
        """One session."""
        entry = self.entries[row]
        found = entry.row
        mark: Span = ("x" if found.id in self._marked else " ", "key")
        state = block(status(found.state), self._glyphs)
        done = f"{found.problems}/{entry.wanted}"
        headline: Span = (one_line(found.headline, 120), "bad" if found.headline.startswith("DAMAGED") else "plain")
        started = "-" if found.started is None else found.started[:16].replace("T", " ")
        if self._columns is NARROW:
            named: Span = (entry.marked(found.name or found.id, self._columns[2].width), "strong")
            return mark, state, named, (done, "plain"), (f"{found.pivots:,}", "plain"), headline
        lead: tuple[Span, ...] = (
            mark,
            state,
            (one_line(found.id), "plain"),
            (one_line(found.name or "-"), "strong"),
            (entry.marked(found.model.rsplit("/", 1)[-1] or "-", self._columns[4].width), "plain"),
        )
        if self._columns is MEDIUM:
            return (*lead, (done, "plain"), headline)
        return (
            *lead,
            (one_line(found.engine), "muted"),
            (started, "muted"),
            (done, "plain"),
            (f"{found.pivots:,}", "plain"),
            headline,
        )
