"""What is asked of a campaign from a signal handler, at whatever instruction that interrupts it."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from engine.protocol.control import Control

if TYPE_CHECKING:
    from types import FrameType

SECONDS = 1.5
EVERY = 0.0003
DEEPEST = 30


class Waiting(Control):
    """Waits, whatever was asked, until some time has passed: as many moments to be interrupted in as there can be."""

    until = float("inf")
    asked = 0
    depth = 0

    def ask(self, _number: int, _frame: FrameType | None) -> None:
        """As a worker's handler does; one that waits for a lock of its own thread is entered again and again."""
        self.asked += 1
        self.depth += 1
        assert self.depth < DEEPEST
        self.stop("the worker got SIGALRM", "interrupted", 1)
        if time.monotonic() < self.until:
            self._stop = None
        self.depth -= 1


def test_a_signal_at_any_moment_of_a_pause_is_heard() -> None:
    """The handler runs in the thread that waits: were there a lock, it might wait for itself, and for ever."""
    control = Waiting()
    control.pause()
    control.until = time.monotonic() + SECONDS
    before = signal.signal(signal.SIGALRM, control.ask)
    signal.setitimer(signal.ITIMER_REAL, EVERY, EVERY)
    try:
        control.wait_while_paused()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() >= control.until
    assert control.asked > 100
    assert control.stop_request is not None
