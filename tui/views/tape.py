"""The clock of a replay in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions.words import clock
from tui.views.words import bar, joined

if TYPE_CHECKING:
    from tui.feed import Tape
    from tui.views.glyphs import Glyphs
    from tui.widgets.ink import Line


def tape(recording: Tape | None, width: int, glyphs: Glyphs, *, seeking: bool) -> Line:
    """Where a replay is, how fast it runs, and its keys."""
    if recording is None:
        return (("REPLAY: reading the recording", "accent"),)
    state = "seeking" if seeking else ("ended" if recording.ended else ("playing" if recording.playing else "held"))
    mark = glyphs.play if state == "playing" else glyphs.hold
    share = recording.now / recording.length if recording.length > 0 else 1.0
    filled, rest = bar(share, 6 if width < 110 else 20, glyphs, "accent")  # noqa: PLR2004  (a wide terminal)
    speed = f"{recording.speed:g}{glyphs.times}"
    return joined(
        (
            ((f"REPLAY {mark} {state}", "accent"),),
            ((f"{clock(recording.now)} of {clock(recording.length)} ", "plain"), filled, rest),
            ((speed, "strong"), (" +-", "key")),
            (
                (",.", "key"),
                (" step ", "muted"),
                ("np", "key"),
                (" problem ", "muted"),
                ("t", "key"),
                (" task", "muted"),
            ),
            (("x", "key"), (" crossing ", "muted"), ("f", "key"), (" failure", "muted")),
            ((f"event {recording.position:,}/{len(recording.events):,}", "muted"),),
        ),
        width,
        glyphs,
    )
