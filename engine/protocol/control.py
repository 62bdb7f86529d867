"""What a person, a signal or a limit asks of a running campaign."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessions.events import Ended

if TYPE_CHECKING:
    from sessions.events import EndState

LOOK_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Why a campaign must end now.

    Attributes:
        reason: one sentence, for the journal.
        state: aborted by a person, interrupted by a signal, or stopped by a limit.
        exit_code: of the worker.
    """

    reason: str
    state: EndState
    exit_code: int

    def end(self) -> Ended:
        """The event of that end."""
        return Ended(state=self.state, exit_code=self.exit_code, reason=self.reason)


class Control:
    """Requests to a running campaign; set from any thread or a signal handler, read by the campaign.

    A stop takes effect within one engine step, a pause at the next problem. It is made of plain attributes: a lock, and
    every event of `threading` has one, may be held by the very thread that a signal handler interrupts.
    """

    def __init__(self) -> None:
        """Start with nothing asked."""
        self._stop: StopRequest | None = None
        self._paused = False
        self._waiting = False

    @property
    def stop_request(self) -> StopRequest | None:
        """The first stop that was asked for."""
        return self._stop

    @property
    def pause_requested(self) -> bool:
        """Whether the campaign shall wait before its next problem."""
        return self._paused

    @property
    def waiting(self) -> bool:
        """Whether the campaign obeys a pause now."""
        return self._waiting and self._paused

    def stop(self, reason: str, state: EndState, exit_code: int) -> None:
        """Ask for an end; the first request wins."""
        if self._stop is None:
            self._stop = StopRequest(reason, state, exit_code)

    def pause(self) -> None:
        """Ask to wait before the next problem."""
        self._paused = True

    def resume(self) -> None:
        """Take a pause back."""
        self._paused = False

    def wait_while_paused(self) -> None:
        """Block until the pause is taken back or a stop is asked for."""
        self._waiting = True
        while self._paused and self._stop is None:
            time.sleep(LOOK_SECONDS)
        self._waiting = False
