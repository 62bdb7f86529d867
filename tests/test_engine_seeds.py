"""Request seeds."""

from __future__ import annotations

from itertools import product

from engine.protocol.seeds import request_seed


def test_no_two_requests_of_a_campaign_share_a_seed() -> None:
    """Every (kind, problem, rollout, position, arm, k) has its own seed, within 63 bits."""
    trunks = [request_seed(0, "trunk", problem, rollout) for problem, rollout in product(range(30), range(8))]
    continuations = [
        request_seed(0, "continuation", problem, rollout, position, arm, k)
        for problem, rollout, position, arm, k in product(
            range(30), range(8), (16, 32, 161), ("actual", "alternative"), range(8)
        )
    ]
    seeds = trunks + continuations
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_parts_cannot_run_into_each_other() -> None:
    """Problem 1, rollout 11 and problem 11, rollout 1 differ."""
    assert request_seed(0, "trunk", 1, 11) != request_seed(0, "trunk", 11, 1)


def test_seeds_stay_what_they_are() -> None:
    """A changed scheme would silently resample every registered campaign."""
    assert request_seed(0, "trunk", 0, 0) == 8516524842637679337
    assert request_seed(7, "continuation", 3, 2, 161, "alternative", 1) == 8933177252208944820
