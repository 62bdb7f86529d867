"""Where a worker's events go: the journal, the state, the summary, and whoever is told."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING

from sessions.errors import RefeedError
from sessions.events import Ended, Notice, Paused, ProblemClosed, Resumed
from sessions.state import fold

if TYPE_CHECKING:
    from engine.notify import Notifier
    from sessions.campaign import CampaignState
    from sessions.events import AnyEvent
    from sessions.journal import Journal
    from sessions.store import SessionFolder


class Recorder:
    """Appends events to the journal and folds the stamped event into the state that the campaign reads.

    Attributes:
        alone: held while an event is recorded; whoever holds it records alone.
    """

    def __init__(self, journal: Journal, state: CampaignState, folder: SessionFolder, notifier: Notifier) -> None:
        """Record into `journal`, `state` and the folder's summary, and let `notifier` hear of it."""
        self._journal = journal
        self._state = state
        self._folder = folder
        self._notifier = notifier
        self.alone = threading.RLock()

    def emit(self, event: AnyEvent) -> None:
        """Append, fold, and refresh the summary that `list` reads where it would show a difference."""
        with self.alone:
            for wrong in self._notifier.complaints():
                self._record(Notice(kind="on-event", text=wrong))
            self._record(event)

    def _record(self, event: AnyEvent) -> None:
        stamped = self._journal.append(event)
        fold(self._state, stamped)
        if isinstance(stamped, ProblemClosed | Paused | Resumed | Ended):
            self._folder.summary()
        self._notifier.hear(stamped)

    def finish(self) -> None:
        """Wait until the end was told, and record what went wrong with that."""
        self._notifier.close()
        for wrong in self._notifier.complaints():
            sys.stderr.write(f"{wrong}\n")
            with contextlib.suppress(RefeedError):  # a full disk is no reason to end otherwise than recorded
                self._record(Notice(kind="on-event", text=wrong))
