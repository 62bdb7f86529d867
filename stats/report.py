"""Report: every number of one table, with the reason beside each one that does not exist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from stats.bootstrap import DRAWS, Bootstrap, bootstrap_ratios
from stats.clustered import Pooled, ProblemMean, pooled, problem_mean
from stats.confidence import betting_sequence
from stats.decision import Decision, decide
from stats.disagreement import ProblemCounts, disagreement, eligibility, problem_counts
from stats.margin import Margin, margin
from stats.overlap import JaccardIntervals, jaccard_intervals
from stats.paired import Bias, McNemar, bias, mcnemar
from stats.probes import ProbeReport, probe_report
from stats.rates import NothingSeen, RateInterval, clustered_rate, nothing_seen
from stats.selection import Selection, overlap_counts, selection
from stats.sequential import Crossing, EProcess, Monitor, PathPoint, Process, StopRule, monitor
from stats.signflip import SignFlip, sign_flip_mean, sign_flip_pooled
from stats.size import CreditChange, credit_change, leave_one_out
from stats.table import EXACT2, REFEED, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stats.cache import CacheTally
    from stats.clustered import Interval
    from stats.counts import Condition, Disagreement, Eligibility
    from stats.registered import GroupSequential
    from stats.table import PivotTable

__all__ = ["THRESHOLDS", "ProcessReport", "RateReport", "Report", "SelectionReport", "SequentialReport",
           "report"]  # fmt: skip

THRESHOLDS: Final = ("0.5", "0.75")


@dataclass(frozen=True, slots=True)
class RateReport:
    """Both comparisons under one conditioning, their clustered intervals, and bounds where nothing was seen."""

    counts: Disagreement
    refeed: RateInterval
    floor: RateInterval
    refeed_bound: NothingSeen | None
    floor_bound: NothingSeen | None


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """One e-process at the end: value, running maximum, first crossing of 1/alpha, one-sided lower bound."""

    e: float
    e_max: float
    crossing: Crossing | None
    lower: float | None


@dataclass(frozen=True, slots=True)
class SequentialReport:
    """Inference that survives being watched, and the plain t (fixed-n only: valid once, at a planned end).

    Attributes:
        mean_at_least, mean_at_most: betting bounds of the per-problem mean, each one-sided at 1 - alpha and the best of
            all looks. The lower bound of the symmetry process is one of a centre of symmetry and of no mean.
        t_e_withheld: why the t e-process says nothing, whatever its value.
    """

    alpha: float
    symmetry: ProcessReport
    betting: ProcessReport
    t_e: ProcessReport
    sign: ProcessReport
    plain_t: float | None
    plain_crossing: Crossing | None
    path: tuple[PathPoint, ...]
    mean_at_least: float | None
    mean_at_most: float | None
    t_e_withheld: str | None

    def followed(self, rule: StopRule) -> ProcessReport:
        """What `Monitor.followed` was at the end."""
        return self.betting if rule == "betting" else self.symmetry


@dataclass(frozen=True, slots=True)
class SelectionReport:
    """Critical-token selection at one threshold, with BCa and with clustered intervals of both Jaccards."""

    selection: Selection
    refeed_ci: Bootstrap
    replica_ci: Bootstrap
    jaccards: JaccardIntervals


@dataclass(frozen=True, slots=True)
class Report:
    """Every number of one table.

    Attributes:
        k: the distinct K, ascending.
        exact1_excess, exact1_sign_flip: the pooled excess and its test under the treatment-independent conditioning.
        leave_one_out: range of the pooled excess with one problem left out.
        group_sequential: the test of a campaign with a registered number of problems, over those problems only; None
            where no number is registered.
        no_decode_state: common conditioning on the pivots whose whole hit lies in the prompt, a free control; None
            where no ledger says how a hit was written.
        notes: the caller's own; `sessions.report.reasons.all_notes` puts the reason for every None before them.
    """

    pivots: int
    problems: int
    informative_problems: int
    k: tuple[int, ...]
    common: RateReport
    exact1: RateReport
    eligibility: Eligibility
    pooled_excess: Pooled
    exact1_excess: Pooled
    exact1_sign_flip: SignFlip
    leave_one_out: Interval | None
    credit_change: CreditChange
    pooled_bootstrap: Bootstrap
    pooled_sign_flip: SignFlip
    clustered: ProblemMean
    clustered_sign_flip: SignFlip
    sequential: SequentialReport
    group_sequential: GroupSequential | None
    mcnemar: McNemar
    bias: Bias
    selection: dict[str, SelectionReport]
    margin: Margin
    probe: ProbeReport
    no_decode_state: Disagreement | None
    cache: CacheTally | None
    decision: Decision
    notes: tuple[str, ...]


def report(
    table: PivotTable,
    *,
    alpha: float = 0.05,
    decision: tuple[float, float] = (0.02, 0.05),
    seed: int = 0,
    draws: int = DRAWS,
    thresholds: Sequence[str] = THRESHOLDS,
    registered: int | None = None,
    cache: CacheTally | None = None,
    notes: Sequence[str] = (),
) -> Report:
    """Compute everything that `refeed-tui report` prints for one session or pool.

    Args:
        table: the evidence; only closed problems, only verified pivots.
        alpha: level of the sequential inference; all other intervals are at 95%.
        decision: (negligible below, load-bearing above), thresholds on the pooled excess.
        seed: of the bootstrap and of Monte Carlo sign flips.
        draws: bootstrap draws of problems.
        thresholds: of the critical-token selection, as decimal text.
        registered: problems that the campaign registered before it began; None for an open-ended one.
        cache: what the cache checks came to, if the caller knows.
        notes: the caller's own, for example what pooling dropped.

    Raises:
        ValueError: a threshold, alpha or draws is out of range.
    """
    counts = problem_counts(table)
    d, n = counts.excess, counts.n
    exact1 = problem_counts(table, "exact1")
    overlaps = [overlap_counts(table, cut, compared) for cut in thresholds for compared in (REFEED, EXACT2)]
    excess_ci, *overlap_ci = bootstrap_ratios(
        [(d, n), *((overlap.both, overlap.either) for overlap in overlaps)], draws=draws, seed=seed
    )
    negligible, load_bearing = decision
    return Report(
        pivots=len(table.group),
        problems=len(table.problems),
        informative_problems=counts.informative,
        k=tuple(int(value) for value in np.unique(table.k)),
        common=_rates(table, "common", counts),
        exact1=_rates(table, "exact1", exact1),
        eligibility=eligibility(table.net),
        pooled_excess=pooled(d, n),
        exact1_excess=pooled(exact1.excess, exact1.n),
        exact1_sign_flip=sign_flip_pooled(exact1.excess, exact1.n, seed=seed),
        leave_one_out=leave_one_out(d, n),
        credit_change=credit_change(table),
        pooled_bootstrap=excess_ci,
        pooled_sign_flip=sign_flip_pooled(d, n, seed=seed),
        clustered=problem_mean(d, n),
        clustered_sign_flip=sign_flip_mean(d, n, seed=seed),
        sequential=_sequential(monitor(table.problems, d, n, alpha=alpha)),
        group_sequential=None if registered is None else _group_sequential(d, n, registered, alpha, seed),
        mcnemar=mcnemar(table),
        bias=bias(table),
        selection={
            cut: SelectionReport(
                selection(table, cut),
                overlap_ci[2 * at],
                overlap_ci[2 * at + 1],
                jaccard_intervals(overlaps[2 * at], overlaps[2 * at + 1]),
            )
            for at, cut in enumerate(thresholds)
        },
        margin=margin(table),
        probe=probe_report(table),
        no_decode_state=_no_decode_state(table),
        cache=cache,
        decision=decide(int(d.sum()), int(n.sum()), negligible=negligible, load_bearing=load_bearing),
        notes=tuple(notes),
    )


def _rates(table: PivotTable, condition: Condition, counts: ProblemCounts) -> RateReport:
    found = disagreement(table.net, condition)

    def bound(events: int) -> NothingSeen | None:
        return nothing_seen(found.n, counts.informative) if events == 0 else None

    return RateReport(
        counts=found,
        refeed=clustered_rate(counts.refeed, counts.n),
        floor=clustered_rate(counts.floor, counts.n),
        refeed_bound=bound(found.refeed.disagree),
        floor_bound=bound(found.floor.disagree),
    )


def _sequential(watch: Monitor) -> SequentialReport:
    def process(running: EProcess, name: Process | None) -> ProcessReport:
        lower = watch.lower(name) if name is not None else None
        return ProcessReport(running.e, running.e_max, running.crossing, lower)

    least, most = betting_sequence(np.array(watch.xs, dtype=np.float64), watch.alpha)
    return SequentialReport(
        alpha=watch.alpha,
        symmetry=process(watch.symmetry, "symmetry"),
        betting=process(watch.betting, "betting"),
        t_e=process(watch.t_e, "t_e"),
        sign=process(watch.sign, None),
        plain_t=watch.plain.t,
        plain_crossing=watch.plain.crossing,
        path=tuple(watch.path),
        mean_at_least=least,
        mean_at_most=most,
        t_e_withheld="withheld: all x are equal, and it takes x for Gaussian" if watch.plain.all_equal else None,
    )


def _group_sequential(
    d: NDArray[np.int64], n: NDArray[np.int64], registered: int, alpha: float, seed: int
) -> GroupSequential:
    """Test over the registered problems; what was measured beyond them has no boundary."""
    from stats.registered import group_sequential  # noqa: PLC0415  (it loads scipy, which importing must not)

    xs = [int(top) / int(low) if low > 0 else None for top, low in zip(d, n, strict=True)]
    return group_sequential(xs[:registered], registered, alpha, seed)


def _no_decode_state(table: PivotTable) -> Disagreement | None:
    if not np.any(table.decode_tokens != UNKNOWN):
        return None
    return disagreement(table.net[table.decode_tokens == 0])
