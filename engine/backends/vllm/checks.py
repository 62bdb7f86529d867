"""What a started engine must be before anything is measured on it, read back and not assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from engine.backends.vllm import describe, settings
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from sessions.spec import CampaignSpec

# Kinds of KV cache that keep every block of a prefix.
WHOLE_PREFIX: Final = frozenset({"FullAttentionSpec", "MLAAttentionSpec", "TQFullAttentionSpec"})
MID_TRUNK: Final = "it cannot resume in the middle of a trunk, so no pivot can be verified"


def _refuse_tiers(config: Any) -> None:
    if config.kv_transfer_config is not None or getattr(config.cache_config, "kv_offloading_size", None) is not None:
        raise RefeedError(
            "engine",
            "a KV connector or KV offloading is configured",
            "unset it: blocks would come back from a tier that no reset clears and no ledger sees",
        )


def _refuse_speculation(config: Any) -> None:
    if config.speculative_config is not None:
        raise RefeedError(
            "engine", "speculative decoding is configured", "unset it: drafts change which tokens decode writes"
        )


def _refuse_uncached(config: Any, core: Any) -> None:
    enabled = config.cache_config.enable_prefix_caching
    if core is not None:
        enabled = enabled and core.scheduler.kv_cache_manager.enable_caching
    if not enabled:
        raise RefeedError(
            "engine",
            "vLLM turned prefix caching off for this model or attention backend (worker.log says why)",
            "choose another attention backend or model: without a prefix cache nothing can be resumed",
        )


def _refuse_hybrids(config: Any, core: Any) -> None:
    """Sliding windows and state-space layers hold less than a prefix, and miss between their checkpoints."""
    model = config.model_config
    if model.is_hybrid or model.is_attention_free:
        raise RefeedError("engine", "the model has state-space (Mamba) or other recurrent layers", MID_TRUNK)
    if core is None:
        window = model.get_sliding_window()
        if window is not None and window < model.max_model_len:
            raise RefeedError("engine", f"the model attends through a sliding window of {window} tokens", MID_TRUNK)
        return
    groups = core.scheduler.kv_cache_manager.kv_cache_config.kv_cache_groups
    specs = [group.kv_cache_spec for group in groups]
    kinds = ", ".join(sorted({type(one).__name__ for one in specs}))
    windows = [window for one in specs if (window := getattr(one, "sliding_window", None)) is not None]
    if len(groups) != 1 or kinds not in WHOLE_PREFIX or windows:
        raise RefeedError("engine", f"the model's KV cache has {len(groups)} groups ({kinds})", MID_TRUNK)


def verify(spec: CampaignSpec, config: Any, core: Any) -> tuple[str, ...]:
    """Refuse an engine that cannot be measured on; return warnings about one that can.

    Args:
        spec: resolved settings.
        config: vLLM's own, after start.
        core: the engine core; None when it runs in its own process.

    Raises:
        RefeedError: kind "engine", with the reason.
    """
    _refuse_tiers(config)
    _refuse_speculation(config)
    _refuse_uncached(config, core)
    _refuse_hybrids(config, core)
    _verify_invariance(spec)
    _verify_runner(spec.model_runner, describe.model_runner(core))
    used = _verify_attention(spec, config)
    differ = settings.tiles_that_differ(spec, used, int(config.model_config.get_head_size()))
    warnings = [differ] if differ else []
    if spec.batch_invariant and _experts(config) > 0:
        warnings.append(
            "the model has experts (MoE), whose kernels are not batch-invariant (vllm-project/vllm 57016): only what "
            "this campaign's replica shows may be called invariant"
        )
    block = int(config.cache_config.block_size)
    if spec.block_size is not None and spec.block_size != block:
        raise RefeedError(
            "engine", f"block_size = {spec.block_size} was asked for, but vLLM uses {block}", f"set it to {block}"
        )
    if block > spec.max_trunk_tokens:
        warnings.append(f"blocks of {block} tokens leave at most one boundary in a trunk: expect few pivots or none")
    if core is None:
        warnings.append("the engine runs in its own process: hits are proved by counts alone")
    return tuple(warnings)


def _experts(config: Any) -> int:
    """Experts that a mixture-of-experts model has; 0 for dense models."""
    text = config.model_config.hf_text_config
    names = ("num_experts", "num_local_experts", "n_routed_experts")
    return max(int(getattr(text, name, None) or 0) for name in names)


def _verify_attention(spec: CampaignSpec, config: Any) -> str:
    """Return what is used."""
    return attention_used(spec.attention_backend, describe.attention_backend(config))


def attention_used(asked: str | None, told: str) -> str:
    """Return the attention backend that is used, after checking that it is the one that was asked for.

    Args:
        asked: as in the spec; None leaves the choice to vLLM. A platform with one backend takes that whatever is asked.
        told: by the started engine; a core in its own process does not tell, and takes what was asked or dies.

    Raises:
        RefeedError: kind "engine", when they differ.
    """
    if asked is None or asked.upper() == told:
        return told
    if told == describe.ELSEWHERE:
        return asked.upper()
    raise RefeedError(
        "engine",
        f"attention_backend = {asked} was asked for, but vLLM uses {told}",
        f"leave it out, or set it to {told}",
    )


def _verify_runner(asked: str, used: str) -> None:
    """Pass when the model runner is the one that was asked for; a core in its own process does not tell."""
    v2 = used.startswith(describe.V2_RUNNER)
    if asked != "auto" and used != describe.ELSEWHERE and v2 != (asked == "v2"):
        raise RefeedError(
            "engine",
            f"model_runner = {asked} was asked for, but vLLM runs this model with {used}",
            "leave it at auto, or set the other: vLLM decides by model and hardware what its runners support",
        )


def _verify_invariance(spec: CampaignSpec) -> None:
    from vllm import envs  # noqa: PLC0415

    on = bool(envs.VLLM_BATCH_INVARIANT)
    if on != spec.batch_invariant:
        raise RefeedError(
            "engine",
            f"batch_invariant is {spec.batch_invariant}, but vLLM runs with VLLM_BATCH_INVARIANT = {on}",
            "unset that variable, or start a fresh process",
        )
