"""Help, and the question before an abort."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.loading import GRACE_SECONDS
from stats.words import count
from tui.views.words import machine_word, wrapped

if TYPE_CHECKING:
    from sessions.campaign import CampaignState
    from tui.watched import Watched
    from tui.widgets.ink import Line

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


def abort_question(watched: Watched) -> tuple[Line, ...]:
    """What an abort ends, and what it loses: nothing that is recorded."""
    state, spec = watched.state, watched.spec
    unclosed = len(state.unclosed)
    redo = f"{count(unclosed, 'problem')} in work ({count(state.waiting, 'pivot')} so far) would be measured again"
    return (
        ((f"Abort {watched.folder.id}?", "strong"),),
        (),
        *wrapped(f"{_when(state)}, and frees the {machine_word(state)}.", WIDTH),
        *wrapped(f"Kept: everything recorded; {len(state.measured)} of {spec.problems} problems are measured.", WIDTH),
        *wrapped(f"Lost: nothing that is recorded. On resume, {redo}.", WIDTH),
        *wrapped(f"`refeed-tui resume {watched.folder.id}` continues it.", WIDTH, "muted"),
    )


def _when(state: CampaignState) -> str:
    """When a worker stops that is asked to now."""
    current = state.current
    if current.stage == "loading":
        return f"The engine still loads: the worker stops within {GRACE_SECONDS:.0f} seconds, whatever it is reading"
    if current.stage == "closing":
        return "The worker is closing its engine already"
    at = f" (task {current.problem}, {current.stage})" if current.problem is not None else ""
    return f"The worker stops within a step{at}"
