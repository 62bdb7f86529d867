"""A report as a document: all that it says, in words, before it has a form.

Text on a terminal, HTML and Markdown only lay a document out, so that none of them says less than another or spells it
otherwise. Its words may come from a model or a file: whoever lays it out makes them safe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from stats.sequential import PathPoint

# Characters of a sentence in a file: a worker's longest reason, each character of it an escape, and what stands around.
LONGEST: Final = 20_000


class Grid(NamedTuple):
    """A table.

    Attributes:
        columns: headers.
        rows: a cell a column.
        words: how many of the first columns are words; the others are numbers.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1


class Facts(NamedTuple):
    """Names and what is said of each."""

    rows: tuple[tuple[str, str], ...]


class Chart(NamedTuple):
    """The e-processes over informative problems, for forms that draw; the numbers stand in the table beside it.

    Attributes:
        path: a point an informative problem.
        level: 1/alpha.
    """

    path: tuple[PathPoint, ...]
    level: float


Part = Grid | Facts | Chart | str


class Section(NamedTuple):
    """A title and what stands below it, a sentence as text."""

    title: str
    body: tuple[Part, ...]


class Document(NamedTuple):
    """A report in words.

    Attributes:
        subject: sessions that it is of.
        opening: what ran where, and how much evidence there is.
        headline: the result in a sentence.
        sections: every number.
        notes: what limits them.
        closing: what was registered, and which version counted.
    """

    subject: str
    opening: tuple[str, ...]
    headline: str
    sections: tuple[Section, ...]
    notes: tuple[str, ...]
    closing: str
