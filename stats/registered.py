"""What a campaign with a registered number of problems may say at any of its looks.

Whether it crossed is decided by the exact sign-flip boundary of `SequentialT`. The interval, the estimate and the
chance at the end take the mean of x for Gaussian, because the shift that a sign-flip test inverts to is a centre of
symmetry and not a mean; t enters through the z of equal tail probability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import ndtr, ndtri, stdtr

from stats.groupseq import FIRST_LOOK, Look, SequentialT, advance, as_t, gaussian_bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stats.clustered import Interval

# the recursion costs points^2 a look; 401 points over 16 standard deviations resolve steps of 1/200 of the information
MOST_LOOKS: Final = 200
_POINTS: Final = 401
_TAIL: Final = 0.025
_DRIFTS: Final = (-30.0, 30.0)
_BISECTIONS: Final = 50
_LEAST_Z: Final = 1e-6


@dataclass(frozen=True, slots=True)
class GroupSequential:
    """The group-sequential test after its latest look.

    Attributes:
        registered, alpha, seed: what was fixed before the first look; alpha is one-sided.
        t, boundary: the plain t and the smallest t that would have crossed, at the latest look.
        crossed_at: closed problem (counted from 1) at which the boundary was first reached, or None.
        ci95_repeated: interval of the per-problem mean, mean -+ the two-sided 5% Gaussian boundary times its
            standard error (Jennison and Turnbull 1989); it holds at every look together, for Gaussian means.
        median_unbiased: estimate of the per-problem mean at the crossing or at the registered end, by the stagewise
            ordering (Armitage 1957; Tsiatis, Rosner and Mehta 1984); None while the campaign goes on.
        on_course: the chance, given what was seen, that the one-sided t at the registered end rejects if all that is
            still to come were null (Koning and van Meer 2025, arXiv 2501.03982, for Gaussian x).
        path: one look a closed problem.
        why: the reason for None in the interval, the estimate or the chance.
    """

    registered: int
    alpha: float
    seed: int
    t: float | None
    boundary: float | None
    crossed_at: int | None
    ci95_repeated: Interval | None
    median_unbiased: float | None
    on_course: float | None
    path: tuple[Look, ...]
    why: str | None = None


def group_sequential(
    xs: Sequence[float | None], registered: int, alpha: float = 0.05, seed: int = 0
) -> GroupSequential:
    """Run the test over the closed problems in registered order.

    Args:
        xs: x of each closed problem, None where it had no eligible pivot.
        registered: problems that the campaign registered.
        alpha: one-sided level.
        seed: of the sign vectors.

    Raises:
        ValueError: there are more closed problems than registered ones.
    """
    test = SequentialT(registered, alpha, seed)
    for x in xs:
        test.close(x)
    path = tuple(test.path)
    last = path[-1] if path else None
    t, boundary = (last.t, last.boundary) if last is not None else (None, None)
    why = _missing(path, registered)
    interval = estimate = chance = None
    if last is not None and last.t is not None:
        fraction = last.closed / registered
        chance = _on_course(_as_z(last.t, last.informative), fraction, alpha)
        if why is None:
            interval = _repeated(xs, path, registered)
    ended = test.crossed_at or (registered if len(path) == registered else None)
    if why is None and ended is not None:
        estimate = _median_unbiased(xs[:ended], path[:ended], registered, alpha)
    if why is None and ended is None:
        why = "no estimate before the boundary is crossed or the registered end is reached"
    return GroupSequential(registered, alpha, seed, t, boundary, test.crossed_at, interval, estimate, chance, path, why)


def _missing(path: tuple[Look, ...], registered: int) -> str | None:
    """Why there is neither interval nor estimate, or None where there can be."""
    if not path or path[-1].informative < FIRST_LOOK:
        return f"the first look is at the {FIRST_LOOK}th informative problem"
    if path[-1].t is None:
        return "undefined: all x are equal"
    if registered > MOST_LOOKS:
        return f"not computed for more than {MOST_LOOKS} registered problems"
    return None


def _mean_and_error(xs: Sequence[float | None]) -> tuple[float, float]:
    values = np.array([x for x in xs if x is not None])
    return float(values.mean()), float(values.std(ddof=1)) / float(np.sqrt(len(values)))


def _fractions(path: Sequence[Look], registered: int) -> list[float]:
    """Information fractions of the looks."""
    return [look.closed / registered for look in path if look.informative >= FIRST_LOOK]


def _as_z(t: float, count: int) -> float:
    """Return the z of the same tail probability, taken in the lighter tail so that none rounds to 1."""
    return -float(np.sign(t)) * float(ndtri(stdtr(count - 1, -abs(t))))


def _repeated(xs: Sequence[float | None], path: Sequence[Look], registered: int) -> Interval:
    mean, error = _mean_and_error(xs)
    bound = gaussian_bounds(_fractions(path, registered), _TAIL, _POINTS)[-1]
    half = as_t(bound, path[-1].informative) * error
    return max(-1.0, mean - half), min(1.0, mean + half)


def _median_unbiased(xs: Sequence[float | None], path: Sequence[Look], registered: int, alpha: float) -> float | None:
    """Return the mean under which a result at least as extreme as this one has probability one half.

    The density of the walk that is still alive is worked out once without drift; under drift a it is that times
    exp(a b - a^2 f / 2), b the walk's place and f the information fraction.
    """
    fractions, last = _fractions(path, registered), path[-1]
    if last.t is None:
        return None
    bounds = gaussian_bounds(fractions[:-1], alpha, _POINTS)
    grid, mass, before = np.zeros(1), np.ones(1), 0.0
    for fraction, z in zip(fractions, [*bounds, _as_z(last.t, last.informative)], strict=True):
        step = float(np.sqrt(fraction - before))
        grid, mass = advance(grid, mass, step, z * float(np.sqrt(fraction)), _POINTS)
        before = fraction
    low, high = _DRIFTS
    for _ in range(_BISECTIONS):
        drift = (low + high) / 2
        below = float(np.sum(mass * np.exp(drift * grid - drift**2 * before / 2)))
        low, high = (drift, high) if below > 1 / 2 else (low, drift)
    mean, error = _mean_and_error(xs)
    z = _as_z(last.t, last.informative)
    found = (low + high) / 2 * float(np.sqrt(before))
    # back from z to t, so that one look gives the mean itself
    return found * mean / z if abs(z) > _LEAST_Z else found * error


def _on_course(z: float, fraction: float, alpha: float) -> float:
    """Conditional probability, under no further effect, that the z test at the end rejects."""
    ahead = z * float(np.sqrt(fraction)) + float(ndtri(alpha))
    if fraction >= 1:
        return float(ahead >= 0)
    return float(ndtr(ahead / np.sqrt(1 - fraction)))
