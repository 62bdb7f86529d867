"""From a resolved spec to vLLM's engine arguments: the spec's where it has one, vLLM's own otherwise, safe on CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from engine.backends.vllm.sampling import STREAM_INTERVAL
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from sessions.spec import CampaignSpec

MIN_INVARIANT_CAPABILITY: Final = (8, 0)
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
    return chosen | {
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


def check_invariance(capability: tuple[int, int] | None) -> None:
    """Refuse batch invariance on hardware that has none, before weights are loaded.

    Args:
        capability: CUDA compute capability; None without a GPU.

    Raises:
        RefeedError: kind "engine".
    """
    if capability is None:
        raise RefeedError(
            "engine",
            "batch_invariant is set, but vLLM runs on a CPU here",
            "it needs an NVIDIA GPU of compute capability 8.0 or newer; the embedded engine has an invariant mode",
        )
    if capability < MIN_INVARIANT_CAPABILITY:
        raise RefeedError(
            "engine",
            f"batch_invariant is set, but this GPU has compute capability {capability[0]}.{capability[1]}",
            "it needs 8.0 or newer (A100, H100, H200, L4, RTX 30 and later)",
        )
