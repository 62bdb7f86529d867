"""Fields of a campaign that is put together, as table rows."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from tui.draft import NAMES, Draft, meanings
from tui.plaintext import one_line
from tui.views.words import wrapped
from tui.widgets.table import Column

if TYPE_CHECKING:
    from tui.views.glyphs import Glyphs
    from tui.widgets.ink import Ink, Line, Span

COLUMNS: Final = (Column("field", 24), Column("value", 24), Column("from", 8), Column("meaning", 0))
MOST_LINES: Final = 4


def detail(draft: Draft, name: str, width: int, glyphs: Glyphs) -> tuple[Line, ...]:
    """What a field means, and its value in full where the table has no room for it."""
    lines: list[Line] = list(wrapped(f"{name}: {meanings().get(name, '')}", width, "muted"))
    value = one_line(draft.value(name))
    if cell_len(value) > COLUMNS[1].width:
        mark = glyphs.ellipsis
        parts = textwrap.wrap(f"= {value}", width, break_on_hyphens=False, max_lines=MOST_LINES, placeholder=mark)
        lines += [((part, "plain"),) for part in parts]
    return tuple(lines)


class FieldRows:
    """Fields of a draft; a row's name is its place."""

    def __init__(self, draft: Draft) -> None:
        """Take the values as they are."""
        self._draft = draft
        self._meanings = meanings()

    def __len__(self) -> int:
        """How many."""
        return len(NAMES)

    def key(self, row: int) -> int:
        """Its place."""
        return row

    def find(self, key: int) -> int | None:
        """Its place."""
        return key

    def cells(self, row: int) -> tuple[Span, ...]:
        """One field."""
        name = NAMES[row]
        origin = self._draft.origin(name)
        ink: Ink = {"changed": "strong", "preset": "accent"}.get(origin, "plain")  # type: ignore[assignment]
        return (
            (name, "strong" if origin == "changed" else "plain"),
            (one_line(self._draft.value(name), 80), ink),
            (origin, "muted"),
            (one_line(self._meanings.get(name, ""), 200), "muted"),
        )
