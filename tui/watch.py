"""Which display a session gets, and the report after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.audited import Session, audit
from tui.console import say, show
from tui.follow import PlainFollower

if TYPE_CHECKING:
    from sessions.store import SessionFolder


def watch(folder: SessionFolder, *, plain: bool) -> int:
    """Show a session until its run ends, then its report; an interrupt detaches and leaves the campaign alone.

    Args:
        folder: of the session.
        plain: whether plain lines were asked for.

    Returns:
        the exit code of the run.

    Raises:
        KeyboardInterrupt: after saying how to come back.
        RefeedError: kind "integrity" when the journal is damaged.
    """
    del plain  # plain lines are the one display so far
    follower = PlainFollower(folder)
    try:
        code = follower.run()
    except KeyboardInterrupt:
        if follower.teller.state.ended is None:
            _say_detached(folder)
        raise
    if follower.teller.state.measured:
        from tui.report_text import render  # noqa: PLC0415 - rich is loaded once there is something to render

        say()
        show(*render(audit([Session(folder, folder.spec(), follower.teller.state)])))
    follower.say_end()
    return code


def _say_detached(folder: SessionFolder) -> None:
    say()
    say(f"detached; session {folder.id} goes on.")
    say(f"  come back:  refeed-tui attach {folder.id}")
    say(f"  stop it:    refeed-tui abort {folder.id}")
