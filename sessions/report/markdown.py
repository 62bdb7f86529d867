"""A report in Markdown: a document laid out, in text that marks nothing up."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sessions.report.document import LONGEST, Facts, Grid
from sessions.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sessions.report.document import Document, Part

_MARKUP: Final = "\\`*_{}[]<>#|~&$"
_BEGINS: Final = re.compile(r"^(?: |(\d*)([-+.)]))")


def page(written: Document) -> Iterator[str]:
    """The file, piece by piece."""
    yield f"# Replay audit {_plain(written.subject)}\n\n"
    yield from (_paragraph(line) for line in (*written.opening, written.headline))
    for section in written.sections:
        yield f"## {_plain(section.title)}\n\n"
        for part in section.body:
            yield from _part(part)
    if written.notes:
        yield "## Notes\n\n"
        yield from (f"- {_plain(note)}\n" for note in written.notes)
        yield "\n"
    yield _paragraph(written.closing).removesuffix("\n")


def _part(part: Part) -> Iterator[str]:
    match part:
        case Grid():
            yield from _table(part)
        case Facts():
            yield from (f"- {_plain(name)}: {_plain(fact)}\n" for name, fact in part.rows)
            yield "\n"
        case str():
            yield _paragraph(part)
        case _:
            pass  # Markdown draws nothing: the table beside the chart has its numbers


def _table(grid: Grid) -> Iterator[str]:
    yield _cells(map(_plain, grid.columns))
    yield _cells("---" if at < grid.words else "---:" for at, _ in enumerate(grid.columns))
    yield from (_cells(map(_plain, row)) for row in grid.rows)
    yield "\n"


def _cells(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _paragraph(text: str) -> str:
    """A sentence by itself, where spaces, a dash or a number in front would make it code or a list."""
    return f"{_BEGINS.sub(_defused, _plain(text))}\n\n"


def _defused(begins: re.Match[str]) -> str:
    return "&#32;" if begins[0] == " " else f"{begins[1]}\\{begins[2]}"


def _plain(text: str) -> str:
    """Text as Markdown that marks nothing up."""
    return "".join(f"\\{letter}" if letter in _MARKUP else letter for letter in printable(text, LONGEST))
