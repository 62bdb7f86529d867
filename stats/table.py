"""The arrays that every statistic takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXACT1: Final = 0
EXACT2: Final = 1
REFEED: Final = 2

REPLICA_PROBE: Final = 0
REFEED_PROBE: Final = 1

UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True)
class PivotTable:
    """Evidence of one campaign: its verified pivots, by problem, in registered order.

    P pivots of G problems. Only problems that closed are here; a problem without pivots still has an entry in
    `problems`, so that "19 of 20 informative" can be said.

    Shapes and units:
        problems        int64 [G]        task index of each measured problem, in registered order
        group           int64 [P]        row of `problems` that a pivot belongs to; nondecreasing
        rollout         int64 [P]        rollout (trunk) number within the problem
        position        int64 [P]        absolute token position of the pivot
        k               int64 [P]        continuations per arm
        net             int64 [P, 3]     correct_actual - correct_alternative out of k, by pass (EXACT1, EXACT2, REFEED)
        margin          float64 [P]      top-1 minus top-2 raw logprob, nats
        hit_tokens      int64 [P]        tokens the exact passes read from the cache; UNKNOWN where not instrumented
        decode_tokens   int64 [P]        of those, how many were written in decode; UNKNOWN where no ledger can tell
        probe_delta     float64 [P, 2]   largest |first-token logprob - exact-1's| over the arms, by comparison
                                         (REPLICA_PROBE, REFEED_PROBE), nats; NaN where absent
        probe_arm_delta float64 [P, 2, 2] the same by comparison and arm (actual, alternative); NaN where absent
        probe_diverged  int8 [P, 2]      1 where a greedy probe left exact-1's tokens, 0 where not, UNKNOWN where absent
    """

    problems: NDArray[np.int64]
    group: NDArray[np.int64]
    rollout: NDArray[np.int64]
    position: NDArray[np.int64]
    k: NDArray[np.int64]
    net: NDArray[np.int64]
    margin: NDArray[np.float64]
    hit_tokens: NDArray[np.int64]
    decode_tokens: NDArray[np.int64]
    probe_delta: NDArray[np.float64]
    probe_arm_delta: NDArray[np.float64]
    probe_diverged: NDArray[np.int8]

    def __post_init__(self) -> None:
        """Check shapes and order.

        Raises:
            ValueError: an array has the wrong shape, or `group` is not a nondecreasing index into `problems`.
        """
        pivots = len(self.group)
        shapes: dict[str, tuple[int, ...]] = {
            "rollout": (pivots,),
            "position": (pivots,),
            "k": (pivots,),
            "net": (pivots, 3),
            "margin": (pivots,),
            "hit_tokens": (pivots,),
            "decode_tokens": (pivots,),
            "probe_delta": (pivots, 2),
            "probe_arm_delta": (pivots, 2, 2),
            "probe_diverged": (pivots, 2),
        }
        for name, shape in shapes.items():
            found = getattr(self, name).shape
            if found != shape:
                message = f"PivotTable.{name} has shape {found}, but {pivots} pivots need {shape}"
                raise ValueError(message)
        if pivots and (np.any(np.diff(self.group) < 0) or self.group[0] < 0 or self.group[-1] >= len(self.problems)):
            message = f"PivotTable.group must be a nondecreasing index into {len(self.problems)} problems"
            raise ValueError(message)
