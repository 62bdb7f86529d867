"""E-processes: evidence for an excess that may be looked at after every problem.

Each accumulator takes one x_i = d_i / n_i at a time in O(1). Under its null its value E_t is a nonnegative
supermartingale started at 1, so the chance that it ever reaches 1/alpha is at most alpha, however often one looks
(Ville's inequality). Hence the running maximum counts: a crossing stays a crossing.

- Symmetry (primary): re-feed is just another exact replay, so swapping the two comparison passes within a problem flips
  the sign of x_i. A mixture of seven tanh bets; in the form used here no term underflows.
- Betting (Waudby-Smith and Ramdas 2024, predictable plug-in bets): E[x] <= 0 with x in [-1, 1], no shape assumed.
- t (Wang and Ramdas 2025; R's avlm): Gaussian x, scale invariant, one-sided.
- Sign: only the signs of the nonzero x_i, uniform mixture; for display.

Lower bounds are one-sided at level 1 - alpha, valid at every look: the largest m at which the same process, run on
x - m, stands at 1/alpha now.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from stats.special import incomplete_beta, log_beta, t_cdf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

Process = Literal["symmetry", "betting", "t_e"]

LAMBDAS: Final = tuple(0.5 * 2.0**j for j in range(7))
MIXTURE: Final = 1.0
"""c^2 of the t e-process."""

_LN2: Final = math.log(2.0)
_LARGEST_LOG: Final = math.log(1.7e308)
_BISECTIONS: Final = 60


@dataclass(frozen=True, slots=True)
class Crossing:
    """Where a process first reached 1/alpha: how many informative problems that took, and the problem's task index."""

    informative: int
    problem: int


@dataclass(slots=True)
class EProcess:
    """Running maximum and first crossing of one process; subclasses say how log E moves.

    Attributes:
        alpha: the level; the process rejects at 1/alpha.
        n: informative problems so far.
        log_e, log_e_max: logarithms of the value and of its running maximum.
        crossing: the first crossing, which later values do not undo.
    """

    alpha: float = 0.05
    n: int = 0
    log_e: float = 0.0
    log_e_max: float = 0.0
    crossing: Crossing | None = None

    def update(self, x: float, problem: int) -> None:
        """Take the next informative problem.

        Args:
            x: d / n of the problem, in [-1, 1].
            problem: its task index.
        """
        self.n += 1
        self.log_e = self._advance(x)
        self.log_e_max = max(self.log_e_max, self.log_e)
        if self.crossing is None and self.log_e >= -math.log(self.alpha):
            self.crossing = Crossing(self.n, problem)

    def _advance(self, x: float) -> float:
        raise NotImplementedError

    @property
    def e(self) -> float:
        """The e-value now; capped at the largest float."""
        return _exp(self.log_e)

    @property
    def e_max(self) -> float:
        """The largest e-value so far."""
        return _exp(self.log_e_max)


@dataclass(slots=True)
class Symmetry(EProcess):
    """log E = logmeanexp_j sum_i [ln 2 - logaddexp(0, -2 lambda_j x_i)]."""

    sums: list[float] = field(default_factory=lambda: [0.0] * len(LAMBDAS))

    def _advance(self, x: float) -> float:
        self.sums = [total + _symmetry_step(rate * x) for total, rate in zip(self.sums, LAMBDAS, strict=True)]
        top = max(self.sums)
        return top + math.log(math.fsum(math.exp(total - top) for total in self.sums) / len(LAMBDAS))


@dataclass(slots=True)
class Betting(EProcess):
    """Product of 1 + lambda_t (y_t - 1/2) with y = (x + 1) / 2 and lambda_t from earlier problems only."""

    y_sum: float = 0.5
    square_sum: float = 0.25

    def _advance(self, x: float) -> float:
        y = (x + 1.0) / 2.0
        variance = self.square_sum / self.n
        bet = min(math.sqrt(2.0 * -math.log(self.alpha) / (variance * self.n * math.log1p(self.n))), 1.8)
        self.y_sum += y
        self.square_sum += (y - self.y_sum / (self.n + 1)) ** 2
        return self.log_e + math.log1p(bet * (y - 0.5))


@dataclass(slots=True)
class TProcess(EProcess):
    """One-sided t e-process with mixture variance c^2 = 1; E = 1 while every x is 0."""

    x_sum: float = 0.0
    square_sum: float = 0.0

    def _advance(self, x: float) -> float:
        self.x_sum += x
        self.square_sum += x * x
        return _t_log_e(self.n, self.x_sum, self.square_sum, one_sided=True)

    @property
    def two_sided(self) -> float:
        """The two-sided e-value E2 now."""
        return _exp(_t_log_e(self.n, self.x_sum, self.square_sum, one_sided=False))


