"""Records of a folded campaign that a screen shows: problems, runs of the worker, and what is going on now."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import msgspec

from sessions.events import Outcome, PassEnded, Trunk
from stats.counts import ProblemTally

if TYPE_CHECKING:
    from sessions.events import EngineReady, Opened

Stage = Literal["waiting", "trunks", "exact-1", "exact-2", "re-feed", "closed"]


class ProblemRow(msgspec.Struct, frozen=True, kw_only=True):
    """One problem, in its latest attempt.

    Attributes:
        problem: task index.
        attempt: which run of the worker measures it, from 0.
        stage: how far it is.
        trunks: its rollouts; empty before they are generated, and in imports.
        right: trunks that are correct; None before they are generated.
        kept: whether the screen keeps it.
        trunk_seconds: of the batch that generated its trunks.
        trunk_batch: problems in that batch.
        passes: ended passes, in order.
        pivots: Pivot events of this attempt.
        failed: of these, pivots that failed their cache checks.
        outcome: None while it is open.
        tally: what its evidence says; None unless it closed measured.
        seconds: of its group's passes; 0 while it is open.
        batch: problems in that group.
        closed_at: monotonic seconds of the run at which it closed.
        texts: name and hash of its side file; empty when there is none.
        reason: why it was dropped or screened out.
    """

    problem: int
    attempt: int
    stage: Stage = "waiting"
    trunks: tuple[Trunk, ...] = ()
    right: int | None = None
    kept: bool = True
    trunk_seconds: float = 0.0
    trunk_batch: int = 1
    passes: tuple[PassEnded, ...] = ()
    pivots: int = 0
    failed: int = 0
    outcome: Outcome | None = None
    tally: ProblemTally | None = None
    seconds: float = 0.0
    batch: int = 1
    closed_at: float | None = None
    texts: tuple[str, str] = ("", "")
    reason: str = ""


class Current(msgspec.Struct, frozen=True, kw_only=True):
    """What the worker does now.

    Attributes:
        stage: "loading", "trunks", a pass's name, "between" problems, "paused", "closing" the engine, or "ended".
        problem: task index; None while loading, between problems, paused, closing and ended.
        problems: of the group or wave that is served; empty where only `problem` is.
        since: monotonic seconds of the run at which the stage began.
        done: requests finished.
        total: requests submitted; 0 when not known.
        verified: requests of this pass whose cache check passed.
        failed: requests of this pass whose cache check failed.
        tokens: generated in this batch.
        tokens_per_s: since the Progress before.
        kv_use: share of KV blocks in use.
        preemptions: in this batch.
    """

    stage: str = "loading"
    problem: int | None = None
    problems: tuple[int, ...] = ()
    since: float = 0.0
    done: int = 0
    total: int = 0
    verified: int = 0
    failed: int = 0
    tokens: int = 0
    tokens_per_s: float = 0.0
    kv_use: float = 0.0
    preemptions: int = 0


@dataclass(slots=True)
class Run:
    """One run of a worker on the session.

    Attributes:
        opened: its first event.
        engine: its engine; None before that answered.
        last_wall: wall time of its last event.
        seconds: monotonic seconds from its first event to its last.
        ended: how it ended; empty while it has not, or when it died.
        spoiled: whether a cache check failed that ends the campaign.
    """

    opened: Opened
    engine: EngineReady | None = None
    last_wall: float = 0.0
    seconds: float = 0.0
    ended: str = ""
    spoiled: bool = False


@dataclass(frozen=True, slots=True)
class Gap:
    """Time between two runs, when nothing was measured.

    Attributes:
        run: number of the later run, from 1 for the second.
        seconds: by wall clock; negative when the clock stepped back.
        after: how the earlier run ended; empty when it died.
        host_changed: whether the later run was on another host.
        changed: names of numerics that differ from the session's first engine.
        machine: names of machine facts that differ from the earlier run's engine, or are no longer there.
        versions: of refeed-tui before and after; None where it is the same.
        retry: whether a cache check had ended the earlier run, or was about to when it died.
    """

    run: int
    seconds: float
    after: str
    host_changed: bool
    changed: tuple[str, ...] = field(default=())
    machine: tuple[str, ...] = field(default=())
    versions: tuple[str, str] | None = None
    retry: bool = False
