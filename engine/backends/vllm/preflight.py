"""What can be known before weights are loaded: who holds the GPUs, and whether a download fits the disk.

Imports nothing of vLLM or torch, so that `doctor` may ask too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from sessions.errors import RefeedError

GIB: Final = 1 << 30
# A 7B model in bf16 is 15 GiB; below this no model worth a GPU fits.
LEAST_ROOM: Final = 2 * GIB
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


def hub_cache() -> Path:
    """Folder that hub downloads go to."""
    chosen = os.environ.get("HF_HUB_CACHE") or os.environ.get("HF_HOME")
    return Path(chosen).expanduser() if chosen else Path("~/.cache/huggingface").expanduser()


def require_room(folder: Path) -> None:
    """Refuse a download to a disk that holds no model.

    Raises:
        RefeedError: kind "engine", naming the folder and what is free there.
    """
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(there).free
    if free < LEAST_ROOM:
        raise RefeedError(
            "engine",
            f"{there} has {free / GIB:.1f} GiB free, too little for a model's download",
            "free space, or set HF_HOME to a larger disk",
        )
