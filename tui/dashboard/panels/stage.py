"""What is going on now: the stage with a bar, and the engine's load; or why nothing is."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from sessions.text import one_line
from stats.words import count
from tui.dashboard.words import (
    bar,
    duration,
    elapsed,
    joined,
    machine_word,
    status,
    wrapped,
)
from tui.viewer.narrator import REASON_LIMIT, which_problems
from tui.viewer.session import unseen

if TYPE_CHECKING:
    from sessions.state.campaign import CampaignState
    from tui.dashboard.style import Glyphs, Ink, Line, Span
    from tui.viewer.session import LiveSession

PASS_NUMBER: Final = {"exact-1": 1, "exact-2": 2, "re-feed": 3}
ALMOST_FULL: Final = 0.95
WHOLE_REASON: Final = "(7: all of it)"  # the panel of what happened


def progress(session: LiveSession, width: int, glyphs: Glyphs) -> tuple[Line, Line]:
    """What is going on now, with a bar; then the engine's load. Always two lines."""
    state, current = session.state, session.state.current
    standing = _standing(session, width, glyphs)
    if standing is not None:
        return standing
    if state.paused:
        return _held(session, width, glyphs)
    what = _doing(session)
    if current.total <= 0:
        return ((what, "plain"),), _load(state, width, glyphs)
    counts = f" {current.done}/{current.total}"
    cells = max(4, min(60, width - len(what) - len(counts) - 2))
    filled, rest = bar(current.done / current.total, cells, glyphs, "accent")
    return ((what, "strong"), (" ", "plain"), filled, rest, (counts, "plain")), _load(state, width, glyphs)


def _standing(session: LiveSession, width: int, glyphs: Glyphs) -> tuple[Line, Line] | None:
    """What there is to say when no worker works; None when one does."""
    state = session.state
    if session.broken:
        text = f" JOURNAL BROKEN: {one_line(session.broken, 300)} "
        return ((text[:width], "bad"),), (("what is shown is what came before that line", "warn"),)
    if state.ended is not None:
        ink: Ink = "bad" if status(session.status).ink == "bad" else "plain"
        reason = f"{state.ended.state}: {one_line(state.ended.reason, REASON_LIMIT)}"
        more = f"{glyphs.ellipsis} {WHOLE_REASON}"
        room = max(len(more) + 1, width - 2 * (ink == "bad"))
        hint = _hint(session)
        if ink == "bad" and len(reason) > room and not hint[0][0]:
            first, *rest = textwrap.wrap(
                reason, room, max_lines=2, placeholder=more
            )  # a long word may fill none or all
            return ((f" {first} ", ink),), ((f" {rest[0]} " if rest else "", ink),)
        if not hint[0][0] and state.tokens > 0:
            hint = ((f"{state.tokens:,} tokens generated in {duration(elapsed(session))}", "muted"),)
        shown = textwrap.shorten(reason, room, placeholder=more) if len(reason) > room else reason
        return ((f" {shown} " if ink == "bad" else shown, ink),), hint
    if session.status in {"interrupted", "unseen"}:
        return _gone(session, width)
    if not state.runs:
        return (("nothing is recorded yet", "muted"),), _hint(session)
    return None


def _held(session: LiveSession, width: int, glyphs: Glyphs) -> tuple[Line, Line]:
    """What a pause costs, and what ends it."""
    held = "was held and billed meanwhile" if session.mode == "replay" else "stays held and billed; P goes on"
    text = f"PAUSED: the {machine_word(session.state)} {held}"
    return ((text, "warn"),), _load(session.state, width, glyphs)


def _gone(session: LiveSession, width: int) -> tuple[Line, Line]:
    """A worker that died; or one on another host that is silent, and may live."""
    if not session.away:
        text = f" worker died; `refeed-tui resume {session.folder.id}` continues it "
        return ((text[:width], "bad"),), _hint(session)
    first, *rest = wrapped(f"NOT SEEN from here: {unseen(session.away)}", width, "warn")
    return first, rest[0] if rest else (("", "plain"),)


def _doing(session: LiveSession) -> str:
    state, current = session.state, session.state.current
    if current.stage == "loading":
        notice = state.notices[-1] if state.notices and state.notices[-1].kind == "loading" else None
        if notice is None:
            return "starting the engine"
        share = "" if notice.fraction is None or notice.fraction <= 0 else f" {100 * notice.fraction:.0f}%"
        return f"{one_line(notice.text, 60)}{share}"
    if current.stage == "closing":
        return "closing the engine"
    nth = f"problem {min(len(state.measured) + 1, session.spec.problems)}/{session.spec.problems}"
    if current.stage in PASS_NUMBER:
        return f"{which_problems(state, current)} {current.stage} [{PASS_NUMBER[current.stage]} of 3]"
    if current.stage == "trunks":
        wave = "" if state.wave is None else f" of {count(len(state.wave.problems), 'problem')}"
        return f"trunks{wave}"
    return "closing the engine" if len(state.measured) >= session.spec.problems else f"{nth}: preparing"


def _hint(session: LiveSession) -> Line:
    irregular = session.state.irregular
    if irregular:
        return ((f"irregular: {one_line(irregular[-1], 200)}", "warn"),)
    return (("", "plain"),)


def _load(state: CampaignState, width: int, glyphs: Glyphs) -> Line:
    current = state.current
    preempted = sum(ended.preemptions for row in state.problems.values() for ended in row.passes) + current.preemptions
    checks: tuple[Span, ...] = ()
    if current.stage in PASS_NUMBER:
        bad: Ink = "bad" if current.failed > 0 else "muted"
        checks = ((f"requests verified {current.verified:,}, ", "muted"), (f"failed {current.failed}", bad))
    return joined(
        (
            ((f"{current.tokens_per_s:,.0f} tokens/s", "plain"),),
            ((f"KV {100 * current.kv_use:.0f}%", "warn" if current.kv_use > ALMOST_FULL else "plain"),),
            ((f"{preempted} preempted", "bad" if preempted > 0 else "muted"),),
            checks,
            ((f"{state.tokens:,}", "muted"), (" tokens", "muted")),
        ),
        width,
        glyphs,
    )
