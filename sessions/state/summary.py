"""A session in a few integers: what `list` shows, without numpy and without folding a whole journal twice.

The integers are those of `sessions.state.fold.fold`, taken down at the end of the journal, with everything that the
fold needs to go on from there. summary.json holds them, the journal's length and its last link: a cache, and a witness
of how long the journal was. Whoever finds it stale folds only what came after.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from sessions.disk.files import read_bounded, write_atomic
from sessions.disk.journal import Chain, Follower
from sessions.errors import RefeedError
from sessions.events import Ended
from sessions.numbers import percent, points
from sessions.state.fold import fold, new_state
from sessions.state.rows import ProblemRow
from stats.counts import Totals, no_totals

if TYPE_CHECKING:
    from pathlib import Path

    from sessions.spec import CampaignSpec
    from sessions.state.campaign import CampaignState

VERSION: Final = 2
_LIMIT: Final = 1 << 24


class Waiting(msgspec.Struct, frozen=True, array_like=True):
    """A pivot that counts once its problem closes measured.

    Attributes:
        problem: task index.
        attempt: at that problem.
        rollout: the pivot's trunk.
        position: the pivot's absolute token position.
        nets: by pass: exact-1, exact-2, re-feed.
    """

    problem: int
    attempt: int
    rollout: int
    position: int
    nets: tuple[int, int, int]


class Summary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A folded journal in integers.

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
        evidence: sums over the problems that closed measured.
        done: task indices of closed problems in ascending order, whatever the outcome.
        waiting: pivots of problems that have not closed.
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
    evidence: Totals = msgspec.field(default_factory=no_totals)
    done: tuple[int, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    broken: str = ""

    @property
    def closed(self) -> int:
        """Problems that closed, whatever the outcome."""
        return len(self.done)

    @property
    def measured(self) -> int:
        """Problems that closed measured."""
        return self.evidence.problems

    def headline(self) -> str:
        """The paper's excess in a few characters, e.g. "+18.7pp (33.8% vs 15.1%)"; empty without eligible pivots."""
        common = self.evidence.common
        if common.n == 0:
            return ""
        return f"{points(common.excess)} ({percent(common.refeed.rate)} vs {percent(common.floor.rate)})"


def load(path: Path, digest: str) -> Summary:
    """The cached summary at `path`, or an empty one when there is none of this spec and version that can be read."""
    try:
        cached = msgspec.json.decode(read_bounded(path, _LIMIT), type=Summary)
    except (FileNotFoundError, RefeedError, msgspec.DecodeError, RecursionError):
        return Summary(digest=digest)
    fits = cached.digest == digest and cached.version == VERSION and min(cached.offset, cached.events) >= 0
    return cached if fits else Summary(digest=digest)


def refresh(path: Path, journal: Path, digest: str, spec: CampaignSpec) -> Summary:
    """Bring a session's summary up to date with its journal, and store it if that is possible.

    Args:
        path: summary.json.
        journal: events.jsonl.
        digest: of the session's spec.
        spec: the session's settings.

    Returns:
        the summary; where the journal is broken, of what comes before, with `broken` set.

    Raises:
        RefeedError: kind "failed" when the journal cannot be read.
    """
    cached = load(path, digest) if os.path.lexists(journal) else Summary(digest=digest)  # what it told of may be gone
    summary = _catch_up(cached, journal, spec)
    if summary.broken and cached.events > 0:  # the cache may be of another journal: start over before blaming this one
        cached = Summary(digest=digest)
        summary = _catch_up(cached, journal, spec)
    if summary.events > cached.events and not summary.broken:
        with contextlib.suppress(RefeedError):  # a reader of a read-only session does without the cache
            write_atomic(path, msgspec.json.encode(summary), durable=False)
    return summary


def witness(path: Path, journal: Path, digest: str, spec: CampaignSpec) -> str:
    """Hold the cached summary against the whole journal, and make it anew where it says something else.

    Args:
        path: summary.json.
        journal: events.jsonl.
        digest: of the session's spec.
        spec: the session's settings.

    Returns:
        what was wrong, and what was done about it; empty when nothing was, or nothing is cached.

    Raises:
        RefeedError: as reading the journal.
    """
    cached = load(path, digest)
    anew = _catch_up(Summary(digest=digest), journal, spec)
    if cached.events == 0 or (not cached.broken and _catch_up(cached, journal, spec) == anew):
        return ""
    cut = cached.events > anew.events
    more = f"it had read {cached.events} events, and {anew.events} are there (was the journal cut?)" if cut else ""
    wrong = f"{path.name}, from which `list` is told, differed from the journal{f': {more}' if more else ''}"
    try:
        write_atomic(path, msgspec.json.encode(anew), durable=False)
    except RefeedError as error:
        return f"{wrong}; it stays, for it cannot be made anew: {error.message}"
    return f"{wrong}; made anew"


def _catch_up(cached: Summary, journal: Path, spec: CampaignSpec) -> Summary:
    """Fold what the journal gained since a summary was made."""
    state, broken, started = None, "", cached.started
    chain = Chain(cached.link or cached.digest, cached.events)
    with Follower(journal, cached.digest, offset=cached.offset, chain=chain) as follower:
        offset, link = follower.offset, follower.link
        try:
            for event in follower:
                if state is None:
                    state, started = _restored(cached, spec), event.wall if cached.events == 0 else started
                fold(state, event)
                offset, link = follower.offset, follower.link
        except RefeedError as error:
            if error.kind != "integrity":
                raise
            broken = error.message
    if state is None:
        return msgspec.structs.replace(cached, broken=broken)
    return Summary(
        digest=cached.digest,
        offset=offset,
        link=link,
        events=state.events,
        started=started,
        updated=state.updated,
        engine=cached.engine if state.engine is None else state.engine.engine,
        source=state.source,
        paused=state.paused,
        ended="" if state.ended is None else state.ended.state,
        reason="" if state.ended is None else state.ended.reason,
        evidence=state.totals,
        done=tuple(sorted(problem for problem, row in state.problems.items() if row.outcome is not None)),
        waiting=tuple(_waiting(state)),
        broken=broken,
    )


def _waiting(state: CampaignState) -> list[Waiting]:
    return [
        Waiting(problem, attempt, rollout, position, state.pivots.nets(row))
        for (problem, attempt), rows in state.open.items()
        for (rollout, position), row in rows.items()
    ]


def _restored(summary: Summary, spec: CampaignSpec) -> CampaignState:
    """A state from which the fold goes on as if it had folded the events of the summary; good for a summary alone."""
    state = new_state(spec)
    state.events, state.updated, state.source = summary.events, summary.updated, summary.source
    state.paused, state.totals = summary.paused, summary.evidence
    if summary.ended:
        state.ended = Ended(state=summary.ended, exit_code=0, reason=summary.reason)
    for problem in summary.done:  # a closed problem stays closed, whichever its outcome was
        state.problems[problem] = ProblemRow(problem=problem, attempt=0, stage="closed", outcome="measured")
    for one in summary.waiting:
        place = (one.rollout, one.position)
        row = state.pivots.append_nets(one.problem, one.attempt, place, one.nets)
        state.open.setdefault((one.problem, one.attempt), {})[place] = row
    return state
