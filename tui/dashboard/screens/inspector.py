"""One pivot in full, over the panels; moves on to the table's next pivot."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, ClassVar

import msgspec
from textual import work
from textual.binding import Binding
from textual.message import Message

from sessions.disk import texts as side_files
from sessions.errors import RefeedError
from sessions.events import Pivot
from sessions.text import one_line
from tui.dashboard.panels.inspector import inspector
from tui.dashboard.screens.base import SizedScreen
from tui.dashboard.widgets.bar import KeyBar
from tui.dashboard.widgets.lines import Lines, ScrollLines

if TYPE_CHECKING:
    from pathlib import Path

    from textual.app import ComposeResult

    from sessions.disk.texts import ProblemTexts
    from tui.dashboard.widgets.table import LineTable
    from tui.viewer.session import LiveSession

KEYS = (("esc", "back"), ("n p", "next, previous pivot"), ("arrows", "scroll"), ("y", "copy"), ("?", "help"))


class Found(Message):
    """A pivot's event and its problem's texts were read."""

    def __init__(self, pivot: Pivot | None, texts: ProblemTexts | None, missing: str) -> None:
        super().__init__()
        self.pivot = pivot
        self.texts = texts
        self.missing = missing


def pivot_at(path: Path, seq: int) -> Pivot:
    """The pivot of a line that the reader has already checked.

    Raises:
        RefeedError: kind "integrity" when the line is not there any more, or says something else.
    """
    with path.open("rb") as file:
        line = next(islice(file, seq, None), None)
    if line is None:
        raise RefeedError("integrity", f"line {seq + 1} of {path} is gone", "the file was cut")
    try:
        return msgspec.json.decode(line, type=Pivot)
    except msgspec.DecodeError as error:
        raise RefeedError("integrity", f"line {seq + 1} of {path} is no pivot: {error}", "it was changed") from None


class InspectorScreen(SizedScreen):
    """Texts and proofs of one pivot."""

    BINDINGS: ClassVar = [
        Binding("escape,backspace", "back", "back"),
        Binding("n,right,l", "next(1)", "next pivot"),
        Binding("p,left,h", "next(-1)", "previous pivot"),
        Binding("y", "copy", "copy"),
    ]

    def __init__(self, session: LiveSession, table: LineTable, key: int) -> None:
        """Inspect a pivot of the table.

        Args:
            session: the session.
            table: whose rows are walked.
            key: row of `state.pivots`.
        """
        super().__init__()
        self.session = session
        self._table = table
        self._key = key
        self._found: Found | None = None

    def compose(self) -> ComposeResult:
        """The text and the keys."""
        yield Lines(id="too-small")
        yield ScrollLines(id="inspector")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """Read what is shown."""
        self.query_one(KeyBar).show(KEYS)
        self.query_one(ScrollLines).focus()
        self._read(self._key)

    @work(thread=True, exclusive=True)
    def _read(self, key: int) -> None:
        state = self.session.state
        texts, missing = None, "this session keeps no texts"
        try:
            event = pivot_at(self.session.folder.journal_path, state.pivots.cell(key, "seq"))
            row = state.problems.get(event.problem)
            if row is None or row.outcome is None:
                missing = "texts are stored when the problem closes"
            elif row.texts[0] and row.attempt == event.attempt:
                texts = side_files.read(self.session.folder.texts_path, *row.texts)
            elif row.attempt != event.attempt:
                missing = "this attempt was abandoned; texts belong to the later one"
        except RefeedError as error:
            self.post_message(Found(None, None, str(error)))
        except OSError as error:
            self.post_message(Found(None, None, str(error)))
        else:
            self.post_message(Found(event, texts, missing))

    def on_found(self, message: Found) -> None:
        """Show it."""
        self._found = message
        self._paint()
        self.query_one(ScrollLines).scroll_home(animate=False)

    def on_resize(self) -> None:
        """Wrap anew."""
        super().on_resize()
        self._paint()

    def _paint(self) -> None:
        found = self._found
        if found is None:
            return
        body = self.query_one(ScrollLines)
        if found.pivot is None:
            body.show((((one_line(found.missing, 400), "bad"),),))
            return
        glyphs = self.services.glyphs
        body.show(inspector(found.pivot, found.texts, found.missing, max(40, self.app.size.width - 4), glyphs))

    def action_next(self, step: int) -> None:
        """The table's next or previous pivot."""
        row = self._table.cursor + step
        if 0 <= row < len(self._table.rows):
            self._table.jump(row)
            self._key = self._table.rows.key(row)
            self._read(self._key)

    def action_copy(self) -> None:
        """Copy everything that is shown."""
        self.services.copy(self.query_one(ScrollLines).text)

    def action_back(self) -> None:
        """Back to the table."""
        self.dismiss()
