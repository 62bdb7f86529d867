"""A session in a few integers: what `list` shows, without numpy and without folding a whole journal twice.

summary.json is a cache. It names the byte up to which it has read the journal, so that whoever finds it stale reads
only what came after; whoever finds none, or one of another spec, starts over.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from sessions.disk.evidence import Tally, counts, tally
from sessions.disk.files import read_bounded, write_atomic
from sessions.disk.journal import Chain, Follower
from sessions.errors import RefeedError
from sessions.events import Ended, EngineReady, Event, Opened, Paused, Pivot, ProblemClosed, Resumed
from sessions.numbers import percent, points

if TYPE_CHECKING:
    from pathlib import Path

VERSION: Final = 1
_LIMIT: Final = 1 << 24


class Summary(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A folded journal in integers; `fold` changes the one that its caller owns.

    Attributes:
        digest: of the session's spec.
        version: of this record.
        offset: bytes of the journal that are folded in.
        link: hash of the last event folded in.
        events: folded in.
        started: wall time of the first event, seconds since the epoch; 0 for imports.
        updated: wall time of the last event.
        engine: of the last EngineReady; empty before.
        source: imported file's name; empty otherwise.
        paused: whether the worker waits.
        ended: how the last run ended; empty while it has not.
        reason: of that end.
        closed: problems that closed, whatever the outcome.
        measured: problems that closed measured.
        informative: measured problems with an eligible pivot.
        evidence: over the pivots of measured problems.
        waiting: tallies of problems that have not closed, by "problem/attempt".
        done: task indices of closed problems.
        broken: what is wrong with the journal after `offset`; empty when nothing is.
    """

    digest: str
    version: int = VERSION
    offset: int = 0
    link: str = ""
    events: int = 0
    started: float = 0.0
    updated: float = 0.0
    engine: str = ""
    source: str = ""
    paused: bool = False
    ended: Literal["", "finished", "stopped", "aborted", "interrupted", "failed"] = ""
    reason: str = ""
    closed: int = 0
    measured: int = 0
    informative: int = 0
    evidence: Tally = Tally()
    waiting: dict[str, Tally] = {}  # msgspec copies an empty default for each instance
    done: set[int] = set()
    broken: str = ""

    def fold(self, event: Event) -> None:
        """Add one event."""
        if self.events == 0:
            self.started = event.wall
        self.events += 1
        self.updated = event.wall
        match event:
            case Pivot():
                self._pivot(event)
            case ProblemClosed():
                self._close(event)
            case Opened():
                self.ended, self.reason, self.paused, self.source = "", "", False, event.source or self.source
            case EngineReady():
                self.engine = event.engine
            case Paused() | Resumed():
                self.paused = isinstance(event, Paused)
            case Ended():
                self.ended, self.reason, self.paused = event.state, event.reason, False
            case _:
                pass

    def _pivot(self, pivot: Pivot) -> None:
        if counts(pivot):
            key = f"{pivot.problem}/{pivot.attempt}"
            one = tally(pivot.exact1.net, pivot.exact2.net, pivot.refeed.net)
            self.waiting[key] = self.waiting.get(key, Tally()).plus(one)

    def _close(self, event: ProblemClosed) -> None:
        found = self.waiting.pop(f"{event.problem}/{event.attempt}", Tally())
        if event.problem in self.done:
            return
        self.done.add(event.problem)
        self.closed += 1
        if event.outcome == "measured":
            self.measured += 1
            self.informative += found.eligible > 0
            self.evidence = self.evidence.plus(found)

    def headline(self) -> str:
        """The paper's excess in a few characters, e.g. "+18.7pp (33.8% vs 15.1%)"; empty without eligible pivots."""
        if self.evidence.eligible == 0:
            return ""
        refeed, floor, eligible = self.evidence.refeed, self.evidence.floor, self.evidence.eligible
        return f"{points((refeed - floor) / eligible)} ({percent(refeed / eligible)} vs {percent(floor / eligible)})"


def load(path: Path, digest: str) -> Summary:
    """The cached summary at `path`, or an empty one when there is none of this spec and version that can be read."""
    try:
        cached = msgspec.json.decode(read_bounded(path, _LIMIT), type=Summary)
    except (FileNotFoundError, RefeedError, msgspec.DecodeError, RecursionError):
        return Summary(digest=digest)
    fits = cached.digest == digest and cached.version == VERSION and min(cached.offset, cached.events) >= 0
    return cached if fits else Summary(digest=digest)


def refresh(path: Path, journal: Path, digest: str) -> Summary:
    """Bring a session's summary up to date with its journal, and store it if that is possible.

    Args:
        path: summary.json.
        journal: events.jsonl.
        digest: of the session's spec.

    Returns:
        the summary; where the journal is broken, of what comes before, with `broken` set.

    Raises:
        RefeedError: kind "failed" when the journal cannot be read.
    """
    summary = load(path, digest) if os.path.lexists(journal) else Summary(digest=digest)  # what it told of may be gone
    cached = summary.events
    _catch_up(summary, journal)
    if summary.broken and cached > 0:  # the cache may be of another journal: start over before blaming this one
        summary, cached = Summary(digest=digest), 0
        _catch_up(summary, journal)
    if summary.events > cached and not summary.broken:
        with contextlib.suppress(RefeedError):  # a reader of a read-only session does without the cache
            write_atomic(path, msgspec.json.encode(summary), durable=False)
    return summary


def recheck(path: Path, journal: Path, digest: str) -> str:
    """Hold the cached summary against the whole journal, and make it anew where it says something else.

    Args:
        path: summary.json.
        journal: events.jsonl.
        digest: of the session's spec.

    Returns:
        what was wrong, and what was done about it; empty when nothing was, or nothing is cached.

    Raises:
        RefeedError: as reading the journal.
    """
    cached, anew = load(path, digest), Summary(digest=digest)
    if cached == anew:
        return ""
    same = False
    with Follower(journal, digest) as follower:
        for event in follower:
            anew.fold(event)
            anew.offset, anew.link = follower.offset, follower.link
            same = same or (anew.offset == cached.offset and anew == cached)
    if same:
        return ""
    cut = cached.events > anew.events
    more = f"it had read {cached.events} events, and {anew.events} are there (was the journal cut?)" if cut else ""
    wrong = f"{path.name}, from which `list` is told, differed from the journal{f': {more}' if more else ''}"
    try:
        write_atomic(path, msgspec.json.encode(anew), durable=False)
    except RefeedError as error:
        return f"{wrong}; it stays, for it cannot be made anew: {error.message}"
    return f"{wrong}; made anew"


def _catch_up(summary: Summary, journal: Path) -> None:
    chain = Chain(summary.link or summary.digest, summary.events)
    with Follower(journal, summary.digest, offset=summary.offset, chain=chain) as follower:
        try:
            for event in follower:
                summary.fold(event)
        except RefeedError as error:
            if error.kind != "integrity":
                raise
            summary.broken = error.message
        summary.offset, summary.link = follower.offset, follower.link if follower.events > 0 else ""
