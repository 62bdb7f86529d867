"""Inference that may be looked at after every problem: all e-processes of a campaign side by side.

The plain t stands beside them, labelled for what it is: valid once, at a planned end. Looked at after every
problem, its false alarms rise from 5% to between 14% and 30% on sign-flipped published data
(benchmarks/results/peeking_size.json).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from stats.confidence import Process, lower_bound
from stats.distributions import t_cdf
from stats.eprocess import Betting, Crossing, EProcess, Sign, Symmetry, TProcess

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["PLAIN_T_LABEL", "Betting", "Crossing", "EProcess", "Monitor", "PathPoint", "PlainT", "Process", "Sign",
           "StopRule", "Symmetry", "TProcess", "lower_bound", "monitor"]  # fmt: skip

StopRule = Literal["none", "symmetry", "betting"]

PLAIN_T_LABEL: Final = "fixed-n only: valid once, at the planned end"


@dataclass(slots=True)
class PlainT:
    """The t of the mean after every problem. Fixed-n only: valid once, at a planned end; peeking inflates it.

    Attributes:
        n, mean: informative problems, their mean x.
        crossing: first look at which the one-sided p fell below alpha, to show what peeking would have done.
    """

    alpha: float = 0.05
    n: int = 0
    mean: float = 0.0
    squares: float = 0.0
    first: tuple[int, int] = (0, 1)
    all_equal: bool = True
    crossing: Crossing | None = None

    def update(self, d: int, n: int, problem: int) -> None:
        """Take the next informative problem, d = re-feed minus floor disagreements of its n eligible pivots."""
        x = d / n
        self.n += 1
        if self.n == 1:
            self.first = (d, n)
        # equality is decided on integers: the floating sum of squares of equal numbers need not be 0
        self.all_equal = self.all_equal and d * self.first[1] == self.first[0] * n
        step = x - self.mean
        self.mean += step / self.n
        self.squares += step * (x - self.mean)
        t = self.t
        if self.crossing is None and t is not None and 1.0 - t_cdf(self.n - 1, t) < self.alpha:
            self.crossing = Crossing(self.n, problem)

    @property
    def t(self) -> float | None:
        """The mean over (sd / sqrt(n)); None below two problems, or while all x are equal."""
        if self.n < 2 or self.all_equal:  # noqa: PLR2004  (a standard deviation needs two)
            return None
        return self.mean / math.sqrt(self.squares / (self.n - 1) / self.n)


@dataclass(frozen=True, slots=True)
class PathPoint:
    """All processes after one informative problem; `plain_t` is valid once, at a planned end."""

    problem: int
    x: float
    mean: float
    plain_t: float | None
    symmetry: float
    betting: float
    t_e: float


@dataclass(slots=True)
class Monitor:
    """All processes of one campaign, fed with closed problems in registered order.

    Attributes:
        measured, informative: closed problems, and those with eligible pivots.
        path: one point an informative problem.
        xs: x_i of the informative problems; only lower bounds read it.
    """

    alpha: float = 0.05
    measured: int = 0
    symmetry: Symmetry = field(init=False)
    betting: Betting = field(init=False)
    t_e: TProcess = field(init=False)
    sign: Sign = field(init=False)
    plain: PlainT = field(init=False)
    path: list[PathPoint] = field(default_factory=list)
    xs: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start every process at 1.

        Raises:
            ValueError: alpha is not in (0, 1).
        """
        if not 0 < self.alpha < 1:
            message = f"alpha lies in (0, 1), not {self.alpha}"
            raise ValueError(message)
        self.symmetry, self.betting = Symmetry(self.alpha), Betting(self.alpha)
        self.t_e, self.sign, self.plain = TProcess(self.alpha), Sign(self.alpha), PlainT(self.alpha)

    @property
    def informative(self) -> int:
        """Problems with at least one eligible pivot."""
        return len(self.xs)

    def update(self, problem: int, d: int, n: int) -> None:
        """Take one closed problem; one without eligible pivots is counted and says nothing.

        Args:
            problem: task index.
            d: re-feed minus floor disagreements.
            n: eligible pivots.

        Raises:
            ValueError: |d| exceeds n, or n is negative.
        """
        if not abs(d) <= n:
            message = f"problem {problem}: {d} net disagreements of {n} eligible pivots"
            raise ValueError(message)
        self.measured += 1
        if n == 0:
            return
        x = d / n
        self.xs.append(x)
        for process in (self.symmetry, self.betting, self.t_e, self.sign):
            process.update(x, problem)
        self.plain.update(d, n, problem)
        self.path.append(
            PathPoint(problem, x, self.plain.mean, self.plain.t, self.symmetry.e, self.betting.e, self.t_e.e)
        )

    def lower(self, process: Process) -> float | None:
        """One-sided lower bound of the mean excess per problem, level 1 - alpha.

        None while no m in (-1, 1) is ruled out, and for the t e-process while all x are equal: a Gaussian without
        spread would put the bound on the mean itself.
        """
        if process == "t_e" and self.plain.all_equal:
            return None
        return lower_bound(np.array(self.xs, dtype=np.float64), process, self.alpha)

    def should_stop(self, rule: StopRule, min_problems: int) -> bool:
        """Whether a registered stop rule ends the campaign now: it crossed, and enough problems were informative."""
        return rule != "none" and self.followed(rule).crossing is not None and self.informative >= min_problems

    def followed(self, rule: StopRule) -> EProcess:
        """The e-process that a campaign stops by; the symmetry process, the primary one, where it stops by none."""
        return self.betting if rule == "betting" else self.symmetry


def monitor(problems: Iterable[int], d: Iterable[int], n: Iterable[int], *, alpha: float = 0.05) -> Monitor:
    """A monitor that has seen these problems, in this order."""
    watch = Monitor(alpha)
    for problem, difference, pivots in zip(problems, d, n, strict=True):
        watch.update(int(problem), int(difference), int(pivots))
    return watch
