"""A campaign as far as its journal tells: the one mutable record that `sessions.state.fold.fold` fills.

Evidence are the pivots whose cache checks did not fail, of problems that closed measured in the same attempt. They
enter when their problem closes, in that order, which is the registered one: a later problem never overtakes.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sessions.state.checks import CacheChecks
from sessions.state.columns import PivotColumns
from sessions.state.rows import Current, Gap, ProblemRow, Run
from stats.counts import no_totals, tally

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sessions.events import CacheFailure, Ended, EngineReady, Notice, WavePlanned
    from sessions.spec import CampaignSpec
    from stats.cache import CacheTally
    from stats.counts import ProblemTally, Totals
    from stats.live import Live
    from stats.table import PivotTable


# Machine facts that differ between any two starts.
_PASSING: Final = ("seconds until ", "warning ", "gpu_memory_free")


def _changed_machine(earlier: EngineReady | None, later: EngineReady | None) -> tuple[str, ...]:
    """Names of lasting machine facts in which two engines differ; none where one of them never answered."""
    if earlier is None or later is None:
        return ()
    names = (name for name in earlier.machine.keys() | later.machine.keys() if not name.startswith(_PASSING))
    return tuple(name for name in sorted(names) if earlier.machine.get(name) != later.machine.get(name))


@dataclass(slots=True)
class Dropped:
    """Pivots in the journal that are not evidence, by reason.

    Attributes:
        failed: their cache checks failed.
        problem: their problem was dropped.
        abandoned: their attempt ended before their problem closed.
    """

    failed: int = 0
    problem: int = 0
    abandoned: int = 0


@dataclass(slots=True)
class CampaignState:
    """A campaign, as far as its journal tells. `fold` changes the one that its caller owns.

    Attributes:
        spec: the registered settings.
        totals: over the problems that closed measured.
        events: folded in.
        started: wall time of the first event, seconds since the epoch.
        updated: wall time of the last event.
        mono: monotonic seconds of the last event, within its run.
        source: imported file's name; empty otherwise.
        source_sha256: hash of that file.
        runs: of the worker.
        engine: the latest; None before the first answered.
        wave: the latest; None before the first.
        current: what is going on.
        problems: by task index, in order of appearance.
        pivots: every Pivot event, by row.
        evidence: rows of `pivots` that are evidence, in registered order.
        measured: task indices of problems that closed measured, in that order.
        failures: cache failures, all attempts.
        notices: in order.
        dropped: pivots that are not evidence.
        paused: whether the worker waits.
        ended: how the last run ended; None while it has not.
        tokens: generated in ended batches of trunks and passes, all attempts.
        irregular: what a journal of this program would not say; shown in reports.
        open: rows of pivots that count once their problem closes measured, by (problem, attempt), (rollout, position).
        unclosed: problems of this run that have not closed.
        checks: cache checks, counted.
    """

    spec: CampaignSpec
    totals: Totals = field(default_factory=no_totals)
    events: int = 0
    started: float = 0.0
    updated: float = 0.0
    mono: float = 0.0
    source: str = ""
    source_sha256: str = ""
    runs: list[Run] = field(default_factory=list)
    engine: EngineReady | None = None
    wave: WavePlanned | None = None
    current: Current = field(default_factory=Current)
    problems: dict[int, ProblemRow] = field(default_factory=dict)
    pivots: PivotColumns = field(default_factory=PivotColumns)
    evidence: array[int] = field(default_factory=lambda: array("q"))
    measured: list[int] = field(default_factory=list)
    failures: list[CacheFailure] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    dropped: Dropped = field(default_factory=Dropped)
    paused: bool = False
    ended: Ended | None = None
    tokens: int = 0
    irregular: list[str] = field(default_factory=list)
    open: dict[tuple[int, int], dict[tuple[int, int], int]] = field(default_factory=dict)
    unclosed: set[int] = field(default_factory=set)
    checks: CacheChecks = field(init=False)
    _group: array[int] = field(default_factory=lambda: array("q"))
    _table: PivotTable | None = None
    _tallies: list[ProblemTally] = field(default_factory=list)
    _live: Live | None = None

    def __post_init__(self) -> None:
        """Count checks over this state's own pivots."""
        self.checks = CacheChecks(self.pivots)

    @property
    def imported(self) -> bool:
        """Whether the session came from a published file."""
        return self.source != ""

    @property
    def closed(self) -> int:
        """Problems that closed, whatever the outcome."""
        return sum(row.outcome is not None for row in self.problems.values())

    @property
    def seconds(self) -> float:
        """Seconds that workers ran, all runs, gaps left out."""
        return sum(run.seconds for run in self.runs)

    @property
    def waiting(self) -> int:
        """Pivots of problems that may still close in this run."""
        return sum(len(rows) for rows in self.open.values())

    def gaps(self) -> tuple[Gap, ...]:
        """Pauses between runs of the worker."""
        pairs = zip(self.runs, self.runs[1:], strict=False)
        return tuple(
            Gap(
                run=number,
                seconds=later.opened.wall - earlier.last_wall,
                after=earlier.ended,
                host_changed=later.opened.host != earlier.opened.host,
                changed=later.engine.changed if later.engine is not None else (),
                machine=_changed_machine(earlier.engine, later.engine),
                retry=earlier.spoiled,
                versions=None if one == other else (one, other),
            )
            for number, (earlier, later) in enumerate(pairs, start=1)
            for one, other in ((earlier.opened.version, later.opened.version),)
        )

    def evidence_mask(self) -> NDArray[np.bool_]:
        """Which rows of `pivots` are evidence now, bool [rows]."""
        import numpy as np  # noqa: PLC0415 - `list` folds without it

        mask = np.zeros(len(self.pivots), dtype=np.bool_)
        mask[np.array(self.evidence, dtype=np.int64)] = True
        return mask

    def admit(self, problem: int, rows: list[int]) -> ProblemTally:
        """Make the pivots of a problem that closed measured evidence, and return what they say."""
        found = tally(problem, map(self.pivots.nets, rows))
        self.totals = self.totals.plus(found)
        self._tallies.append(found)
        self._group.extend([len(self.measured)] * len(rows))
        self.measured.append(problem)
        self.evidence.extend(rows)
        self._table = None
        return found

    def table(self) -> PivotTable:
        """Evidence as arrays for every statistic; built once after each closing."""
        if self._table is None:
            self._table = self._build()
        return self._table

    @property
    def live(self) -> Live:
        """Running statistics over the problems that closed measured; each is taken in once, when first asked for."""
        if self._live is None:
            from stats.live import Live  # noqa: PLC0415 - `list` folds without numpy

            self._live = Live(self.spec.alpha)
        for closed in self._tallies[self._live.problems :]:
            self._live.close(closed)
        return self._live

    def _build(self) -> PivotTable:
        import numpy as np  # noqa: PLC0415 - `list` folds without it

        from stats.table import PivotTable  # noqa: PLC0415 - the same

        rows = np.array(self.evidence, dtype=np.int64)
        pivots = self.pivots
        return PivotTable(
            problems=np.array(self.measured, dtype=np.int64),
            group=np.array(self._group, dtype=np.int64),
            rollout=pivots.whole("rollout")[rows],
            position=pivots.whole("position")[rows],
            k=pivots.whole("k")[rows],
            net=pivots.wholes("net_exact1", "net_exact2", "net_refeed")[rows],
            margin=pivots.real("margin")[rows],
            hit_tokens=pivots.whole("hit_tokens")[rows],
            decode_tokens=pivots.whole("decode_tokens")[rows],
            probe_delta=pivots.deltas()[rows],
            probe_arm_delta=pivots.arm_deltas()[rows],
            probe_diverged=pivots.wholes("diverged_exact2", "diverged_refeed")[rows].astype(np.int8),
        )

    def cache_tally(self) -> CacheTally:
        """Cache checks: pivots with three ended passes in attempts that stand, and every failure of any attempt."""
        return self.checks.tally(row for rows in self.open.values() for row in rows.values())
