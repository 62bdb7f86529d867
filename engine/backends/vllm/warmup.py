"""Requests that make the engine compile and autotune before the first measured problem, so that no pass pays for it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from engine.backend import Request
from engine.protocol.seeds import SEED_BITS

if TYPE_CHECKING:
    from engine.backend import EngineInfo, FirstToken, StepStats

SALT: Final = "warm-up"
WIDEST: Final = 1024  # as many as vLLM runs together unless told otherwise
TRUNKS: Final = 32
TOKENS: Final = 24
STAGGER: Final = 15
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


def batches(info: EngineInfo, *, widest: int = WIDEST) -> tuple[tuple[Request, ...], ...]:
    """Return a batch shaped like trunks and two like a pass, the second of which resumes the prompts of the first.

    Kernels are compiled anew for kinds of batch sizes (one row, multiples of 16, others), so requests end one after
    another and every batch shrinks through many sizes.

    Args:
        info: the engine's limits.
        widest: most requests a round; a CPU needs few.
    """
    words = sorted(set(range(info.vocab_size)) - info.special_ids)
    shuffle = random.Random(0)  # noqa: S311 - filler, not a sample
    room = info.max_model_len - TOKENS - max(STAGGER, TRUNKS)  # what runs past it ends at the model's length
    blocks = max((info.num_blocks - 1) // 2, 1)
    longest = max(min(LONGEST_PROMPT, room, blocks * info.block_size // 2), 1)
    count = max(min(widest, info.max_num_seqs, blocks // (longest // info.block_size + 1)), 1)
    prompts = [tuple(shuffle.choices(words, k=max(longest * (number + 1) // count, 1))) for number in range(count)]

    def sampled(name: str, prompt: tuple[int, ...], tokens: int, logprobs: int) -> Request:
        seed = shuffle.getrandbits(SEED_BITS)
        return Request(name, prompt, SALT, seed, temperature=0.7, top_p=0.95, max_tokens=tokens, logprobs=logprobs)

    def passed(turn: int, number: int, prompt: tuple[int, ...]) -> Request:
        name, tokens = f"warm-up/{turn}/{number}", TOKENS + number % STAGGER
        if number % 5 != 4:  # noqa: PLR2004 - one probe to four continuations, as in a pass
            return sampled(name, prompt, tokens, 0)
        return Request(name, prompt, SALT, None, temperature=0.0, top_p=1.0, max_tokens=tokens, logprobs=1)

    trunks = [sampled(f"warm-up/t/{at}", one, TOKENS + at, LOGPROBS) for at, one in enumerate(prompts[:TRUNKS])]
    return (
        tuple(trunks),
        *(tuple(passed(turn, number, prompt) for number, prompt in enumerate(prompts)) for turn in range(2)),
    )
