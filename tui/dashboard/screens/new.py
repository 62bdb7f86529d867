"""New campaign: a preset, its fields with validation, what it will take, and the command that launches it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len
from textual import work
from textual.binding import Binding
from textual.message import Message

from engine.registration import estimate, resolve
from engine.worker.supervisor import launch
from sessions.errors import RefeedError
from sessions.numbers import rough
from sessions.presets import PRESETS
from sessions.text import one_line
from tui.dashboard.screens.base import SizedScreen
from tui.dashboard.screens.dialogs import Ask, Confirm
from tui.dashboard.widgets.bar import KeyBar
from tui.dashboard.widgets.lines import Lines
from tui.dashboard.widgets.table import Column, LineTable
from tui.dashboard.words import heading, money, wrapped
from tui.setup.draft import NAMES, OUTSIDE, Draft, meanings
from tui.setup.launching import create, teller

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from engine.registration import Estimate
    from sessions.store import SessionFolder
    from tui.dashboard.style import Glyphs, Ink, Line, Span

KEYS = (
    ("esc", "back"),
    ("enter", "change"),
    ("[ ]", "preset"),
    ("L", "launch"),
    ("y", "copy the command"),
    ("?", "help"),
)


class Sized(Message):
    """What the draft will take was estimated."""

    def __init__(self, lines: tuple[Line, ...]) -> None:
        super().__init__()
        self.lines = lines


class Launched(Message):
    """A worker is ready, or it is not and this says why."""

    def __init__(self, folder: SessionFolder | None, error: str) -> None:
        super().__init__()
        self.folder = folder
        self.error = error


class NewScreen(SizedScreen):
    """Fields, estimate and command of a campaign that is put together.

    Attributes:
        draft: what was chosen so far.
    """

    BINDINGS: ClassVar = [
        Binding("escape", "back", "back"),
        Binding("left_square_bracket", "preset(-1)", "previous preset"),
        Binding("right_square_bracket", "preset(1)", "next preset"),
        Binding("L", "launch", "launch"),
        Binding("y", "copy", "copy the command"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.draft = Draft()
        self._launching = False

    def compose(self) -> ComposeResult:
        """Preset, fields, estimate, command."""
        yield Lines(id="too-small")
        yield Lines(id="new-preset")
        yield LineTable(COLUMNS, id="new-fields")
        yield Lines(((),), id="new-meaning")
        yield Lines(id="new-estimate")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """Show the draft."""
        self.query_one(KeyBar).show(KEYS)
        self.query_one(LineTable).focus()
        self._show()

    def on_resize(self) -> None:
        """Wrap anew."""
        super().on_resize()
        self.call_after_refresh(self._show)

    def _show(self, error: str = "") -> None:
        preset = PRESETS[self.draft.preset]
        names = " ".join(f"[{name}]" if name == self.draft.preset else name for name in PRESETS)
        width = max(40, self.app.size.width - 2)
        lines: list[Line] = [(("New campaign", "title"),)]
        lines += wrapped(f"presets: {names}", width, "muted")
        lines += wrapped(preset.description, width)
        if error:
            lines += wrapped(error, width, "warn")
        self.query_one("#new-preset", Lines).show(lines)
        self.query_one(LineTable).show(FieldRows(self.draft))
        self._explain()
        self._estimate(Draft(self.draft.preset, dict(self.draft.changed)), width)

    @work(thread=True, exclusive=True, group="estimate")
    def _estimate(self, draft: Draft, width: int) -> None:
        lines: list[Line] = [heading("Estimate", width, self.services.glyphs)]
        try:
            asked = draft.asked()
            spec, trouble = asked.spec, ""
            try:
                spec = resolve(spec)
            except RefeedError as error:
                trouble = f"cannot run here: {error}"
            if spec.engine != "auto":
                lines += _sized(estimate(spec, asked.price_per_hour))
            if trouble:
                lines += wrapped(trouble, width, "warn")
        except RefeedError as error:
            lines += wrapped(str(error), width, "bad")
        lines.append(heading("Command", width, self.services.glyphs))
        lines += wrapped(draft.command(), width, "strong")
        self.post_message(Sized(tuple(lines)))

    def on_sized(self, message: Sized) -> None:
        """Show the estimate."""
        self.query_one("#new-estimate", Lines).show(message.lines)

    def on_line_table_moved(self, message: LineTable.Moved) -> None:
        """Say in full what the field means."""
        message.stop()
        self._explain()

    def _explain(self) -> None:
        name = NAMES[self.query_one(LineTable).cursor]
        width = max(40, self.app.size.width - 2)
        self.query_one("#new-meaning", Lines).show(detail(self.draft, name, width, self.services.glyphs))

    def on_line_table_chosen(self, message: LineTable.Chosen) -> None:
        """Change a field."""
        name = NAMES[message.key]
        value = self.draft.value(name) if self.draft.origin(name) == "changed" else ""
        meaning = meanings().get(name, "")
        otherwise = "none" if name in OUTSIDE else "the preset's value"
        question = f"{name}: {meaning} Now {self.draft.value(name)}; empty for {otherwise}."

        def answered(text: str | None) -> None:
            if text is not None:
                self._set(name, text)

        self.app.push_screen(Ask(one_line(question, 400), value), answered)

    def _set(self, name: str, text: str) -> None:
        error = ""
        try:
            self.draft.set(name, text)
        except RefeedError as refused:
            error = str(refused)
        self._show(error)

    def action_preset(self, step: int) -> None:
        """Take another preset."""
        self.draft.next_preset(step)
        self._show()

    def action_copy(self) -> None:
        """Copy the command."""
        self.services.copy(self.draft.command())

    def action_launch(self) -> None:
        """Ask, then register and start the worker."""
        if self._launching:
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self._launching = True
                self.notify("starting the worker", markup=False)
                self._launch()

        lines: tuple[Line, ...] = (
            (("Launch this campaign?", "strong"),),
            (),
            *wrapped(self.draft.command(), 68),
            (),
            (("The spec is locked and its digest taken before the first token.", "muted"),),
        )
        self.app.push_screen(Confirm(lines), answered)

    @work(thread=True, group="launch")
    def _launch(self) -> None:
        try:
            hear = teller("registering", lambda line: self.app.call_from_thread(self.notify, line, markup=False))
            folder = create(self.draft.asked(), self.draft.on_event(), hear)
            launch(folder)
        except RefeedError as error:
            self.post_message(Launched(None, str(error)))
        else:
            self.post_message(Launched(folder, ""))

    def on_launched(self, message: Launched) -> None:
        """Watch it, or say why it did not start."""
        self._launching = False
        if message.folder is None:
            self._show(message.error)
            return
        self.dismiss()
        self.services.open(message.folder, "attach")

    def action_back(self) -> None:
        """Back to the list."""
        self.dismiss()


def _sized(found: Estimate) -> list[Line]:
    price = "no price given" if found.cost is None else f"about {money(found.cost)}"
    rate = f"{found.tokens_per_second:,.0f} tokens/s"
    return [
        ((f"about {found.likely_tokens:,} tokens (at most {found.most_tokens:,}); cost: {price}", "plain"),),
        ((f"{rough(found.seconds)} at an assumed {rate}, besides starting the engine", "plain"),),
    ]


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
        self._draft = draft
        self._meanings = meanings()

    def __len__(self) -> int:
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
