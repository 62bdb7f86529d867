"""A real worker's session, as tests wait for it and read it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engine.worker.supervisor import log_tail
from sessions.disk.journal import read

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessions.events import AnyEvent
    from sessions.store import SessionFolder


def events_of(session: SessionFolder) -> list[AnyEvent]:
    """What its journal says so far, chain checked."""
    return list(read(session.journal_path, session.registration().digest))


def wait_for(what: Callable[[], bool], session: SessionFolder, seconds: float) -> None:
    """Wait until something holds; the end of worker.log explains why it never did."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, log_tail(session)
        time.sleep(0.02)
