"""Requests in vLLM's words, and its outputs in ours."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from engine.backend import Completion, TokenLogprobs
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.backend import BlockOrigin, Finish, Request

# With output kind DELTA this gives two outputs per request: its first token, and the rest.
STREAM_INTERVAL = 2**30


def prompt_of(request: Request) -> dict[str, Any]:
    """Return the request's prompt with its salt, which vLLM hashes into the first block.

    The type says that nothing is left to render, as vLLM's `tokens_input` does; prompts without one are deprecated.
    """
    return {"type": "token", "prompt_token_ids": list(request.prompt), "cache_salt": request.salt}


def parameters(request: Request, stop_ids: Sequence[int]) -> Any:
    """Return the request's sampling parameters.

    The stop ids are given explicitly, so that what ends a request is what EngineInfo says and not a default.
    """
    from vllm import SamplingParams  # noqa: PLC0415 - vLLM only where it is used
    from vllm.sampling_params import RequestOutputKind  # noqa: PLC0415

    return SamplingParams(
        temperature=request.temperature,
        top_p=request.top_p,
        seed=request.seed,
        max_tokens=request.max_tokens,
        logprobs=request.logprobs if request.logprobs > 0 else None,
        flat_logprobs=request.logprobs > 0,
        stop_token_ids=list(stop_ids),
        ignore_eos=True,
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )


def token_logprobs(flat: Any, count: int) -> tuple[TokenLogprobs, ...]:
    """Read vLLM's flat logprobs: per position the sampled token, then the `count` likeliest in no promised order.

    Ties that vLLM's top-k cut in two are its choice; among those returned the lowest id comes first.

    Raises:
        RefeedError: kind "engine" when a logprob is not a finite number.
    """
    if not all(map(math.isfinite, flat.logprobs)):
        raise RefeedError(
            "engine",
            "the model's logits are not finite (NaN or infinity)",
            "its quantization or dtype does not fit its weights: try another `dtype`, or an unquantized checkpoint",
        )
    found = []
    for start, end in zip(flat.start_indices, flat.end_indices, strict=True):
        pairs = zip(flat.token_ids[start + 1 : end], flat.logprobs[start + 1 : end], strict=True)
        top = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:count]
        found.append(TokenLogprobs(flat.logprobs[start], tuple(top)))
    return tuple(found)


class Open:
    """A request that is being served.

    Attributes:
        request: as given.
        internal: id under which vLLM keeps it.
        tokens: generated so far, as far as delivered.
        cached_tokens: as in Completion.
        origins: as in Completion.
        started: whether its first token arrived.
    """

    __slots__ = ("cached_tokens", "internal", "logprobs", "origins", "request", "started", "tokens")

    def __init__(self, request: Request, internal: str) -> None:
        """Wait for the request's first output."""
        self.request = request
        self.internal = internal
        self.tokens: list[int] = []
        self.logprobs: tuple[TokenLogprobs, ...] = ()
        self.cached_tokens: int | None = None
        self.origins: tuple[BlockOrigin, ...] | None = None
        self.started = False

    def add(self, output: Any) -> None:
        """Take a delta: token lists may alias vLLM's own, so they are copied."""
        self.tokens.extend(output.token_ids)
        if self.request.logprobs > 0 and output.token_ids:
            self.logprobs += token_logprobs(output.logprobs, self.request.logprobs)

    def close(self, finish: Finish, preemptions: int) -> Completion:
        """Return the request's result."""
        return Completion(
            id=self.request.id,
            tokens=tuple(self.tokens),
            finish=finish,
            cached_tokens=self.cached_tokens,
            origins=self.origins,
            preemptions=preemptions,
            logprobs=self.logprobs,
        )
