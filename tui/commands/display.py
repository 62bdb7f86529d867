"""Which display a session gets: the dashboard on a terminal, plain lines elsewhere, and the report after those."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Literal

from sessions.disk.journal import read
from sessions.report.audit import Session, audit
from tui import errors
from tui.console import say, show
from tui.viewer.plain import PlainFollower
from tui.viewer.session import LiveSession, detached

if TYPE_CHECKING:
    from sessions.store import SessionFolder

Refresh = Literal["normal", "slow"]


def has_dashboard(*, plain: bool) -> bool:
    """Whether the dashboard can run: both ends are a terminal that can move its cursor, and nobody wants plain."""
    ends = sys.stdin.isatty() and sys.stdout.isatty()
    return ends and not plain and os.environ.get("TERM", "") not in {"", "dumb"}


def watch(folder: SessionFolder, *, plain: bool, refresh: Refresh = "normal", ascii_only: bool | None = None) -> int:
    """Show a session until its run ends or it is left; leaving, or an interrupt, leaves the campaign alone.

    Args:
        folder: of the session.
        plain: whether plain lines were asked for.
        refresh: "slow" halves the dashboard's rates.
        ascii_only: draw the dashboard with ASCII; None decides by the terminal.

    Returns:
        the exit code of the run; 0 when the dashboard was left before its end.

    Raises:
        KeyboardInterrupt: after saying how to come back.
        RefeedError: kind "integrity" when the journal is damaged.
    """
    if has_dashboard(plain=plain):
        from tui.dashboard.app import run_dashboard  # noqa: PLC0415 - textual costs 220 ms that plain lines need not pay

        return run_dashboard(folder, mode="attach", refresh=refresh, ascii=ascii_only)
    return _follow(folder)


def replay(
    folder: SessionFolder,
    *,
    plain: bool,
    speed: float | None,
    refresh: Refresh = "normal",
    ascii_only: bool | None = None,
) -> int:
    """Show a recorded session on its own clock: the dashboard, or plain lines and the report.

    Args:
        folder: of the session.
        plain: whether plain lines were asked for.
        speed: recorded seconds a second; None for 1 in the dashboard, and for no waiting in plain lines.
        refresh: "slow" halves the dashboard's rates.
        ascii_only: draw the dashboard with ASCII; None decides by the terminal.

    Raises:
        RefeedError: kind "integrity" when the journal is damaged.
    """
    if has_dashboard(plain=plain):
        from tui.dashboard.app import run_dashboard  # noqa: PLC0415 - textual costs 220 ms that plain lines need not pay

        pace = 1.0 if speed is None else speed
        return run_dashboard(folder, mode="replay", speed=pace, refresh=refresh, ascii=ascii_only)
    session = LiveSession.of(folder, "replay")
    before = 0.0
    reading = read(folder.journal_path, session.registration.digest)
    for event in reading:
        if speed is not None and event.mono > before:
            time.sleep((event.mono - before) / speed)
        before = event.mono
        for line in session.add(event):
            say(line)
    _report(Session(folder, session.state, reading.torn))
    return errors.DONE


def _follow(folder: SessionFolder) -> int:
    follower = PlainFollower(folder)
    try:
        code = follower.run()
    except KeyboardInterrupt:
        if follower.session.state.ended is None:
            _say_detached(folder, follower)
        raise
    _report(Session(folder, follower.session.state, follower.torn))
    follower.say_end()
    return code


def _report(session: Session) -> None:
    if not session.state.measured:
        return
    from tui.viewer.report_text import render  # noqa: PLC0415 - rich is loaded once there is something to render

    say()
    show(*render(audit([session])))


def _say_detached(folder: SessionFolder, follower: PlainFollower) -> None:
    say()
    for line in detached(folder.id, paused=follower.session.state.paused):
        say(line)
