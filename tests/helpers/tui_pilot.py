"""Driving the dashboard in tests: a session, a size, and what stands on the screen."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING, Any, Final, Literal

from tui.dashboard.app import RefeedApp
from tui.dashboard.screens.campaign import CampaignScreen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from textual.pilot import Pilot

    from sessions.store import SessionFolder
    from tui.viewer.session import LiveSession

PATIENCE: Final = 40.0


def screen_text(app: RefeedApp) -> str:
    """Every cell of the screen, as lines."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def session_of(app: RefeedApp) -> LiveSession:
    """The session that the campaign's screen shows."""
    assert app.campaign is not None
    return app.campaign.session


@contextlib.contextmanager
def living(folder: SessionFolder) -> Iterator[None]:
    """Hold the session's lock, as a worker does."""
    fd = os.open(folder.lock_path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@contextlib.asynccontextmanager
async def opened(
    folder: SessionFolder | None,
    size: tuple[int, int] = (80, 24),
    mode: Literal["attach", "replay", "home"] = "attach",
    *,
    ascii_only: bool = False,
    speed: float = 1.0,
) -> AsyncIterator[tuple[RefeedApp, Pilot[Any]]]:
    """A dashboard on a session, read to its end and painted."""
    app = RefeedApp(folder, mode=mode, ascii_only=ascii_only, speed=speed)
    async with app.run_test(size=size, notifications=True) as pilot:
        if mode != "home":
            await settle(app, pilot)
        yield app, pilot


async def when(pilot: Pilot[Any], holds: Callable[[], bool], otherwise: Callable[[], str]) -> None:
    """Wait until something holds, as long as a busy machine may need; what to say when it never does."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, otherwise()
        await pilot.pause(0.02)


async def until(app: RefeedApp, pilot: Pilot[Any], said: str) -> str:
    """Wait until the screen says something; the whole screen then."""
    await when(pilot, lambda: said in screen_text(app), lambda: f"{said!r} did not appear:\n{screen_text(app)}")
    return screen_text(app)


async def settle(app: RefeedApp, pilot: Pilot[Any]) -> None:
    """Wait until the journal is read and the screen shows it."""

    def settled() -> bool:
        return isinstance(app.screen, CampaignScreen) and app.screen.settled

    await pilot.pause(0.02)
    await when(pilot, settled, lambda: f"the journal was not read:\n{screen_text(app)}")
    for _ in range(2):
        if isinstance(app.screen, CampaignScreen):
            app.screen.repaint(force=True)
        await pilot.pause()
