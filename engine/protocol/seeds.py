"""Request seeds: every request's sampling noise follows from what it is, never from when or beside what it runs."""

from __future__ import annotations

import hashlib
from typing import Literal

Kind = Literal["trunk", "continuation"]

SEED_BITS = 63
NONE = "-"


def request_seed(
    campaign: int,
    kind: Kind,
    problem: int,
    rollout: int,
    position: int | None = None,
    arm: str | None = None,
    k: int | None = None,
) -> int:
    """Return the 63-bit seed of one request.

    All passes give the same request the same seed (paper, section 3.1), and no two requests of a campaign share one:
    an engine that hashes (seed, position, token) would give equal seeds equal noise. Wave, attempt and order are not
    among the arguments, so a resumed problem is sampled with the noise it would have had.

    Args:
        campaign: the spec's seed.
        kind: what is sampled.
        problem: task index.
        rollout: trunk number.
        position: absolute pivot position; None for trunks.
        arm: "actual" or "alternative"; None for trunks.
        k: continuation number; None for trunks.
    """
    parts = (campaign, kind, problem, rollout, position, arm, k)
    text = "/".join(NONE if part is None else str(part) for part in parts)
    digest = hashlib.blake2b(text.encode(), digest_size=8, person=b"refeed-seed").digest()
    return int.from_bytes(digest, "little") >> (64 - SEED_BITS)
