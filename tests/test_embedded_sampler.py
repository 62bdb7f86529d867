"""Sampling: noise by counter, inverse CDF, nucleus, raw logprobs, ties."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import chdtrc

from engine.backends.embedded.sampler import LONG_HEAD, Draws, _nucleus, raw_logprobs, sample, uniforms


def draws(rows: int, *, temperature: float, top_p: float = 1.0, seed: int = 3) -> Draws:
    """Rows of one seed at consecutive indices."""
    return Draws(
        np.full(rows, seed, dtype=np.uint64),
        np.arange(rows, dtype=np.uint64),
        np.full(rows, temperature, dtype=np.float32),
        np.full(rows, top_p),
    )


def chi_square_p(counts: np.ndarray, expected: np.ndarray) -> float:
    """Upper tail of Pearson's statistic."""
    return float(chdtrc(len(counts) - 1, np.sum((counts - expected) ** 2 / expected)))


def splitmix64(state: int) -> tuple[int, int]:
    """Reference in Python's integers: the next state and output."""
    state = (state + 0x9E3779B97F4A7C15) % 2**64
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
    return state, z ^ (z >> 31)


def test_noise_is_splitmix64_of_the_mixed_seed() -> None:
    """The published generator's outputs, started at the mixed seed, give the uniforms in order."""
    assert splitmix64(1234567)[1] == 6457827717110365317  # first output of the reference implementation for this seed
    for seed in (0, 1, 2**63 - 1):
        state = splitmix64(seed)[1]
        for index in range(4):
            state, out = splitmix64(state)
            got = uniforms(np.array([seed], dtype=np.uint64), np.array([index], dtype=np.uint64))
            assert got[0] == (out >> 11) / 2**53


def test_noise_is_uniform_over_seeds_and_indices() -> None:
    """Neither neighbouring seeds nor neighbouring indices leave a trace in the histogram."""
    grid = np.arange(200_000, dtype=np.uint64)
    for noise in (uniforms(grid, np.zeros_like(grid)), uniforms(np.zeros_like(grid), grid)):
        counts = np.histogram(noise, bins=64, range=(0, 1))[0]
        assert chi_square_p(counts, np.full(64, len(grid) / 64)) > 1e-4


def test_draws_follow_the_softmax_at_the_temperature() -> None:
    """20,000 draws match the distribution by chi-square."""
    logits = torch.tensor([0.0, 1.0, -1.0, 2.0, 0.5])
    got = sample(logits.expand(20_000, -1).contiguous(), draws(20_000, temperature=0.7))
    expected = torch.softmax(logits / 0.7, -1).numpy() * 20_000
    assert chi_square_p(np.bincount(got, minlength=5), expected) > 1e-4


def test_nucleus_keeps_the_smallest_likeliest_set_that_reaches_the_mass() -> None:
    """The token that crosses top_p is in, the next is out, and the order of ids does not matter."""
    probabilities = np.array([[0.125, 0.5, 0.0625, 0.25, 0.0625]], dtype=np.float32)
    kept = [np.flatnonzero(_nucleus(probabilities, np.array([p]))[0]).tolist() for p in (0.3, 0.5, 0.6, 0.9, 1.0)]
    assert kept == [[1], [1], [1, 3], [0, 1, 2, 3], [0, 1, 2, 3, 4]]


def test_ties_at_the_edge_of_the_nucleus_enter_by_lowest_id() -> None:
    """Of equal tokens only as many enter as the mass needs, lowest ids first."""
    probabilities = np.full((1, 4), 0.25, dtype=np.float32)
    assert np.flatnonzero(_nucleus(probabilities, np.array([0.5]))[0]).tolist() == [0, 1]


@pytest.mark.parametrize("flatness", [0.1, 3.0])
def test_the_nucleus_of_a_large_vocabulary_is_that_of_a_whole_sort(flatness: float) -> None:
    """Peaked rows take the short way, flat ones the long way; both keep what a sort in float64 keeps."""
    generator = torch.Generator().manual_seed(2)
    probabilities = torch.softmax(torch.randn(4, 6000, generator=generator) / flatness, -1).numpy()
    kept = _nucleus(probabilities, np.full(4, 0.9)) > 0
    for row, one in zip(probabilities, kept, strict=True):
        order = np.argsort(-row, kind="stable")
        size = int(np.searchsorted(np.cumsum(row[order], dtype=np.float64), 0.9)) + 1
        assert np.flatnonzero(one).tolist() == sorted(order[:size].tolist())
    assert (kept.sum(axis=1) < LONG_HEAD).all() == (flatness < 1)


def test_mixed_rows_get_their_own_settings() -> None:
    """Greedy, nucleus and plain rows in one batch give what each gives alone."""
    logits = torch.randn(64, 50, generator=torch.Generator().manual_seed(0))
    mixed = Draws(
        np.arange(64, dtype=np.uint64),
        np.zeros(64, dtype=np.uint64),
        np.tile(np.array([0.0, 0.7, 1.0, 1.3], dtype=np.float32), 16),
        np.tile(np.array([1.0, 0.95, 1.0, 0.5]), 16),
    )
    together = sample(logits, mixed)
    alone = [int(sample(logits[[row]], mixed.pick(np.array([row])))[0]) for row in range(64)]
    assert together.tolist() == alone
    assert together[::4].tolist() == logits[::4].argmax(-1).tolist()


def test_greedy_ties_go_to_the_lowest_id() -> None:
    """Equal maxima: the first id."""
    logits = torch.zeros(3, 40)
    logits[1, [7, 30]] = 1.0
    assert sample(logits, draws(3, temperature=0.0)).tolist() == [0, 7, 0]


def test_raw_logprobs_ignore_temperature_and_order_ties_by_lowest_id() -> None:
    """Values are log_softmax of the logits; equal ones come by id, and a certain token has logprob 0."""
    logits = torch.tensor([[0.0, 2.0, 2.0, 1.0], [1000.0, 0.0, 0.0, 0.0]])
    records = raw_logprobs(logits, np.array([3, 0]), np.array([4, 2]))
    reference = torch.log_softmax(logits.double(), -1)
    assert [token for token, _ in records[0].top] == [1, 2, 3, 0]
    assert records[0].sampled == pytest.approx(float(reference[0, 3]), abs=1e-6)
    assert records[1].top == ((0, 0.0), (1, -1000.0))


def test_top_logprobs_agree_with_a_stable_sort_in_a_large_vocabulary() -> None:
    """With many exact ties, ids and values equal those of a stable descending sort."""
    logits = torch.randint(0, 50, (8, 5000), generator=torch.Generator().manual_seed(1)).float()
    records = raw_logprobs(logits, np.zeros(8, dtype=np.int64), np.full(8, 20))
    values, ids = torch.log_softmax(logits, -1).sort(dim=-1, descending=True, stable=True)
    for record, value, token in zip(records, values[:, :20].tolist(), ids[:, :20].tolist(), strict=True):
        assert record.top == tuple(zip(token, value, strict=True))
