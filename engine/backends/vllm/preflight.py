"""What can be known before weights are loaded: who holds the GPUs, what the driver is for, whether a download fits.

Imports nothing of vLLM or torch, so that `doctor` may ask too.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from sessions.errors import RefeedError
from stats.words import count

GIB: Final = 1 << 30
OLD_DRIVER_HINT: Final = "install vLLM's build for your driver's CUDA version (README: On a GPU), or update the driver"
QUERY: Final = ("nvidia-smi", "--query-compute-apps=pid,used_memory,process_name", "--format=csv,noheader,nounits")


def holders() -> tuple[str, ...]:
    """Processes that hold GPU memory, one sentence each; empty where nvidia-smi does not answer."""
    try:
        done = subprocess.run(QUERY, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return read_holders(done.stdout)


def read_holders(table: str) -> tuple[str, ...]:
    """Sentences from nvidia-smi's lines of "pid, MiB, name"; a container shows a pid without a name."""
    rows = [[cell.strip() for cell in line.split(",", 2)] for line in table.splitlines() if line.count(",") > 1]
    return tuple(f"pid {pid} ({name}) holds {mib} MiB of a GPU" for pid, mib, name in rows)


def driver_cuda() -> tuple[int, int] | None:
    """The newest CUDA version that the NVIDIA driver serves, compatibility libraries counted in; None without one."""
    version = ctypes.c_int(0)
    try:
        answer = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    # CUDA writes 12.4 as 12040; 0 stands for no driver behind the library.
    return (version.value // 1000, version.value % 1000 // 10) if answer == 0 and version.value > 0 else None


def torch_cuda() -> tuple[int, int] | None:
    """The CUDA version that this environment's torch was built for, without importing it; None for other builds."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        return None
    try:
        said = (Path(found.origin).parent / "version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    cuda = re.search(r"^cuda\b[^=\n]*= *'(\d+)\.(\d+)", said, re.MULTILINE)
    return None if cuda is None else (int(cuda[1]), int(cuda[2]))


def driver_too_old(driver: tuple[int, int] | None, built: tuple[int, int] | None) -> str:
    """Whether a driver is older than torch's CUDA build needs, as a sentence; empty when it is not, or nobody knows.

    Within one major version every driver serves every build (CUDA's minor version compatibility).

    Args:
        driver: newest CUDA version of the driver; None when unknown.
        built: CUDA version of torch; None for builds without it.
    """
    if driver is None or built is None or driver[0] >= built[0]:
        return ""
    served, wanted = (".".join(map(str, version)) for version in (driver, built))
    return f"the NVIDIA driver serves CUDA up to {served}, but torch was built for {wanted}"


def require_driver() -> None:
    """Refuse a driver that is too old for torch, before anything is imported or downloaded.

    Raises:
        RefeedError: kind "engine".
    """
    if os.environ.get("VLLM_ENABLE_CUDA_COMPATIBILITY", "0").strip().lower() in {"1", "true"}:
        return  # vLLM will put newer libraries in front of the driver's
    wrong = driver_too_old(driver_cuda(), torch_cuda())
    if wrong:
        raise RefeedError("engine", wrong, OLD_DRIVER_HINT)


def require_gpus(seen: int, tensor_parallel: int | None) -> None:
    """Refuse fewer GPUs than are asked for, before anything is downloaded; vLLM would say it after that.

    Args:
        seen: GPUs that vLLM would use.
        tensor_parallel: as in the spec; None is one GPU.

    Raises:
        RefeedError: kind "engine".
    """
    wanted = 1 if tensor_parallel is None else tensor_parallel
    if seen < wanted:
        raise RefeedError(
            "engine",
            f"vLLM sees {count(seen, 'GPU')}, but `tensor_parallel` is {wanted}",
            "check `nvidia-smi` and CUDA_VISIBLE_DEVICES, or change it",
        )


def gibibytes(size: int) -> str:
    """A size for people."""
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size / (1 << 20):.1f} MiB"


def room(folder: Path) -> tuple[Path, int]:
    """The nearest folder above that exists, and the bytes that its disk has free."""
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return there, shutil.disk_usage(there).free


def require_room(folder: Path, needed: int, model: str) -> None:
    """Refuse a download that does not fit its disk.

    Args:
        folder: that it goes to; need not exist yet.
        needed: bytes; nothing is asked of the disk when 0.
        model: as given, for the message.

    Raises:
        RefeedError: kind "engine", naming the bytes that are needed and free, and the folder.
    """
    if needed == 0:
        return
    there, free = room(folder)
    hint = "set HF_HUB_CACHE to a folder on a larger disk"
    if not os.access(there, os.W_OK | os.X_OK):
        raise RefeedError("engine", f"{model} must be downloaded, but {there} cannot be written", hint)
    if free < needed:
        raise RefeedError(
            "engine",
            f"the download of {model} needs {needed:,} bytes ({gibibytes(needed)}), but the disk of {folder} has "
            f"{free:,} ({gibibytes(free)}) free",
            f"free space there, or {hint} (HF_HOME moves it too, and the saved token with it)",
        )
