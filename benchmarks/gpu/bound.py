"""What bounds tokens/s: how busy the GPU is, and what Python does meanwhile."""

from __future__ import annotations

import cProfile
import pstats
import shutil
import subprocess
import time
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

QUERY: Final = ("nvidia-smi", "--query-gpu=utilization.gpu,power.draw", "--format=csv,noheader,nounits", "-lms", "200")
SHOWN: Final = 15


def _busy(lines: list[str]) -> dict[str, float]:
    rows = [[float(cell) for cell in line.split(",")] for line in lines if line.count(",") == 1]
    return {"gpu_busy_percent": round(fmean(row[0] for row in rows), 1), "watts": round(fmean(row[1] for row in rows))}


def watched(work: Callable[[], object]) -> dict[str, float]:
    """Do the work; return its wall time, this thread's CPU share of it, and the GPU's mean utilisation.

    The utilisation is nvidia-smi's: the share of time in which any kernel ran.
    """
    smi = None
    if shutil.which("nvidia-smi"):
        smi = subprocess.Popen(QUERY, stdout=subprocess.PIPE, text=True)
    began, used = time.perf_counter(), time.thread_time()
    work()
    seconds, cpu = time.perf_counter() - began, time.thread_time() - used
    found = {"seconds": round(seconds, 3), "thread_cpu_share": round(cpu / seconds, 3)}
    if smi is None:
        return found
    smi.terminate()
    told, _ = smi.communicate()
    return found | _busy(told.splitlines())


def profiled(work: Callable[[], object]) -> list[dict[str, Any]]:
    """Do the work under cProfile, which slows Python down; return the functions with the most time of their own."""
    profile = cProfile.Profile()
    profile.runcall(work)
    table = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    total = sum(row[2] for row in table.values())
    rows = sorted(table.items(), key=lambda item: item[1][2], reverse=True)[:SHOWN]
    return [
        {
            "function": f"{path.rpartition('site/')[2]}:{line} {name}",
            "calls": row[1],
            "own_seconds": round(row[2], 3),
            "share": round(row[2] / total, 3),
        }
        for (path, line, name), row in rows
    ]
