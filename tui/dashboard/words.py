"""Words that several screens share: states, facts of a session, pivots in a row."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.cells import cell_len, set_cell_size

from sessions.numbers import clock
from sessions.text import one_line
from tui.viewer.narrator import seconds_left

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessions.state.campaign import CampaignState
    from tui.dashboard.style import Glyphs, Ink, Line, Span
    from tui.viewer.session import LiveSession


class Status(NamedTuple):
    """A state in one word, and its ink."""

    word: str
    ink: Ink


STATUS: Final[dict[str, Status]] = {
    "reading": Status("READING", "muted"),
    "running": Status("RUNNING", "good"),
    "paused": Status("PAUSED", "warn"),
    "finished": Status("FINISHED", "good"),
    "stopped": Status("STOPPED", "good"),
    "aborted": Status("ABORTED", "bad"),
    "failed": Status("FAILED", "bad"),
    "interrupted": Status("INTERRUPTED", "bad"),
    "unseen": Status("NOT SEEN", "warn"),
    "imported": Status("IMPORTED", "accent"),
}
SHORTEST_CUT: Final = 8


def status(word: str) -> Status:
    """Word and ink of a session's state."""
    return STATUS.get(word, Status(word.upper(), "plain"))


def block(found: Status, glyphs: Glyphs) -> Span:
    """A state as a span; a bad one is a filled block."""
    text = f" {found.word} " if found.ink == "bad" else f"{glyphs.dot} {found.word}"
    return text, found.ink


def model_name(state: CampaignState, registered: str | None) -> str:
    """Model without its owner's name or folder, safe to print."""
    model = state.engine.model if state.engine is not None else (registered or "?")
    return one_line(model.rstrip("/").rsplit("/", 1)[-1], 40)


def machine(state: CampaignState) -> str:
    """The GPU, else the CPU, else the host, as far as known."""
    if state.engine is None:
        return ""
    facts = {**state.engine.numerics, **state.engine.machine}
    for name in ("gpu", "GPU", "device", "cpu"):
        if facts.get(name, "") not in {"", "cpu"}:  # which processor it is stands under "cpu"
            return one_line(facts[name].replace("(R)", "").replace("(TM)", ""), 40)
    return ""


def machine_word(state: CampaignState) -> str:
    """What a worker holds: a GPU, unless its engine runs on the processor."""
    engine = state.spec.engine if state.engine is None else state.engine.engine
    on_processor = state.engine is not None and state.engine.numerics.get("device") == "cpu"
    return "machine" if engine == "embedded" or on_processor else "GPU"


def elapsed(session: LiveSession) -> float:
    """Seconds that workers ran, up to now."""
    return session.state.seconds + session.waited


def time_left(session: LiveSession) -> float | None:
    """Seconds to the registered end while a worker works; None when that is not known."""
    working = session.status in {"running", "paused"}
    return seconds_left(session.state, session.waited) if working else None


def money(amount: float) -> str:
    """An amount in the currency of the price."""
    return f"{amount:,.2f}"


def duration(seconds: float | None) -> str:
    """A duration, or a dash."""
    return "-" if seconds is None else clock(seconds)


def signed(net: int) -> str:
    """A credit estimate's numerator, with its sign."""
    return f"{net:+d}" if net != 0 else "0"


def change(first: int, other: int) -> str:
    """What happened to a sign: the same, to or from zero, or reversed."""
    if (first > 0) - (first < 0) == (other > 0) - (other < 0):
        return "same"
    return "REVERSED" if first * other < 0 else "zero"


def width_of(spans: Sequence[Span]) -> int:
    """Cells of a line."""
    return sum(cell_len(text) for text, _ in spans)


def joined(groups: Sequence[Sequence[Span]], width: int, glyphs: Glyphs) -> Line:
    """Facts with a separator between them; what does not fit is left out.

    The first of that is cut instead where it is a single span: give numbers and rules in two, they say something else
    when they are cut.
    """
    out: list[Span] = []
    for group in groups:
        if not group:
            continue
        mark: list[Span] = [(f" {glyphs.sep} ", "muted")] if out else []
        room = width - width_of(out) - width_of(mark)
        if width_of(group) > room:
            text, ink = group[0]
            if len(group) == 1 and room >= SHORTEST_CUT:
                cut = room - cell_len(glyphs.ellipsis)
                out += [*mark, (set_cell_size(text, cut).rstrip() + glyphs.ellipsis, ink)]
            break
        out += [*mark, *group]
    return tuple(out)


def wrapped(text: str, width: int, ink: Ink = "plain") -> tuple[Line, ...]:
    """Text from anywhere as lines of at most `width` cells, broken between words."""
    parts = textwrap.wrap(one_line(text, 2000), max(8, width), break_on_hyphens=False)
    return tuple(((part, ink),) for part in parts)


def bar(share: float, width: int, glyphs: Glyphs, ink: Ink) -> tuple[Span, Span]:
    """A bar of `width` cells, `share` of it filled."""
    filled = max(0, min(width, round(share * width)))
    return (glyphs.full * filled, ink), (glyphs.empty * (width - filled), "muted")


def heading(title: str, width: int, glyphs: Glyphs, note: str = "") -> Line:
    """A title with a rule behind it, and a note at its end when there is room."""
    tail = f" {note}" if note and len(title) + len(note) + 4 <= width else ""
    rule = glyphs.rule * max(0, width - cell_len(title) - 1 - cell_len(tail))
    return ((title, "title"), (" ", "plain"), (rule, "muted"), (tail, "muted"))
