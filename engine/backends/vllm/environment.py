"""Environment variables that vLLM reads when it is imported; they are set before, and recorded after."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Mapping

MULTIPROCESS: Final = "REFEED_TUI_VLLM_MULTIPROCESS"
MODE: Final = "VLLM_ENABLE_V1_MULTIPROCESSING"  # vLLM's own word for it
# Set unless the caller's environment says otherwise. All of our sampled requests carry seeds, which FlashInfer's
# sampler does not serve; without it nothing is compiled for a path that is never taken.
DEFAULTS: Final = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "TOKENIZERS_PARALLELISM": "false",
}
# Anything under these prefixes may choose a kernel, a reduction order or a batch; secrets are left out by name.
PREFIXES: Final = ("VLLM_", "CUBLAS_", "CUDNN_", "NVIDIA_TF32", "NCCL_", "OMP_", "MKL_", "TORCH", "PYTORCH_", "TRITON_")
NO_NUMERICS: Final = frozenset(
    {
        "VLLM_API_KEY",
        "VLLM_CACHE_ROOT",
        "VLLM_CONFIG_ROOT",
        "VLLM_CPU_KVCACHE_SPACE",
        "VLLM_DIST_IDENT",
        "VLLM_HOST_IP",
        "VLLM_LOGGING_LEVEL",
        "VLLM_NO_USAGE_STATS",
        "VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME",
        "VLLM_PORT",
        "VLLM_RPC_BASE_PATH",
        "TORCHINDUCTOR_CACHE_DIR",
        "TRITON_CACHE_DIR",
    }
)


def multiprocess_wanted() -> bool:
    """Whether the caller's environment asks for the engine core in a process of its own."""
    return os.environ.get(MULTIPROCESS, "0") == "1"


def prepare(*, multiprocess: bool, batch_invariant: bool) -> dict[str, str]:
    """Set what vLLM must find at import; return what is to be recorded, before vLLM adds variables of its own.

    Raises:
        RefeedError: kind "engine" when vLLM was imported before with another batch invariance.
    """
    wanted = {
        MODE: "1" if multiprocess else "0",
        "VLLM_BATCH_INVARIANT": "1" if batch_invariant else "0",
    }
    was = os.environ.get("VLLM_BATCH_INVARIANT", "0")
    if "vllm.v1" in sys.modules and was != wanted["VLLM_BATCH_INVARIANT"]:
        raise RefeedError(
            "engine", "vLLM was already imported with another VLLM_BATCH_INVARIANT", "start a fresh process"
        )
    os.environ.update(wanted)
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    return recorded(os.environ)


def recorded(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that can change a logit, by name with the prefix "env:"."""
    return {
        f"env:{name}": value
        for name, value in sorted(environment.items())
        if name.startswith(PREFIXES) and name not in NO_NUMERICS
    }
