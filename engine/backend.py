"""What a campaign needs from an inference engine.

A backend serves token-id requests from a prefix-cached, block-paged KV cache and tells, per request, how many prompt
tokens it read from the cache, and where it can, who wrote each of those blocks and whether in prefill or in decode.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Finish = Literal["stop", "length", "aborted"]
Proof = Literal["ledger", "counts"]


@dataclass(frozen=True, slots=True)
class Request:
    """One sampling request.

    Attributes:
        id: unique within the life of the backend; the ledger names block owners by it.
        prompt: token ids.
        salt: cache salt; requests share cached blocks only within one salt. Never empty.
        seed: 63-bit seed of the sampling noise, which must not depend on batch composition; None for greedy requests.
        temperature: 0 is greedy.
        top_p: nucleus mass.
        max_tokens: tokens to generate at most, at least 1.
        logprobs: how many top raw (before temperature) logprobs to return per generated token; 0 for none.
    """

    id: str
    prompt: tuple[int, ...]
    salt: str
    seed: int | None
    temperature: float
    top_p: float
    max_tokens: int
    logprobs: int = 0


@dataclass(frozen=True, slots=True)
class BlockOrigin:
    """Who wrote one cached block that a request hit.

    Attributes:
        owner: id of the request that stored the block.
        start: index of the block's first token in the owner's sequence (prompt and generated tokens).
        decode_tokens: how many of the block's tokens were written in decode; the others were prefilled.
    """

    owner: str
    start: int
    decode_tokens: int


@dataclass(frozen=True, slots=True)
class FirstToken:
    """What is known of a request when its first token is sampled.

    Attributes:
        id: the request's id.
        cached_tokens: prompt tokens read from the prefix cache; None when the engine did not say.
        origins: the hit blocks in order, or None when the backend has only counts.
    """

    id: str
    cached_tokens: int | None
    origins: tuple[BlockOrigin, ...] | None


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Raw logprobs at one generated position.

    Attributes:
        sampled: logprob of the sampled token, nats.
        top: (token id, logprob) of the k likeliest tokens, likeliest first, ties by lowest id.
    """

    sampled: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Completion:
    """A request's result.

    Attributes:
        id: the request's id.
        tokens: generated token ids; a stop token that ended the request is included.
        finish: "stop" (a stop token), "length" (max_tokens or the model's length), "aborted".
        cached_tokens: as in FirstToken; None also when the request ended before its first token.
        origins: as in FirstToken.
        preemptions: how often the request lost its blocks and was recomputed by prefill.
        logprobs: one per token when asked for, else empty.
    """

    id: str
    tokens: tuple[int, ...]
    finish: Finish
    cached_tokens: int | None
    origins: tuple[BlockOrigin, ...] | None
    preemptions: int
    logprobs: tuple[TokenLogprobs, ...] = ()


@dataclass(frozen=True, slots=True)
class StepStats:
    """Engine load after one step.

    Attributes:
        running: requests in the batch.
        waiting: requests not admitted yet.
        finished: requests of this call that ended.
        tokens: tokens generated so far in this call.
        kv_use: share of KV blocks in use, 0 to 1.
        preemptions: preemptions so far in this call.
    """

    running: int
    waiting: int
    finished: int
    tokens: int
    kv_use: float
    preemptions: int


class Watcher(Protocol):
    """Sees a pass while it runs. Either method returns False to stop the pass within this step."""

    def first_token(self, first: FirstToken) -> bool:
        """Called once for each request, in the step that sampled its first token."""
        ...

    def step(self, stats: StepStats) -> bool:
        """Called after each engine step."""
        ...


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What the engine turned out to be, read back after start.

    Attributes:
        engine: "embedded" or "vllm".
        model: path or hub id as given.
        block_size: KV block size in tokens.
        num_blocks: KV blocks in all.
        max_model_len: longest prompt plus generation, in tokens.
        max_num_seqs: most requests in one batch.
        vocab_size: number of token ids.
        proof: "ledger" when origins are known, else "counts".
        special_ids: token ids that may stand on neither arm of a pivot.
        stop_ids: token ids that end a request.
        numerics: every setting and version that can change a logit, by name, as text. Its digest is the numerics
            fingerprint; a resumed campaign must find it again.
        machine: host facts that do not change a logit (GPU name beside the numerics, memory, driver), by name.
    """

    engine: str
    model: str
    block_size: int
    num_blocks: int
    max_model_len: int
    max_num_seqs: int
    vocab_size: int
    proof: Proof
    special_ids: frozenset[int]
    stop_ids: frozenset[int]
    numerics: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)


class Backend(Protocol):
    """A prefix-cached inference engine."""

    @property
    def info(self) -> EngineInfo:
        """What the engine turned out to be."""
        ...

    def encode_chat(self, system: str | None, user: str) -> tuple[int, ...]:
        """Token ids of a one-turn chat, through the model's chat template, ready for the assistant's first token."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of token ids, without special tokens."""
        ...

    def run(self, requests: Sequence[Request], watcher: Watcher) -> tuple[Completion, ...]:
        """Serve requests, admitted in the order given, and return their completions in that order.

        When `watcher` returns False every unfinished request is aborted within that step and returned as "aborted".

        Raises:
            RefeedError: kind "engine" when a request cannot fit or the engine died.
        """
        ...

    def reset_prefix_cache(self) -> bool:
        """Forget every cached block. False when it could not, e.g. while blocks are in use; only True counts."""
        ...

    def close(self) -> None:
        """Free the engine's memory; safe to call twice."""
        ...
