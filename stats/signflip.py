"""Sign-flip randomisation test over problems, one-sided (excess > 0).

Null: swapping the two comparison passes within a problem changes nothing, so each nonzero d_i is as likely negative.
p = share of the 2^m sign assignments of the m nonzero problems whose statistic is at least the observed one, counted
exactly by meet in the middle up to EXACT_LIMIT problems, by seeded Monte Carlo beyond. Ties are compared on integers:
x_i = d_i / n_i becomes x_i * lcm(n), in as many machine words as that takes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from stats.clustered import NOTHING_ELIGIBLE
from stats.words import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

EXACT_LIMIT: Final = 40
DRAWS: Final = 100_000
FEW_PROBLEMS: Final = 5

_LIMB_BITS: Final = 31
_BLOCK: Final = 8


@dataclass(frozen=True, slots=True)
class SignFlip:
    """One randomisation test.

    Attributes:
        p: one-sided p value; None without informative problems.
        nonzero: problems m that can flip; no p below 2^-m is possible.
        count: assignments at least as large as the observed one (of 2^m, or of the Monte Carlo draws).
        exact: whether all 2^m assignments were counted.
        why: the reason for None, or the limit that few problems put on p.
    """

    p: float | None
    nonzero: int
    count: int
    exact: bool
    why: str | None = None

    @property
    def smallest(self) -> float:
        """The smallest p that m problems can give."""
        return 2.0**-self.nonzero


_NOTHING: Final = SignFlip(None, 0, 0, exact=True, why=NOTHING_ELIGIBLE)


def sign_flip_mean(d: NDArray[np.int64], n: NDArray[np.int64], *, seed: int = 0) -> SignFlip:
    """Test of the per-problem mean of d_i / n_i.

    Args:
        d: int64 [G], re-feed minus floor disagreements by problem.
        n: int64 [G], eligible pivots by problem; zeros are skipped.
        seed: of the Monte Carlo beyond EXACT_LIMIT nonzero problems.
    """
    if not np.any(n > 0):
        return _NOTHING
    kept = (n > 0) & (d != 0)
    reduced = [(int(top) // math.gcd(int(top), int(low)), int(low) // math.gcd(int(top), int(low)))
               for top, low in zip(d[kept], n[kept], strict=True)]  # fmt: skip
    common = math.lcm(*(low for _, low in reduced))
    return sign_flip([top * (common // low) for top, low in reduced], seed=seed)


def sign_flip_pooled(d: NDArray[np.int64], n: NDArray[np.int64], *, seed: int = 0) -> SignFlip:
    """Test of the pooled excess: its denominator does not flip, so the statistic is sum d_i."""
    if not np.any(n > 0):
        return _NOTHING
    return sign_flip([int(value) for value in d[(n > 0) & (d != 0)]], seed=seed)


def sign_flip(weights: Sequence[int], *, seed: int = 0) -> SignFlip:
    """Test of sum(weights) against the sums under all sign assignments.

    Args:
        weights: nonzero integers of any size.
        seed: of the Monte Carlo beyond EXACT_LIMIT weights.
    """
    m = len(weights)
    if m == 0:
        return SignFlip(1.0, 0, 1, exact=True, why="0 nonzero problems: no p below 1 is possible")
    few = f"{count(m, 'nonzero problem')}: no p below 2^-{m} = {2.0**-m:.4g} is possible"
    why = few if m < FEW_PROBLEMS else None
    if m > EXACT_LIMIT:
        return _monte_carlo(weights, seed)
    limbs = _limbs([sum(weights), *(abs(weight) for weight in weights)])
    left, right = _signed_sums(limbs[1 : 1 + m // 2]), _signed_sums(limbs[1 + m // 2 :])
    need, have = _comparable(_words(limbs[:1] - left), _words(right))
    have.sort()
    reached = int(np.sum(len(have) - np.searchsorted(have, np.sort(need), side="left")))
    return SignFlip(reached / 2**m, m, reached, exact=True, why=why)


def _monte_carlo(weights: Sequence[int], seed: int) -> SignFlip:
    """The share of DRAWS seeded assignments that reach the observed sum, the observed one counted in."""
    m = len(weights)
    limbs = _limbs([sum(weights), *(abs(weight) for weight in weights)])
    rng = np.random.default_rng(seed)
    drawn = np.zeros((DRAWS, limbs.shape[1]), dtype=np.int64)
    for at in range(1, m + 1, _BLOCK):
        # one random byte picks the signs of eight problems at once
        sums = _signed_sums(limbs[at : at + _BLOCK])
        drawn += sums[rng.integers(0, len(sums), DRAWS)]
    values, need = _comparable(_words(drawn), _words(limbs[:1]))
    reached = int(np.count_nonzero(values >= need[0]))
    p = (reached + 1) / (DRAWS + 1)
    return SignFlip(p, m, reached, exact=False, why=f"Monte Carlo: {count(DRAWS, 'draw')}, seed {seed}")


def _signed_sums(limbs: NDArray[np.int64]) -> NDArray[np.int64]:
    """All 2^m signed sums of m integers in limbs, int64 [2^m, L]; limbs may be negative until carried."""
    sums = np.zeros((1, limbs.shape[1]), dtype=np.int64)
    for limb in limbs:
        sums = np.concatenate([sums - limb, sums + limb])
    return sums


def _limbs(values: Sequence[int]) -> NDArray[np.int64]:
    """Integers as limbs of 31 bits, int64 [len(values), L], lowest first; the top one carries the sign."""
    bound = 2 * sum(abs(value) for value in values)
    length = bound.bit_length() // _LIMB_BITS + 1
    low = (1 << _LIMB_BITS) - 1
    parts = [[value >> (_LIMB_BITS * at) & low for at in range(length - 1)] for value in values]
    tops = [value >> (_LIMB_BITS * (length - 1)) for value in values]
    return np.array([[*part, top] for part, top in zip(parts, tops, strict=True)], dtype=np.int64)


def _words(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """Carry, then pack limbs in pairs, int64 [n, W], lowest word first: compared from the top, the integers compare."""
    sums = sums.copy()
    for at in range(sums.shape[1] - 1):
        carry = sums[:, at] >> _LIMB_BITS
        sums[:, at] -= carry << _LIMB_BITS
        sums[:, at + 1] += carry
    words = sums[:, 0::2].copy()
    words[:, : sums.shape[1] // 2] += sums[:, 1::2] << _LIMB_BITS
    return words


def _comparable(first: NDArray[np.int64], second: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """One int64 for each integer in words, in the same order and with the same ties."""
    if first.shape[1] == 1:
        return first[:, 0], second[:, 0]
    both = np.concatenate([first, second])
    order = np.lexsort(both.T)
    rank = np.empty(len(both), dtype=np.int64)
    rank[order] = np.concatenate([[0], np.cumsum(np.any(np.diff(both[order], axis=0) != 0, axis=1))])
    return rank[: len(first)], rank[len(first) :]
