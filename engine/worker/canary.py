"""A canary: the logprobs of fixed prompts, to their last bit, which tell an engine that computes otherwise.

No list of versions and variables holds everything that can change a logit. What an engine answers to the same few
requests does, as far as these requests reach: prefill of one and of several prompts, and decode steps of a batch.
"""

from __future__ import annotations

import hashlib
import random
import struct
from typing import TYPE_CHECKING, Final

from engine.backend import Request
from sessions.errors import RefeedError
from sessions.spec import MIN_LOGPROBS

if TYPE_CHECKING:
    from engine.backend import Backend, Completion, EngineInfo, FirstToken, StepStats

VARIES: Final = "varies"
LENGTHS: Final = (7, 40, 150)
TOKENS: Final = 12


class _Unwatched:
    def first_token(self, _first: FirstToken) -> bool:
        return True

    def step(self, _stats: StepStats) -> bool:
        return True


def _requests(info: EngineInfo, turn: int) -> tuple[Request, ...]:
    """Greedy requests with prompts of several lengths, as far as they fit; none where not even the shortest does."""
    words = sorted(set(range(info.vocab_size)) - info.special_ids)
    draw = random.Random(0)  # noqa: S311 - filler, not a sample
    room = min(info.max_model_len, (info.num_blocks - 1) * info.block_size) - TOKENS
    prompts = [tuple(draw.choices(words, k=length)) for length in LENGTHS if length <= room]
    return tuple(
        Request(f"canary/{turn}/{at}", prompt, f"canary/{turn}", None, 0.0, 1.0, TOKENS, MIN_LOGPROBS)
        for at, prompt in enumerate(prompts)
    )


def _digest(completions: tuple[Completion, ...]) -> str:
    content = hashlib.sha256()
    for done in completions:
        for token, said in zip(done.tokens, done.logprobs, strict=True):
            content.update(struct.pack("<qd", token, said.sampled))
            content.update(b"".join(struct.pack("<qd", other, logprob) for other, logprob in said.top))
    return content.hexdigest()


def sing(backend: Backend) -> str:
    """Digest of an engine's answers, SHA-256 hex; "varies" when it answers differently twice in a row.

    Leaves nothing in the cache. Both turns run one request alone and then all of them as a batch.

    Raises:
        RefeedError: kind "engine" when the engine fails or its cache cannot be emptied.
    """
    found = set()
    for turn in range(2):
        one = backend.run(_requests(backend.info, 2 * turn)[-1:], _Unwatched())
        _empty(backend)
        several = backend.run(_requests(backend.info, 2 * turn + 1), _Unwatched())
        _empty(backend)
        found.add(_digest((*one, *several)))
    return found.pop() if len(found) == 1 else VARIES


def _empty(backend: Backend) -> None:
    if not backend.reset_prefix_cache():
        raise RefeedError("engine", "the prefix cache could not be emptied after the canary", "see worker.log")
