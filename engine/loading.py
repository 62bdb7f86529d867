"""The time in which an engine loads: nothing is measured yet, so a stop should not wait until gigabytes are read.

A campaign that runs looks after every step whether it is to stop. Loading is a long call into a library: an error that
is raised in the middle of it may be swallowed there. So the worker stops at the stages that a backend tells by itself;
where none comes in time, another thread records the end, and the process ends with it. The kernel takes its memory and
its GPU back, and the guardian ends what it had started.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.control import Control, StopRequest

GRACE_SECONDS: Final = 3.0
LOOK_SECONDS: Final = 0.1
NOTHING_LOST: Final = "nothing that is recorded is lost"
# Also true of a resume that checks its weights: no engine is there then.
AT_ONCE: Final = f"aborting: this run has measured nothing yet, and ends within {GRACE_SECONDS:.0f} s; {NOTHING_LOST}"
AT_A_STAGE: Final = (
    f"aborting at the next stage of loading, weights that are being read are read to their end; {NOTHING_LOST}"
)
IN_A_STEP: Final = f"aborting within one engine step; {NOTHING_LOST}"


class Loading:
    """Whether an engine loads, and the end of a worker that is to stop meanwhile."""

    def __init__(self, control: Control, seconds: float = GRACE_SECONDS) -> None:
        """Begin to load.

        Args:
            control: asked whether to stop.
            seconds: that a stop may wait for the next stage.
        """
        self._control = control
        self._seconds = seconds
        self._over = threading.Event()
        self._may_leave = True

    def stay(self) -> None:
        """Do not end the process at once: it has started others that nobody would end."""
        self._may_leave = False

    def abort_words(self) -> str:
        """What an abort that is asked for now will do."""
        if self._over.is_set():
            return IN_A_STEP
        return AT_ONCE if self._may_leave else AT_A_STAGE

    @contextmanager
    def watched(self, alone: threading.RLock, leave: Callable[[StopRequest], None]) -> Iterator[None]:
        """Load in the block; its end is the end of loading.

        Args:
            alone: held while something is recorded; held for good when the process is left.
            leave: records the end and ends the process; called in another thread, which holds `alone`.
        """
        thread = threading.Thread(target=self._watch, args=(alone, leave), name="loading", daemon=True)
        thread.start()
        try:
            yield
        finally:
            with alone:
                self._over.set()

    def _watch(self, alone: threading.RLock, leave: Callable[[StopRequest], None]) -> None:
        while not self._over.wait(LOOK_SECONDS):
            asked = self._control.stop_request
            if asked is None:
                continue
            if self._over.wait(self._seconds):
                return
            with alone:
                if self._may_leave and not self._over.is_set():
                    leave(asked)
            return
