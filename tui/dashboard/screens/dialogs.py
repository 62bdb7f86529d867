"""Small windows above a screen: a question, a confirmation, the help."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen

from engine.worker.watchdog import LOADING_GRACE
from sessions.text import one_line
from stats.words import count
from tui.dashboard.widgets.entry import PlainInput
from tui.dashboard.widgets.lines import Lines, ScrollLines
from tui.dashboard.words import machine_word, width_of, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.widgets import Input

    from sessions.state.campaign import CampaignState
    from tui.dashboard.style import Line
    from tui.viewer.session import LiveSession

NARROWEST = 76
_R = TypeVar("_R")


class Dialog(ModalScreen[_R]):
    """A window in the middle."""


class Confirm(Dialog[bool]):
    """A question whose yes is a key that is not pressed by accident."""

    BINDINGS: ClassVar = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape,q,enter", "answer(False)", "no"),
    ]

    def __init__(self, lines: Sequence[Line]) -> None:
        super().__init__()
        self._lines = tuple(lines)

    def compose(self) -> ComposeResult:
        """The question and its two answers."""
        with Vertical():
            yield Lines(self._lines, id="question")
            yield Lines(((), (("y", "key"), (" yes   ", "plain"), ("n", "key"), (" no", "plain"))), id="answers")

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(yes)


class Ask(Dialog[str | None]):
    """A question answered by a line of text."""

    BINDINGS: ClassVar = [Binding("escape", "cancel", "cancel")]

    def __init__(self, question: str, value: str = "") -> None:
        super().__init__()
        self._question = question
        self._value = value

    def compose(self) -> ComposeResult:
        """The question and a field."""
        with Vertical():
            yield Lines(wrapped(self._question, 68, "strong"))
            yield PlainInput(one_line(self._value), id="answer")
            yield Lines(((("enter", "key"), (" go   ", "plain"), ("esc", "key"), (" cancel", "plain")),))

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Close with the text."""
        self.dismiss(message.value)

    def action_cancel(self) -> None:
        """Close without an answer."""
        self.dismiss(None)


class Text(Dialog[None]):
    """Text to read: help, a report; the window is as wide as its longest line, where there is room."""

    FRAME: ClassVar = (5, 6)  # cells beside the text: border, padding and scrollbar; border, padding, key line, and one

    BINDINGS: ClassVar = [Binding("escape,q,question_mark", "close", "close")]

    def __init__(self, lines: Sequence[Line]) -> None:
        super().__init__()
        self._lines = tuple(lines)

    def compose(self) -> ComposeResult:
        """The lines, scrolling where they do not fit."""
        with Vertical():
            yield ScrollLines(id="text")
            yield Lines(((("esc", "key"), (" close", "plain")),))

    def on_mount(self) -> None:
        """Fill it."""
        text = self.query_one(ScrollLines)
        longest = max(width_of(line) for line in self._lines)
        self.query_one(Vertical).styles.width = max(NARROWEST, longest + self.FRAME[0])
        text.show(self._lines)
        text.focus()
        self.on_resize()

    def on_resize(self) -> None:
        """Leave room for the key that closes it, also in a terminal that became smaller."""
        height = min(len(self._lines), max(1, self.app.size.height - self.FRAME[1]))
        self.query_one(ScrollLines).styles.height = height

    def action_close(self) -> None:
        """Close it."""
        self.dismiss(None)


PANELS: Final = ("Live", "Pivots", "Joint", "Probe", "Select", "Problems", "Log", "Setup")
WIDTH: Final = 68
KEYS: Final = (
    ("1 - 8", "panels"),
    ("0", "home: all sessions"),
    ("arrows, h j k l", "move; page up and down, g and G for the ends"),
    ("space", "pause the view; in a replay, the clock"),
    ("c", "eligibility: any pass nonzero, or exact-1 nonzero"),
    ("/", "filter pivots"),
    ("s  S", "sort by the next column; the other way round"),
    ("d  D", "next and previous disagreement"),
    ("enter", "inspect the pivot"),
    ("y", "copy: to the clipboard (OSC 52), and to a file"),
    ("P", "pause at the next problem, or let it go on"),
    ("A", "abort the campaign, after a question"),
    ("ctrl+p", "palette: panels, themes, everything"),
    ("q", "leave; a running campaign goes on"),
)
HOME_KEYS: Final = (
    ("enter", "open the session"),
    ("r", "replay it on its recorded clock"),
    ("R", "its report"),
    ("e", "export it"),
    ("n", "set up a new campaign"),
    ("space  c", "mark sessions; compare the marked ones"),
    ("y", "copy the session's id"),
    ("arrows, h j k l", "move; page up and down, g and G for the ends"),
    ("ctrl+p", "palette: themes, everything"),
    ("q", "quit; running campaigns go on"),
)
REPLAY_KEYS: Final = (
    (". ,", "one event on or back"),
    ("n p", "end of the next or the previous problem"),
    ("+ -", "twice as fast, or half"),
    ("t", "go to a task index"),
    ("x", "go to the crossing of 1/alpha"),
    ("f", "go to the first cache failure"),
)


def _row(key: str, does: str) -> Line:
    return ((f"{key:<18}", "key"), (does, "plain"))


def home_keys() -> tuple[Line, ...]:
    """The keys of the list of sessions."""
    return ((("Keys", "title"),), (), *(_row(*pair) for pair in HOME_KEYS))


def keys(*, replay: bool) -> tuple[Line, ...]:
    """The keys of a campaign."""
    lines: list[Line] = [(("Keys", "title"),), (), *(_row(*pair) for pair in KEYS)]
    lines += [(), (("Replay", "title" if replay else "muted"),), (), *(_row(*pair) for pair in REPLAY_KEYS)]
    return tuple(lines)


def abort_question(session: LiveSession) -> tuple[Line, ...]:
    """What an abort ends, and what it loses: nothing that is recorded."""
    state, spec = session.state, session.spec
    unclosed = len(state.unclosed)
    redo = f"{count(unclosed, 'problem')} in work ({count(state.waiting, 'pivot')} so far) would be measured again"
    return (
        ((f"Abort {session.folder.id}?", "strong"),),
        (),
        *wrapped(f"{_when(state)}, and frees the {machine_word(state)}.", WIDTH),
        *wrapped(f"Kept: everything recorded; {len(state.measured)} of {spec.problems} problems are measured.", WIDTH),
        *wrapped(f"Lost: nothing that is recorded. On resume, {redo}.", WIDTH),
        *wrapped(f"`refeed-tui resume {session.folder.id}` continues it.", WIDTH, "muted"),
    )


def _when(state: CampaignState) -> str:
    """When a worker stops that is asked to now."""
    current = state.current
    if current.stage == "loading":
        return f"The engine still loads: the worker stops within {LOADING_GRACE:.0f} seconds, whatever it is reading"
    if current.stage == "closing":
        return "The worker is closing its engine already"
    at = f" (task {current.problem}, {current.stage})" if current.problem is not None else ""
    return f"The worker stops within a step{at}"
