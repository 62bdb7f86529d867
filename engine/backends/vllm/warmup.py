"""Requests that make the engine compile and autotune before the first measured problem, so that no pass pays for it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from engine.backend import Request
from engine.seeds import SEED_BITS

if TYPE_CHECKING:
    from engine.backend import EngineInfo, FirstToken, StepStats

SALT: Final = "warm-up"
ROUNDS: Final = 2
WIDEST: Final = 512
TOKENS: Final = 24
LAST: Final = 3
LONGEST_PROMPT: Final = 512
LOGPROBS: Final = 5


class Unwatched:
    """A `Watcher` that lets everything pass."""

    def first_token(self, _first: FirstToken) -> bool:
        """Go on."""
        return True

    def step(self, _stats: StepStats) -> bool:
        """Go on."""
        return True


def requests(info: EngineInfo, *, widest: int = WIDEST) -> tuple[Request, ...]:
    """Return a batch shaped like trunks and passes: mixed lengths, seeds with top-p, logprobs, and greedy probes.

    The second round repeats the first one's prompts, so that resuming is warmed up too.

    Args:
        info: the engine's limits.
        widest: most requests a round; a CPU needs few.
    """
    words = sorted(set(range(info.vocab_size)) - info.special_ids)
    shuffle = random.Random(0)  # noqa: S311 - filler, not a sample
    room = info.max_model_len - TOKENS - 2 * LAST  # what runs past it ends at the model's length
    blocks = max((info.num_blocks - 1) // 2, 1)
    longest = max(min(LONGEST_PROMPT, room, blocks * info.block_size // 2), 1)
    count = max(min(widest, info.max_num_seqs, blocks // (longest // info.block_size + 1)), 1)
    prompts = [tuple(shuffle.choices(words, k=max(longest * (number + 1) // count, 1))) for number in range(count)]
    made = []
    for turn in range(ROUNDS):
        for number, prompt in enumerate(prompts):
            greedy = number % 5 == 4  # noqa: PLR2004 - one probe to four continuations, as in a pass
            made.append(
                Request(
                    id=f"warm-up/{turn}/{number}",
                    prompt=prompt,
                    salt=SALT,
                    seed=None if greedy else shuffle.getrandbits(SEED_BITS),
                    temperature=0.0 if greedy else 0.7,
                    top_p=1.0 if greedy else 0.95,
                    max_tokens=TOKENS + (_longer(number) if turn == 0 else 0),
                    logprobs=int(greedy) if number % 2 else LOGPROBS,
                )
            )
    return tuple(made)


def _longer(number: int) -> int:
    """More tokens for the first few requests, so that the batch shrinks to two and to one with logprobs.

    Compiled parts of the sampler are specialised for a single row, as at the end of a trunk batch.
    """
    return max(LAST - number, 0) * 2
