"""From a resolved spec to vLLM's engine arguments: the spec's where it has one, vLLM's own otherwise, safe on CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from engine.backends.vllm.sampling import STREAM_INTERVAL

if TYPE_CHECKING:
    from sessions.spec import CampaignSpec

LARGEST_VLLM_SEED: Final = 2**32 - 1
# Beside its trunks a cold pass reads prompts; the published ones have at most about 250 tokens.
PROMPT_ROOM: Final = 256
CPU_BLOCK: Final = 32
CPU_SEQS: Final = 256
CPU_CACHE: Final = 2**30
ARMS: Final = 2
VLLM_LOGPROBS: Final = 20  # as many as vLLM gives unless told otherwise
HEADS_THAT_DIFFER: Final = 64
DIFFERENT_TILES: Final = "FLASH_ATTN"
SAME_TILES: Final = "TRITON_ATTN"


def arguments(spec: CampaignSpec, path: str, *, cpu: bool, log_stats: bool) -> dict[str, Any]:
    """Return keyword arguments of `EngineArgs`.

    Args:
        spec: resolved settings.
        path: folder of the model's files.
        cpu: whether vLLM runs on a CPU, where blocks come in multiples of 32, nothing is compiled, and seeded sampling
            needs prompts in one piece.
        log_stats: whether vLLM counts; a core in its own process tells its load only then.
    """
    given: dict[str, Any] = {
        "model": path,
        "dtype": spec.dtype,
        "seed": spec.seed & LARGEST_VLLM_SEED,
        "max_model_len": spec.max_model_len,
        "max_num_seqs": spec.max_num_seqs,
        "max_num_batched_tokens": spec.max_num_batched_tokens,
        "block_size": spec.block_size,
        "num_gpu_blocks_override": spec.kv_blocks,
        "gpu_memory_utilization": spec.gpu_memory_utilization,
        "tensor_parallel_size": spec.tensor_parallel,
        "attention_backend": spec.attention_backend,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    if cpu:
        chosen = {"block_size": CPU_BLOCK, "max_num_seqs": CPU_SEQS, "kv_cache_memory_bytes": CPU_CACHE} | chosen
        chosen |= {"enforce_eager": True, "enable_chunked_prefill": False}
    if spec.top_logprobs > VLLM_LOGPROBS:
        chosen["max_logprobs"] = spec.top_logprobs
    if spec.batch_invariant:
        # A request that ended is still counted in the next step's batch size then (vllm-project/vllm 51287, 55752).
        chosen["async_scheduling"] = False
    return chosen | {
        # Layers with a window forget the beginning of a prefix; without it the context is capped at the window.
        "disable_sliding_window": True,
        "served_model_name": spec.model,
        "enable_prefix_caching": True,
        "stream_interval": STREAM_INTERVAL,
        "disable_log_stats": not log_stats,
    }


def step_tokens(spec: CampaignSpec) -> int:
    """Return how many prompt tokens one step of a re-feed pass may hold uncached.

    A budget below it would cut prompts at other places in the re-feed than a reader expects: chunk boundaries are part
    of the treatment.
    """
    trunks = spec.rollouts * (spec.max_trunk_tokens + PROMPT_ROOM)
    tails = spec.rollouts * spec.max_pivots * ARMS * (spec.k + 1) * (spec.boundary_slack + 1)
    return trunks + tails


def refinements(spec: CampaignSpec, *, batched_tokens: int, head_size: int) -> dict[str, Any]:
    """Return what to set on a GPU where the spec leaves it open and vLLM's own choice falls short.

    A step must hold a re-feed pass's prompts. A batch-invariant campaign is the control in which a re-feed gives the
    bits of decode: up to heads of 64 FlashAttention 3 tiles the keys of a single query and of a prompt differently,
    Triton's attention does not (docs/measurements.md).

    Args:
        spec: resolved settings.
        batched_tokens: vLLM's budget of a step.
        head_size: of the model's attention.
    """
    found: dict[str, Any] = {}
    if spec.max_num_batched_tokens is None and batched_tokens < step_tokens(spec):
        found["max_num_batched_tokens"] = step_tokens(spec)
    if spec.batch_invariant and spec.attention_backend is None and head_size <= HEADS_THAT_DIFFER:
        found["attention_backend"] = SAME_TILES
    return found


def tiles_that_differ(spec: CampaignSpec, used: str, head_size: int) -> str:
    """A warning, where a batch-invariant campaign runs on attention whose re-feed need not give the bits of decode.

    Args:
        spec: resolved settings.
        used: attention backend; where vLLM does not tell (a core in its own process), the one that was asked for.
        head_size: of the model's attention.

    Returns:
        one sentence; empty when there is nothing to warn of.
    """
    if not spec.batch_invariant or head_size > HEADS_THAT_DIFFER or used != DIFFERENT_TILES:
        return ""
    return (
        f"attention heads of {head_size}: {used} tiles the KV of decode and of prefill differently at this size, so a "
        f"re-feed need not give the bits of decode; {SAME_TILES} does"
    )
