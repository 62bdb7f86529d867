"""One session that somebody reads: its folded state, how fresh that is, and what is said when it is left.

The plain display and the dashboard read through the same object; in the dashboard it lives on the event loop alone.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from sessions.errors import RefeedError
from sessions.events import Pivot, Progress
from sessions.report.limits import looked, unfinished
from sessions.state.fold import fold, new_state
from sessions.text import one_line
from tui.viewer.narrator import REASON_LIMIT, EventNarrator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessions.events import AnyEvent
    from sessions.spec import CampaignSpec, Registration
    from sessions.state.campaign import CampaignState
    from sessions.store import SessionFolder
    from stats.report import Report
    from stats.sequential import EProcess

LONGEST_HOST: Final = 40


class Worker(NamedTuple):
    """What is known of a session's worker.

    Attributes:
        live: whether it runs: its lock is held, or about to be, or it is of another host and wrote moments ago.
        host: of it where that is not this one; empty otherwise.
    """

    live: bool = False
    host: str = ""

    @classmethod
    def of(cls, folder: SessionFolder) -> Worker:
        """Ask the lock, and run.json; one that cannot be understood names no host.

        Raises:
            RefeedError: as `SessionFolder.live` and `SessionFolder.summary`.
        """
        live = folder.starting() or folder.live()
        try:
            run = folder.run()
        except RefeedError:
            return cls(live)
        if run is None or not run.elsewhere():
            return cls(live)
        return cls(live or folder.elsewhere() != "", one_line(run.host, LONGEST_HOST))


def unseen(host: str) -> str:
    """What is known of a worker on another host that has not ended and is silent: loading and paused ones are, too."""
    return f"the worker is silent on host {host}, or died there; `refeed-tui list` there says which"


class Parting(NamedTuple):
    """What remains of a session that was left.

    Attributes:
        words: for the shell; empty when there is nothing to say.
        exit_code: of the viewer.
    """

    words: str = ""
    exit_code: int = 0


def detached(session: str, *, paused: bool) -> tuple[str, ...]:
    """What a shell shows after a viewer left a session whose worker lives on: how to come back, and how to end it.

    Args:
        session: its id.
        paused: whether it waits.
    """
    stands = "stays paused; its engine and memory stay held (and billed)" if paused else "goes on"
    resume = (f"  go on:      refeed-tui resume {session}",) if paused else ()
    return (
        f"session {session} {stands}.",
        f"  come back:  refeed-tui attach {session}",
        *resume,
        f"  stop it:    refeed-tui abort {session}",
    )


ProcessName = Literal["symmetry", "betting"]


def process_name(spec: CampaignSpec) -> ProcessName:
    """The e-process that the campaign stops by; the symmetry process, the primary one, where it stops by none."""
    return "symmetry" if spec.stop == "none" else spec.stop


def process(state: CampaignState) -> EProcess:
    """That e-process, as far as the campaign came."""
    return state.live.monitor.followed(state.spec.stop)


def at_planned_end(state: CampaignState) -> bool:
    """Whether a plain t may be read: once, at an end that no look at the data chose.

    A sequential stop rule looks after every problem; how an import was stopped is not known.
    """
    return not (looked(state) or state.imported or unfinished(state))


Mode = Literal["attach", "replay"]

# Most events by far, and nothing is said of them.
WORDLESS: Final = (Pivot, Progress)
LONGEST_SILENCE: Final = 7 * 86_400.0
LOG_LIMIT: Final = 20_000


@dataclass(slots=True)
class LiveSession:
    """A session that is followed or replayed.

    Attributes:
        folder: where it is.
        registration: what spec.json holds.
        spec: the registered settings.
        mode: attached to the journal's end, or replayed on the recorded clock.
        state: everything that was folded so far.
        narrator: puts events in words.
        revision: grows with every change; a pane whose revision is this one has nothing to do.
        live: whether a worker runs.
        host: of the last worker where that is another one than this; empty otherwise.
        caught_up: whether the journal was read to its present end.
        opened: whether it was at any time.
        broken: what is wrong with the journal; empty when nothing is.
        was_live: whether it was live at any time while it was read.
        heard_at: monotonic time of this process at the last event; 0 before the first.
        log: what happened, in words, newest last.
        log_first: number of the first entry that is still kept.
        token: differs between any two sessions or seeks, for comparing what is shown.
        report: every number, as of the first `report_of` measured problems; None before somebody asked.
    """

    folder: SessionFolder
    registration: Registration
    spec: CampaignSpec
    mode: Mode
    state: CampaignState
    narrator: EventNarrator
    revision: int = 0
    live: bool = False
    host: str = ""
    was_live: bool = False
    caught_up: bool = False
    opened: bool = False
    broken: str = ""
    heard_at: float = 0.0
    log: list[str] = field(default_factory=list)
    log_first: int = 0
    report: Report | None = None
    report_of: int = -1
    token: object = field(default_factory=object)
    _lower: tuple[int, float | None] | None = None

    @classmethod
    def of(cls, folder: SessionFolder, mode: Mode) -> LiveSession:
        """Start on a session; nothing of its journal is read yet.

        Raises:
            RefeedError: its spec cannot be read or does not match its digest.
        """
        registration, spec = folder.registration(), folder.spec()
        state = new_state(spec)
        return cls(folder, registration, spec, mode, state, EventNarrator(state))

    def add(self, event: AnyEvent) -> list[str]:
        """Fold one event and return the lines that it deserves.

        Raises:
            RefeedError: kind "integrity" when the event contradicts the journal before it.
        """
        fold(self.state, event)
        return [] if isinstance(event, WORDLESS) else self.narrator.lines(event)

    def take(self, events: Sequence[AnyEvent]) -> None:
        """Fold a batch. A pivot that contradicts itself ends the reading, as a broken chain does."""
        if not events or self.broken:
            return
        try:
            for event in events:
                self.log.extend(self.add(event))
        except RefeedError as error:
            self.broken = error.message
        if len(self.log) > 2 * LOG_LIMIT:
            self.log_first += len(self.log) - LOG_LIMIT
            del self.log[:-LOG_LIMIT]
        # a worker that was silent before this process came has been silent longer
        silent = max(0.0, min(time.time() - self.state.updated, LONGEST_SILENCE))
        self.heard_at = time.monotonic() - silent
        self.revision += 1

    def heard(self, worker: Worker, *, caught_up: bool, broken: str = "") -> None:
        """Take over what the reader knows besides events."""
        known = (*worker, caught_up, broken or self.broken)
        if known != (self.live, self.host, self.caught_up, self.broken):
            self.live, self.host, self.caught_up, self.broken = known
            self.revision += 1
        self.was_live = self.was_live or worker.live
        self.opened = self.opened or caught_up

    def lower_bound(self) -> float | None:
        """Lower bound by the stop rule's process; searched for again only after another informative problem."""
        monitor = self.state.live.monitor
        if self._lower is None or self._lower[0] != monitor.informative:
            self._lower = (monitor.informative, monitor.lower(process_name(self.spec)))
        return self._lower[1]

    @property
    def waited(self) -> float:
        """Seconds since the last event, while a worker lives; 0 otherwise."""
        if not self.live or self.heard_at == 0 or self.state.ended is not None or self.mode == "replay":
            return 0.0
        return time.monotonic() - self.heard_at

    @property
    def away(self) -> str:
        """Host of a worker that has not ended and is not on this machine; empty otherwise."""
        return "" if self.state.ended is not None or self.state.imported else self.host

    @property
    def status(self) -> str:
        """What the session is doing: a word for a state of `sessions.store`.

        "unseen" besides these: the worker is of another host, and silent for so long that it may live or be dead.
        """
        state = self.state
        if self.mode == "replay" and state.ended is None:
            return "paused" if state.paused else "running"
        if self.live and state.ended is None:
            return "paused" if state.paused else "running"
        if state.imported:
            return "imported"
        if state.ended is not None:
            return state.ended.state
        if not self.caught_up:
            return "reading"
        return "unseen" if self.away else "interrupted"

    def parting(self) -> Parting:
        """What the shell shows, and the exit code, after a viewer left the session as it is now.

        How to come back to a campaign that goes on; or how one ended whose end was read as it came.
        """
        if self.mode == "replay":
            return Parting()
        if self.live and self.state.ended is None:
            return Parting("\n".join(detached(self.folder.id, paused=self.state.paused)))
        if not self.was_live:
            return Parting()
        return self._last_words()

    def _last_words(self) -> Parting:
        """How the run ended that was read as it came."""
        name, ended = self.folder.id, self.state.ended
        if self.away:
            return Parting(f"session {name} is not seen any more: {unseen(self.away)}.")
        if ended is None:
            return Parting(f"session {name} was interrupted: its worker died.\n  go on:      refeed-tui resume {name}")
        report = f"\n  report:     refeed-tui report {name}" if self.state.measured else ""
        return Parting(f"session {name} {ended.state}: {one_line(ended.reason, REASON_LIMIT)}{report}", ended.exit_code)
