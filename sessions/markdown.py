"""A report in Markdown: a document laid out, in text that marks nothing up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessions.document import Facts, Grid
from sessions.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sessions.document import Document, Part

_MARKUP: Final = "\\`*_{}[]<>#|~&"
_LONG: Final = 2000


def page(written: Document) -> Iterator[str]:
    """The file, piece by piece."""
    yield f"# Replay audit {_plain(written.subject)}\n\n"
    yield from (f"{_plain(line)}\n\n" for line in (*written.opening, written.headline))
    for section in written.sections:
        yield f"## {_plain(section.title)}\n\n"
        for part in section.body:
            yield from _part(part)
    if written.notes:
        yield "## Notes\n\n"
        yield from (f"- {_plain(note)}\n" for note in written.notes)
        yield "\n"
    yield f"{_plain(written.closing)}\n"


def _part(part: Part) -> Iterator[str]:
    match part:
        case Grid():
            yield from _table(part)
        case Facts():
            yield from (f"- {_plain(name)}: {_plain(fact)}\n" for name, fact in part.rows)
            yield "\n"
        case str():
            yield f"{_plain(part)}\n\n"
        case _:
            pass  # Markdown draws nothing: the table beside the chart has its numbers


def _table(grid: Grid) -> Iterator[str]:
    yield _cells(map(_plain, grid.columns))
    yield _cells("---" if at < grid.words else "---:" for at, _ in enumerate(grid.columns))
    yield from (_cells(map(_plain, row)) for row in grid.rows)
    yield "\n"


def _cells(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _plain(text: str) -> str:
    """Text as Markdown that marks nothing up."""
    return "".join(f"\\{letter}" if letter in _MARKUP else letter for letter in printable(text, _LONG))
