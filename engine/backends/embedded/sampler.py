"""Tokens from logits: counter-based noise, inverse CDF, raw logprobs.

One uniform per (seed, generated index), whatever else runs: a request's noise never depends on the batch. The token is
the first in id order whose cumulated probability passes the uniform, so nothing is sorted to sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import torch

from engine.backend import TokenLogprobs

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCHEME: Final = "splitmix64(seed, index) inverse-cdf in id order, float64 cumulation, top-p from float32 softmax"

SORTED_WHOLE: Final = 4096  # a larger vocabulary is not sorted whole while its likeliest tokens will do
LONG_HEAD: Final = 512

_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)
_UNIT: Final = 2.0**-53


class Draws(NamedTuple):
    """How each row of a batch is sampled.

    Shapes: all [rows]. `seeds` uint64, any value for greedy rows; `indices` uint64, generated tokens before this one;
    `temperatures` float32, 0 is greedy; `top_ps` float64.
    """

    seeds: NDArray[np.uint64]
    indices: NDArray[np.uint64]
    temperatures: NDArray[np.float32]
    top_ps: NDArray[np.float64]

    def pick(self, rows: NDArray[np.int64]) -> Draws:
        """The draws of some rows."""
        return Draws(self.seeds[rows], self.indices[rows], self.temperatures[rows], self.top_ps[rows])


def uniforms(seeds: NDArray[np.uint64], indices: NDArray[np.uint64]) -> NDArray[np.float64]:
    """One number in [0, 1) per (seed, index), by SplitMix64 with the seed mixed into its state.

    Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    with np.errstate(over="ignore"):
        state = _mix(seeds + _GAMMA) + (indices + np.uint64(1)) * _GAMMA
        return (_mix(state) >> np.uint64(11)).astype(np.float64) * _UNIT


def _mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * _MIX_1
    state = (state ^ (state >> np.uint64(27))) * _MIX_2
    return state ^ (state >> np.uint64(31))


def sample(logits: torch.Tensor, draws: Draws) -> NDArray[np.int64]:
    """One token per row.

    Args:
        logits: float32 [rows, vocab].
        draws: how each row is sampled.

    Returns:
        Token ids, int64 [rows]. Greedy ties go to the lowest id.
    """
    warm = draws.temperatures > 0
    if not warm.any():
        return np.asarray(logits.argmax(-1).numpy())
    if warm.all():
        return _draw(logits, draws)
    tokens = np.asarray(logits.argmax(-1).numpy()).copy()
    rows = np.flatnonzero(warm)
    tokens[rows] = _draw(logits[torch.from_numpy(rows)], draws.pick(rows))
    return tokens


def _draw(logits: torch.Tensor, draws: Draws) -> NDArray[np.int64]:
    scaled = logits / torch.from_numpy(draws.temperatures)[:, None]
    probabilities = torch.softmax(scaled, -1).numpy()
    kept = _nucleus(probabilities, draws.top_ps)
    cumulated = np.cumsum(kept, axis=1, dtype=np.float64)
    target = uniforms(draws.seeds, draws.indices) * cumulated[:, -1]
    # The sum rises only at kept tokens, so the first place above the target is one of them.
    return np.asarray(np.argmax(cumulated > target[:, None], axis=1), dtype=np.int64)


def _nucleus(probabilities: NDArray[np.float32], top_ps: NDArray[np.float64]) -> NDArray[np.float32]:
    """Zero what lies outside the smallest likeliest set of mass `top_p`; ties at its edge enter by lowest id."""
    cut = np.flatnonzero(top_ps < 1.0)
    if len(cut) == 0:
        return probabilities
    some = probabilities if len(cut) == len(top_ps) else probabilities[cut]
    descending = _descending(some, top_ps[cut])
    before = np.cumsum(descending, axis=1, dtype=np.float64) - descending
    size = np.maximum(np.sum(before < top_ps[cut, None], axis=1), 1)
    edge = descending[np.arange(len(cut)), size - 1][:, None]
    above, tied = some > edge, some == edge
    room = size - above.sum(axis=1)
    if np.any(tied.sum(axis=1) > room):
        tied &= np.cumsum(tied, axis=1) <= room[:, None]
    kept = np.where(above | tied, some, np.float32(0))
    if len(cut) == len(top_ps):
        return kept
    out = probabilities.copy()
    out[cut] = kept
    return out


def _descending(probabilities: NDArray[np.float32], top_ps: NDArray[np.float64]) -> NDArray[np.float32]:
    """Each row's values, largest first: all of them, or of a large vocabulary the head that holds `top_p` in every row.

    Either gives the same nucleus, so which one is taken may depend on the batch.
    """
    if probabilities.shape[1] > SORTED_WHOLE:
        head = torch.topk(torch.from_numpy(probabilities), LONG_HEAD, dim=1).values.numpy()
        if np.all(np.cumsum(head, axis=1, dtype=np.float64)[:, -1] >= top_ps):
            return np.asarray(head)
    return np.asarray(-np.sort(-probabilities, axis=1))


def raw_logprobs(logits: torch.Tensor, tokens: NDArray[np.int64], counts: NDArray[np.int64]) -> list[TokenLogprobs]:
    """Logprobs before temperature, nats: of each sampled token and of the `counts[row]` likeliest ones.

    Args:
        logits: float32 [rows, vocab].
        tokens: sampled ids [rows].
        counts: how many of the likeliest to return [rows], each at least 1 and at most vocab.

    Returns:
        One record per row; ties are ordered by lowest id.
    """
    logprobs = torch.log_softmax(logits, -1)
    sampled = logprobs.gather(1, torch.from_numpy(tokens)[:, None])[:, 0].tolist()
    ids = _likeliest(logprobs, int(counts.max()))
    values = logprobs.gather(1, ids).tolist()
    rows = zip(sampled, ids.tolist(), values, counts.tolist(), strict=True)
    return [
        TokenLogprobs(value, tuple(zip(top[:count], top_values[:count], strict=True)))
        for value, top, top_values, count in rows
    ]


def _likeliest(logprobs: torch.Tensor, count: int) -> torch.Tensor:
    """Ids of the `count` largest per row, ties by lowest id: one key orders by value, then by id."""
    # Nonpositive floats order like their negated bit patterns; adding 0.0 turns -0.0 into 0.0.
    bits = (logprobs + 0.0).view(torch.int32).to(torch.int64)
    order = torch.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    vocab = logprobs.shape[1]
    key = order * vocab + torch.arange(vocab - 1, -1, -1)
    best = torch.topk(key, count, dim=1).values
    return vocab - 1 - best.remainder(vocab)
