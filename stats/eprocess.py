"""E-processes: evidence for an excess that may be looked at after every problem.

Each accumulator takes one x_i = d_i / n_i at a time in O(1). Under its null its value E_t is a nonnegative
supermartingale started at 1, so the chance that it ever reaches 1/alpha is at most alpha, however often one looks
(Ville's inequality). Hence the running maximum counts: a crossing stays a crossing.

- Symmetry (primary): re-feed is just another exact replay, so swapping the two comparison passes within a problem flips
  the sign of x_i. A mixture of seven tanh bets; in the form used here no term underflows.
- Betting (Waudby-Smith and Ramdas 2024, predictable plug-in bets): E[x] <= 0 with x in [-1, 1], no shape assumed.
- t (Wang and Ramdas 2025; R's avlm): Gaussian x, scale invariant, one-sided.
- Sign: only the signs of the nonzero x_i, uniform mixture; for display.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Final

from stats.distributions import incomplete_beta, log_beta, t_cdf

LAMBDAS: Final = tuple(0.5 * 2.0**j for j in range(7))
MIXTURE: Final = 1.0
"""c^2 of the t e-process."""

_LN2: Final = math.log(2.0)
_LARGEST_LOG: Final = math.log(1.7e308)


@dataclass(frozen=True, slots=True)
class Crossing:
    """Where a process first reached 1/alpha: how many informative problems that took, and the problem's task index."""

    informative: int
    problem: int


@dataclass(slots=True)
class EProcess(ABC):
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

    @abstractmethod
    def _advance(self, x: float) -> float:
        """Take x and return the new log E."""

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
        return t_process_log(self.n, self.x_sum, self.square_sum, one_sided=True)

    @property
    def two_sided(self) -> float:
        """The two-sided e-value E2 now."""
        return _exp(t_process_log(self.n, self.x_sum, self.square_sum, one_sided=False))


@dataclass(slots=True)
class Sign(EProcess):
    """E = 2^(N+1) B(k+1, N-k+1) (1 - I_1/2(k+1, N-k+1)) on N nonzero differences, k of them positive."""

    nonzero: int = 0
    positive: int = 0

    def _advance(self, x: float) -> float:
        self.nonzero += int(x != 0)
        self.positive += int(x > 0)
        return _sign_log_e(self.nonzero, self.positive)


def _symmetry_step(z: float) -> float:
    """Ln 2 - logaddexp(0, -2 z): log(1 + tanh z) without its -inf."""
    return _LN2 - (max(-2.0 * z, 0.0) + math.log1p(math.exp(-abs(2.0 * z))))


def t_process_log(n: int, total: float, square: float, *, one_sided: bool) -> float:
    """Logarithm of the t e-process from n, S = sum x and V = sum x^2."""
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