@dataclass(slots=True)
class Sign(EProcess):
    """E = 2^(N+1) B(k+1, N-k+1) (1 - I_1/2(k+1, N-k+1)) on N nonzero differences, k of them positive."""

    nonzero: int = 0
    positive: int = 0

    def _advance(self, x: float) -> float:
        self.nonzero += int(x != 0)
        self.positive += int(x > 0)
        return _sign_log_e(self.nonzero, self.positive)


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

    def should_stop(self, rule: Literal["none", "symmetry", "betting"], min_problems: int) -> bool:
        """Whether a registered stop rule ends the campaign now: it crossed, and enough problems were informative."""
        if rule == "none":
            return False
        process = self.symmetry if rule == "symmetry" else self.betting
        return process.crossing is not None and self.informative >= min_problems


def monitor(problems: Iterable[int], d: Iterable[int], n: Iterable[int], *, alpha: float = 0.05) -> Monitor:
    """A monitor that has seen these problems, in this order."""
    watch = Monitor(alpha)
    for problem, difference, pivots in zip(problems, d, n, strict=True):
        watch.update(int(problem), int(difference), int(pivots))
    return watch


def symmetry_path(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithm of E after each of the problems on the last axis, float64 of x's shape."""
    rates = np.array(LAMBDAS).reshape((-1,) + (1,) * x.ndim)
    total = np.cumsum(_LN2 - np.logaddexp(0.0, -2.0 * rates * x), axis=-1)
    top = total.max(axis=0)
    return np.asarray(top + np.log(np.mean(np.exp(total - top), axis=0)))


def betting_path(x: NDArray[np.float64], alpha: float = 0.05, m: float = 0.0) -> NDArray[np.float64]:
    """Logarithm of the betting process against E[x] <= m after each of the problems on the last axis.

    Args:
        x: float64 [..., T], in [-1, 1].
        alpha: level that tunes the bets.
        m: null mean, in (-1, 1).
    """
    y, null = (x + 1.0) / 2.0, (m + 1.0) / 2.0
    t = np.arange(1, x.shape[-1] + 1, dtype=np.float64)
    mean = (0.5 + np.cumsum(y, axis=-1)) / (t + 1)
    variance = (0.25 + np.cumsum((y - mean) ** 2, axis=-1)) / (t + 1)
    before = np.concatenate([np.full((*x.shape[:-1], 1), 0.25), variance[..., :-1]], axis=-1)
    bet = np.minimum(np.sqrt(2.0 * -math.log(alpha) / (before * t * np.log1p(t))), 0.9 / null)
    return np.asarray(np.cumsum(np.log1p(bet * (y - null)), axis=-1))


def t_log_e(x: NDArray[np.float64], *, one_sided: bool = True) -> float:
    """Logarithm of the t e-process on all of x, float64 [T]."""
    return _t_log_e(len(x), float(x.sum()), float(np.sum(x * x)), one_sided=one_sided)


def lower_bound(x: NDArray[np.float64], process: Process, alpha: float = 0.05) -> float | None:
    """Largest m at which the process on x - m stands at 1/alpha or more; None where no m in (-1, 1) does.

    Args:
        x: float64 [T], informative problems in order.
        process: which one.
        alpha: one-sided level.
    """
    if len(x) == 0:
        return None
    processes: dict[Process, Callable[[float], float]] = {
        "symmetry": lambda m: float(symmetry_path(x - m)[-1]),
        "betting": lambda m: float(betting_path(x, alpha, m)[-1]),
        "t_e": lambda m: t_log_e(x - m),
    }
    log_e, need = processes[process], -math.log(alpha)
    # never above the mean: there every process is at most about 1
    low, high = -1.0 + 1e-9, min(float(x.mean()), 1.0 - 1e-9)
    if low >= high or log_e(low) < need:
        return None
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if log_e(middle) >= need else (low, middle)
    return low


def _symmetry_step(z: float) -> float:
    """Ln 2 - logaddexp(0, -2 z): log(1 + tanh z) without its -inf."""
    return _LN2 - (max(-2.0 * z, 0.0) + math.log1p(math.exp(-abs(2.0 * z))))


def _t_log_e(n: int, total: float, square: float, *, one_sided: bool) -> float:
    if square == 0:
        return 0.0
    rest = (n + MIXTURE) * square - total * total
    log_two_sided = 0.5 * math.log(MIXTURE / (n + MIXTURE)) + n / 2 * math.log((n + MIXTURE) * square / rest)
    if not one_sided:
        return log_two_sided
    below = t_cdf(n, total * math.sqrt(n / rest))
    return log_two_sided + _LN2 + (math.log(below) if below > 0 else -math.inf)


def _sign_log_e(nonzero: int, positive: int) -> float:
    upper = incomplete_beta(nonzero - positive + 1, positive + 1, 0.5)
    if upper == 0:
        return -math.inf
    return (nonzero + 1) * _LN2 + log_beta(positive + 1, nonzero - positive + 1) + math.log(upper)


def _exp(value: float) -> float:
    return math.exp(min(value, _LARGEST_LOG))
