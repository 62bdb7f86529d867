"""What the engine turned out to be: every setting and version that can change a logit, read back after start."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.backends.vllm.download import Source
    from sessions.spec import CampaignSpec

ELSEWHERE: Final = "chosen in the engine's own process"
MACHINE_PACKAGES: Final = ("transformers", "tokenizers", "huggingface-hub", "numpy")


def cpu_name() -> str:
    """Model of the first processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _device(spec: CampaignSpec, torch: Any, on_gpu: bool) -> dict[str, str]:
    if not on_gpu:
        return {
            "device": "cpu",
            "cpu": cpu_name(),
            "cpu_capability": str(torch.backends.cpu.get_cpu_capability()),
            "threads": str(torch.get_num_threads()),
        }
    properties = torch.cuda.get_device_properties(0)
    return {
        "device": "cuda",
        "gpu": properties.name,
        "gpus": str(spec.tensor_parallel or 1),
        "compute_capability": f"{properties.major}.{properties.minor}",
        "cuda": str(torch.version.cuda),
        "driver": driver_version(),
        "matmul_tf32": str(torch.backends.cuda.matmul.allow_tf32),
    }


def driver_version() -> str:
    """Version of the NVIDIA driver; "unknown" where it cannot be read."""
    try:
        from vllm.third_party import pynvml  # noqa: PLC0415

        pynvml.nvmlInit()
        try:
            return str(pynvml.nvmlSystemGetDriverVersion())
        finally:
            pynvml.nvmlShutdown()
    except (ImportError, OSError, AttributeError) as error:
        return f"unknown ({type(error).__name__})"


def attention_backend(config: Any) -> str:
    """Return the name of the attention backend that the model's layers use."""
    layers = config.compilation_config.static_forward_context.values()
    names = {layer.attn_backend.get_name() for layer in layers if hasattr(layer, "attn_backend")}
    return ", ".join(sorted(names)) or ELSEWHERE


def model_runner(core: Any) -> str:
    """The class that runs the model, by its full name."""
    if core is None:
        return ELSEWHERE
    worker = getattr(core.model_executor, "driver_worker", None)
    worker = getattr(worker, "worker", worker)
    runner = type(getattr(worker, "model_runner", None))
    return f"{runner.__module__}.{runner.__qualname__}"


V2_RUNNER: Final = "vllm.v1.worker.gpu.model_runner."


def _seeds(runner: str, *, on_gpu: bool) -> str:
    """What becomes of a request's seed."""
    if runner == ELSEWHERE:
        return "63-bit BLAKE2b of what the request is; the runner that draws with it is in its own process"
    if runner.startswith(V2_RUNNER):
        return "noise is a hash of (63-bit seed, position, token); greedy requests have none"
    bits = "63-bit seeds" if on_gpu else "63-bit seeds, of which torch's CPU generator takes the low 32 bits"
    return f"one generator a request, {bits}; greedy requests have none"


def _kv_dtype(config: Any, core: Any) -> str:
    """The KV cache's dtype as it is stored, where the core runs in this process."""
    if core is None:
        return str(config.cache_config.cache_dtype)
    groups = core.scheduler.kv_cache_manager.kv_cache_config.kv_cache_groups
    return ", ".join(sorted({str(getattr(group.kv_cache_spec, "dtype", "unknown")) for group in groups}))


def _kernels(config: Any, core: Any) -> dict[str, str]:
    compilation, scheduler, cache = config.compilation_config, config.scheduler_config, config.cache_config
    model = config.model_config
    return {
        "attention_backend": attention_backend(config),
        "block_size": str(cache.block_size),
        "kv_cache_dtype": _kv_dtype(config, core),
        "dtype": str(model.dtype),
        "quantization": str(model.quantization),
        "architecture": ", ".join(getattr(model.hf_config, "architectures", None) or ()),
        "max_model_len": str(model.max_model_len),
        "max_num_seqs": str(scheduler.max_num_seqs),
        "max_num_batched_tokens": str(scheduler.max_num_batched_tokens),
        "chunked_prefill": str(scheduler.enable_chunked_prefill),
        "async_scheduling": str(scheduler.async_scheduling),
        "enforce_eager": str(model.enforce_eager),
        "compilation_mode": str(compilation.mode),
        "cudagraph_mode": str(compilation.cudagraph_mode),
        "cudagraph_capture_sizes": " ".join(map(str, compilation.cudagraph_capture_sizes or ())),
        "cascade_attention": str(not model.disable_cascade_attn),
        "tensor_parallel": str(config.parallel_config.tensor_parallel_size),
        "runner": model_runner(core),
    }


def numerics(
    spec: CampaignSpec, source: Source, config: Any, core: Any, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return everything that can change a logit or a sample, by name.

    Args:
        spec: resolved settings.
        source: the model's files.
        config: vLLM's own, after start.
        core: the engine core; None when it runs in its own process.
        environment: what was known before vLLM was imported: versions, and variables that count.
    """
    import torch  # noqa: PLC0415 - vLLM brings it
    from vllm.platforms import current_platform  # noqa: PLC0415

    on_gpu = bool(current_platform.is_cuda_alike())
    return {
        **_device(spec, torch, on_gpu),
        "weights": source.commit or str(spec.model_digest),
        **_kernels(config, core),
        "batch_invariant": str(spec.batch_invariant),
        "logprobs": "raw: log-softmax in float32 before temperature and top-p",
        "sampler": "vLLM's native top-p and Gumbel argmax" if on_gpu else "vLLM's CPU top-p and Gumbel argmax",
        "seeds": _seeds(model_runner(core), on_gpu=on_gpu),
        "engine_seed": str(config.model_config.seed),
        "process": "in the worker's process" if core is not None else "in a process of its own",
        **environment,
    }


def _stages(clock: Mapping[str, float]) -> dict[str, str]:
    names, times = list(clock), list(clock.values())
    return {f"seconds until {name}": f"{now - times[0]:.1f}" for name, now in zip(names[1:], times[1:], strict=True)}


def machine(warnings: tuple[str, ...], clock: Mapping[str, float]) -> dict[str, str]:
    """Return host facts that do not change a logit.

    Args:
        warnings: what a person should know.
        clock: monotonic seconds by stage of the start, in order; the first is its beginning.
    """
    import torch  # noqa: PLC0415

    found = {
        "host_cpu": cpu_name(),
        "cpus": str(len(os.sched_getaffinity(0))),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "python": platform.python_version(),
    }
    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        found |= {"gpu_memory": f"{total / 2**30:.0f} GiB", "gpu_memory_free": f"{free / 2**30:.1f} GiB"}
    for name in MACHINE_PACKAGES:
        found[name] = metadata.version(name)
    found |= _stages(clock)
    found |= {f"warning {number}": text for number, text in enumerate(warnings, 1)}
    return found
