"""What vLLM's failures mean, in one line, and what to do about them; the raw log stays in worker.log."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, NamedTuple

from sessions.errors import RefeedError

TAIL_BYTES: Final = 20_000
TAIL_LINES: Final = 3
SAID: Final = 120
WHOLE: Final = "the whole log is in worker.log"
STDERR: Final = Path("/proc/self/fd/2")
TROUBLE: Final = re.compile(
    r"\b(?:WARNING|ERROR|CRITICAL|FATAL)\b|\b\w*(?:Error|Exception)\b: |Killed|Segmentation fault"
)


class Cause(NamedTuple):
    """A known failure.

    Attributes:
        pattern: searched in the exception, its causes, and then the end of the log.
        what: the cause, in words.
        advice: what to do.
    """

    pattern: str
    what: str
    advice: str


# The first that matches decides.
KNOWN: Final = (
    Cause(
        r"No space left on device|ENOSPC",
        "the disk is full",
        "free space (`df -h`), or set HF_HUB_CACHE and VLLM_CACHE_ROOT to a larger disk",
    ),
    Cause(
        r"driver on your system is too old|driver version is insufficient|unsupported display driver|"
        r"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH|forward compatibility was attempted",
        "the NVIDIA driver is older than this CUDA build of torch needs",
        "install the vllm wheel for your driver's CUDA version (`nvidia-smi` shows it; README: On a GPU), or update it",
    ),
    Cause(
        r"libcud\w+\.so[.\d]*: cannot open shared object|libnv\w+\.so[.\d]*: cannot open",
        "vLLM was built for another CUDA version than the libraries of this environment",
        "install vllm and torch together in a fresh environment (README: On a GPU)",
    ),
    Cause(
        r"system not yet initialized",
        "the GPUs of this machine are not ready (on machines with NVSwitch: the fabric manager does not run)",
        "`systemctl start nvidia-fabricmanager`, or take another machine",
    ),
    Cause(
        r"CUDA-capable device\(s\) is/are busy or unavailable",
        "the GPU is held by another process in exclusive mode, or is unavailable",
        "end that process (`nvidia-smi` lists them), or `nvidia-smi -c DEFAULT`",
    ),
    Cause(
        r"World size \(\d+\) is larger than the number of available GPUs",
        "`tensor_parallel` is larger than the number of GPUs",
        "lower it, or check CUDA_VISIBLE_DEVICES",
    ),
    Cause(
        r"No CUDA GPUs are available|Failed to infer device type|no NVIDIA driver|CUDA-capable device is detected|"
        r"CUDA driver initialization failed|CUDA unknown error",
        "no usable GPU",
        "check `nvidia-smi` and CUDA_VISIBLE_DEVICES, or run with --engine embedded",
    ),
    Cause(
        r"no kernel image is available",
        "this GPU is older than the wheels were built for",
        "use a GPU of compute capability 7.5 or newer, or build vLLM for it",
    ),
    Cause(
        r"[Bb]float16 is only supported on GPUs with compute capability",
        "this GPU has no bfloat16",
        "use --dtype float16 (another treatment than the paper's)",
    ),
    Cause(
        r"Free memory on device .* is less than desired",
        "other processes hold this GPU's memory",
        "end them (`nvidia-smi` lists them), or lower `gpu_memory_utilization`",
    ),
    Cause(
        r"Available memory on node .* is less than desired",
        "this machine's memory is in use",
        "end other processes, or give `gpu_memory_utilization` (on a CPU: the share of memory)",
    ),
    Cause(
        r"engine core's process died of SIGKILL",
        "the engine core's process was killed",
        "`dmesg | tail` names what the kernel killed for want of memory; then `refeed-tui resume`",
    ),
    Cause(
        r"No available memory for the cache blocks",
        "the weights leave no memory for the KV cache",
        "raise `gpu_memory_utilization`, use a GPU with more memory, or `tensor_parallel`",
    ),
    Cause(
        r"larger than the (maximum number of tokens|available KV cache memory)|"
        r"KV cache is needed, which is larger|not enough (GPU )?KV cache space",
        "the KV cache cannot hold one request of `max_model_len` tokens",
        "lower `max_model_len`, or raise `gpu_memory_utilization` or `kv_blocks`",
    ),
    Cause(
        r"OutOfMemoryError|CUDA out of memory|CUDA error: out of memory|not enough memory: you tried to allocate",
        "out of memory",
        "lower `gpu_memory_utilization` or `max_num_seqs`, or end other processes on the GPU (`nvidia-smi`)",
    ),
    Cause(
        r"is greater than the derived max_model_len \(sliding_window",
        "the model attends through a sliding window that is shorter than `max_model_len`",
        "lower `max_model_len` to the window: beyond it a prefix loses its start, so no pivot can be verified",
    ),
    Cause(
        r"is greater than the derived max_model_len",
        "`max_model_len` is longer than the model's context",
        "lower `max_model_len`",
    ),
    Cause(
        r"Model architectures .* (are )?not supported|is not supported for now|has no vLLM implementation",
        "vLLM does not know this model's architecture",
        "use a model that this version of vLLM lists, or a newer vllm",
    ),
    Cause(
        r"does not appear to have a file named|Invalid repository ID or local directory|We couldn't connect to|"
        r"is not a valid model identifier|Cannot find any model weights|"
        r"Error while deserializing header|Unrecognized model",
        "the model's files are incomplete or damaged",
        "download it again, or check the folder: config.json, tokenizer.json and *.safetensors",
    ),
    Cause(
        r"Unknown attention backend",
        "vLLM knows no attention backend of that name",
        "leave `attention_backend` out, or give one that vLLM knows; worker.log lists them",
    ),
    Cause(
        r"Selected backend \S+ is not valid for",
        "the attention backend does not serve this model on this GPU",
        "leave `attention_backend` out, or give another",
    ),
    Cause(
        r"No common block size for",
        "the attention backend takes no blocks of that size",
        "leave `block_size` out, or take the multiple that is named",
    ),
    Cause(
        r"max_num_batched_tokens .* is smaller than max_model_len",
        "`max_num_batched_tokens` is smaller than `max_model_len` and chunked prefill is off",
        "raise the one or lower the other",
    ),
)


def log_size() -> int:
    """Bytes that the log has; a run asks when it begins, for what is there by then was said by an earlier run."""
    try:
        return os.fstat(2).st_size
    except OSError:
        return 0


_RUN_BEGAN: Final = log_size()  # this module is imported before vLLM says anything


def log_tail() -> str:
    """Return the end of what this run wrote when stderr is a regular file, as in a worker; else nothing."""
    try:
        size = os.fstat(2).st_size
        if not STDERR.resolve().is_file():
            return ""
        with STDERR.open("rb") as file:
            file.seek(max(size - TAIL_BYTES, min(_RUN_BEGAN, size)))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in found:
        found.append(link)
        link = link.__cause__ or link.__context__
    return found


def _first_line(error: BaseException) -> str:
    # pydantic wraps what a configuration class raised, and begins with how many it was.
    wrapped = re.search(r"Value error, (.*?)\s*\[type=", str(error), re.DOTALL)
    if wrapped is not None:
        return " ".join(wrapped[1].split())
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__


def _known(known: Cause, said: str, what: str) -> RefeedError:
    """The error for a known cause: what was said is cut so that the advice after it is seen."""
    if len(said) <= SAID:
        return RefeedError("engine", f"{what}: {known.what} ({said})", known.advice)
    return RefeedError("engine", f"{what}: {known.what} ({said[: SAID - 3]}...)", f"{known.advice}; {WHOLE}")


def _last_lines(log: str) -> str:
    """The last warnings and errors; vLLM's and Python's other lines explain nothing."""
    lines = [line.strip() for line in log.splitlines() if TROUBLE.search(line)]
    return " | ".join(lines[-TAIL_LINES:])


def explain(error: BaseException, model: str, stage: str, log: str | None = None, who: str = "vLLM") -> RefeedError:
    """Return the error that a person sees.

    Args:
        error: what was raised.
        model: as given, for the message.
        stage: what was being done, for the message.
        log: end of the log; read from stderr when None.
        who: failed.
    """
    if isinstance(error, RefeedError):
        return error
    what = f"{who} failed while {stage} {model}"
    tail = log_tail() if log is None else log
    chain = _chain(error)
    text = "\n".join(f"{type(link).__name__}: {link}" for link in chain)
    for known in KNOWN:
        if re.search(known.pattern, text):
            return _known(known, _first_line(error), what)
    for known in KNOWN:
        if (found := re.search(known.pattern, tail)) is not None:
            # A core in its own process leaves its words in the log; the error here says only that it died.
            return _known(known, tail[found.start() :].splitlines()[0].strip(), what)
    last = _last_lines(tail)
    said = f"; the log's last warnings: {last}" if last else ""
    return RefeedError("engine", f"{what}: {_first_line(error)}{said}", WHOLE)
