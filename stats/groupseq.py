"""Group-sequential test of the per-problem mean excess for a registered number of problems.

The spending is that of Lan and DeMets (1983) of the O'Brien-Fleming type; the information fraction is the number of
closed problems over the registered number. The sign-flip boundary decides; the Gaussian one is for plans and drawing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

if TYPE_CHECKING:
    from numpy.typing import NDArray

FIRST_LOOK = 5
TRAJECTORIES = 20_000
_DIGITS = 9  # sums of rational x that are equal may differ in their last bits
_LEAST_VARIANCE = 1e-12
_LEAST_COUNT = 2


@dataclass(frozen=True, slots=True)
class Look:
    """State after one closed problem: counts, the plain t, and the smallest t that would have crossed here."""

    closed: int
    informative: int
    t: float | None
    boundary: float | None
    crossed: bool


def spent(fraction: float, alpha: float) -> float:
    """Cumulative one-sided alpha that O'Brien-Fleming-type spending allows at an information fraction in (0, 1]."""
    return float(2 * ndtr(-ndtri(1 - alpha / 2) / np.sqrt(fraction)))


def student_t(total: float, squares: float, count: int) -> float | None:
    """Return t of `count` values with this sum and sum of squares, or None where their variance is zero."""
    if count < _LEAST_COUNT:
        return None
    variance = (squares - total * total / count) / (count - 1)
    return total / float(np.sqrt(count * variance)) if variance > _LEAST_VARIANCE else None


class SequentialT:
    """Exact sign-flip boundary, built up one closed problem at a time and the same for every split of the data.

    All sign vectors are followed where 2^registered is at most 20,000, else that many seeded ones; the observed signs
    are the first. Past the registered number nothing holds, so `close` raises ValueError there.
    """

    def __init__(self, registered: int, alpha: float = 0.05, seed: int = 0) -> None:
        """Register the number of problems, the one-sided alpha and the seed of the sign vectors."""
        self.registered, self.alpha = registered, alpha
        self._all = registered < TRAJECTORIES.bit_length() and 2**registered <= TRAJECTORIES
        size = 2**registered if self._all else TRAJECTORIES
        self._rng = np.random.default_rng(seed)
        self._sums = np.zeros(size)
        self._alive = np.ones(size, dtype=bool)
        self._squares = 0.0
        self._informative = 0
        self.path: list[Look] = []
        self.crossed_at: int | None = None

    def close(self, x: float | None) -> Look:
        """Close one problem with its x, or with None where it had no eligible pivot; return the look."""
        closed = len(self.path) + 1
        if closed > self.registered:
            msg = f"problem {closed} is past the {self.registered} registered ones: no boundary holds there"
            raise ValueError(msg)
        signs = self._signs(closed - 1)
        if x is not None:
            self._sums += signs * x
            self._squares += x * x
            self._informative += 1
        boundary = self._take_out(closed) if self._informative >= FIRST_LOOK else None
        crossed = boundary is not None and not bool(self._alive[0]) and self.crossed_at is None
        if crossed:
            self.crossed_at = closed
        observed = student_t(float(self._sums[0]), self._squares, self._informative)
        shown = None if boundary is None else student_t(boundary, self._squares, self._informative)
        look = Look(closed, self._informative, observed, shown, crossed)
        self.path.append(look)
        return look

    def _signs(self, problem: int) -> NDArray[np.float64]:
        size = self._sums.size
        bits = (np.arange(size) >> problem) & 1 if self._all else self._rng.integers(0, 2, size)
        signs: NDArray[np.float64] = np.where(bits == 0, 1.0, -1.0).astype(np.float64)
        signs[0] = 1.0
        return signs

    def _take_out(self, closed: int) -> float | None:
        """Take out the largest living sums that spending allows, ties only whole; return the smallest of them."""
        allowed = int(spent(closed / self.registered, self.alpha) * self._sums.size + 1e-9)
        allowed -= int(np.count_nonzero(~self._alive))
        sums = np.round(self._sums, _DIGITS)
        values, counts = np.unique(sums[self._alive], return_counts=True)
        fits = int(np.count_nonzero(np.cumsum(counts[::-1]) <= allowed))
        if fits == 0:
            return None
        smallest = float(values[-fits])
        self._alive &= sums < smallest
        return smallest


def advance(
    grid: NDArray[np.float64], mass: NDArray[np.float64], step: float, edge: float, points: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Move the living mass of a Gaussian walk by one increment of standard deviation `step`, kept below `edge`."""
    to = np.linspace(-8.0, edge, points)
    density = np.exp(-0.5 * ((to[:, None] - grid[None, :]) / step) ** 2) @ mass / (step * np.sqrt(2 * np.pi))
    weight = np.full(points, to[1] - to[0])
    weight[[0, -1]] /= 2
    return to, density * weight


def gaussian_bounds(fractions: list[float], alpha: float, points: int = 2001) -> list[float]:
    """One-sided z bounds at increasing information fractions, by recursive integration (Armitage et al. 1969)."""
    bounds: list[float] = []
    grid, mass = np.zeros(1), np.ones(1)
    before, used = 0.0, 0.0
    for fraction in fractions:
        step, allowed = np.sqrt(fraction - before), spent(fraction, alpha) - used
        low, high = -9.0, 9.0
        for _ in range(60):
            middle = (low + high) / 2
            crossing = float(mass @ ndtr((grid - middle) / step))
            low, high = (middle, high) if crossing > allowed else (low, middle)
        bounds.append(high / float(np.sqrt(fraction)))
        grid, mass = advance(grid, mass, float(step), high, points)
        before, used = fraction, spent(fraction, alpha)
    return bounds


def as_t(z: float, count: int) -> float:
    """Turn a z bound into the t with count - 1 degrees of freedom that has the same upper tail probability."""
    return -float(stdtrit(count - 1, ndtr(-z)))
