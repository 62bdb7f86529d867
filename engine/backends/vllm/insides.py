"""What this backend takes from inside vLLM, held against the sources of a release: nothing else reaches in there.

vLLM promises none of it, and any release may move it. The list says where each thing stands and how it is called; it
is read in vLLM's sources before weights load, so that what moved is refused by name, or, where only the ledger needs
it, cache checks go on by counts. `make check-vllm VERSION=x` reads a release's wheel the same way, installing nothing.
"""

from __future__ import annotations

import ast
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Source = Callable[[str], str | None]

Need = Literal["engine", "ledger", "apart"]


@dataclass(frozen=True, slots=True)
class Inside:
    """One thing that must stand where it stood.

    Attributes:
        need: who needs it: the engine in any case, the block ledger, or only a core in a process of its own.
        module: dotted name.
        owner: class in that module; its bases in vLLM count, too.
        name: method, property or attribute.
        takes: names of parameters that it must have, in their order from the first after self; None for attributes,
            and for functions that are only passed through.
        called: whether this backend calls it with these arguments and `also`, so that it may demand no others.
            Functions that vLLM calls and the ledger only watches may: whatever they are given is passed on.
        also: names of arguments that this backend gives by name, wherever they stand.
    """

    need: Need
    module: str
    owner: str
    name: str
    takes: tuple[str, ...] | None = None
    called: bool = False
    also: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As a person would look for it."""
        return f"{self.module}.{self.owner}.{self.name}"


def _all(need: Need, module: str, owner: str, *names: str) -> tuple[Inside, ...]:
    return tuple(Inside(need, module, owner, name) for name in names)


def _call(need: Need, module: str, path: str, *takes: str, also: tuple[str, ...] = ()) -> Inside:
    owner, _, name = path.partition(".")
    return Inside(need, module, owner, name, takes, called=True, also=also)


_LLM_ENGINE: Final = "vllm.v1.engine.llm_engine"
_CLIENT: Final = "vllm.v1.engine.core_client"
_POOL: Final = "vllm.v1.core.block_pool"
_MANAGER: Final = "vllm.v1.core.kv_cache_manager"
_SCHEDULER: Final = "vllm.v1.core.sched.scheduler"

INSIDES: Final = (
    _call("engine", _LLM_ENGINE, "LLMEngine.add_request", "request_id", "prompt", "params"),
    _call("engine", _LLM_ENGINE, "LLMEngine.abort_request", "request_ids", "internal"),
    _call("engine", _LLM_ENGINE, "LLMEngine.step"),
    _call("engine", _LLM_ENGINE, "LLMEngine.has_unfinished_requests"),
    _call("engine", _LLM_ENGINE, "LLMEngine.reset_prefix_cache"),
    _call("engine", _LLM_ENGINE, "LLMEngine.get_tokenizer"),
    _call(
        "engine",
        _LLM_ENGINE,
        "LLMEngine.from_vllm_config",
        "vllm_config",
        "usage_context",
        also=("disable_log_stats",),
    ),
    *_all("engine", _LLM_ENGINE, "LLMEngine", "engine_core", "output_processor", "vllm_config"),
    _call("engine", "vllm.engine.arg_utils", "EngineArgs.create_engine_config", "usage_context"),
    *_all("engine", "vllm.config.compilation", "CompilationConfig", "static_forward_context"),
    *_all("engine", "vllm.v1.engine.output_processor", "OutputProcessor", "request_states"),
    *_all("engine", "vllm.v1.engine.output_processor", "RequestState", "detokenizer"),
    *_all("engine", "vllm.v1.engine.detokenizer", "IncrementalDetokenizer", "output_token_ids"),
    *_all("engine", "vllm.outputs", "RequestOutput", "num_cached_tokens", "finished", "outputs"),
    *_all("engine", "vllm.v1.engine", "EngineCoreOutputs", "outputs", "scheduler_stats"),
    *_all("engine", "vllm.v1.engine", "EngineCoreOutput", "new_token_ids", "request_id"),
    *_all("engine", "vllm.sampling_params", "SamplingParams", "flat_logprobs", "stop_token_ids", "output_kind"),
    _call("ledger", _CLIENT, "InprocClient.get_output"),
    _call("ledger", _CLIENT, "InprocClient.shutdown"),
    *_all("ledger", _CLIENT, "InprocClient", "engine_core"),
    *_all("ledger", "vllm.v1.engine.core", "EngineCore", "scheduler", "batch_queue", "model_executor"),
    *_all("ledger", _SCHEDULER, "Scheduler", "schedule", "running", "waiting", "kv_cache_manager"),
    Inside("ledger", _SCHEDULER, "Scheduler", "_preempt_request", ("request",)),
    *_all("ledger", _MANAGER, "KVCacheManager", "block_pool", "usage", "enable_caching", "kv_cache_config"),
    Inside("ledger", _MANAGER, "KVCacheManager", "get_computed_blocks", ("request",)),
    *_all("ledger", _MANAGER, "KVCacheBlocks", "blocks"),
    *_all("ledger", "vllm.v1.kv_cache_interface", "KVCacheConfig", "kv_cache_groups"),
    *_all("ledger", "vllm.v1.kv_cache_interface", "KVCacheGroupSpec", "kv_cache_spec"),
    *_all("ledger", _POOL, "BlockPool", "num_gpu_blocks"),
    Inside("ledger", _POOL, "BlockPool", "_maybe_evict_cached_block", ("block",)),
    Inside(
        "ledger",
        _POOL,
        "BlockPool",
        "cache_full_blocks",
        ("request", "blocks", "num_cached_blocks", "num_full_blocks", "block_size"),
    ),
    *_all("ledger", "vllm.v1.core.kv_cache_utils", "KVCacheBlock", "block_id", "block_hash"),
    *_all("ledger", "vllm.v1.request", "Request", "request_id", "num_preemptions", "num_prompt_tokens", "num_tokens"),
    *_all("ledger", "vllm.v1.core.sched.output", "SchedulerOutput", "scheduled_new_reqs", "num_scheduled_tokens"),
    *_all("ledger", "vllm.v1.core.sched.output", "NewRequestData", "req_id", "prompt_token_ids", "num_computed_tokens"),
    _call("apart", _CLIENT, "SyncMPClient.get_output"),
    _call("apart", _CLIENT, "SyncMPClient.shutdown"),
    Inside("apart", _CLIENT, "SyncMPClient", "call_utility", ("method",)),
    *_all("apart", _CLIENT, "SyncMPClient", "outputs_queue", "resources", "utility_results"),
    *_all("apart", _CLIENT, "BackgroundResources", "engine_dead"),
    _call("apart", "vllm.v1.engine.core", "EngineCore.pause_scheduler", "mode", "clear_cache"),
    _call("apart", "vllm.v1.engine.core", "EngineCore.resume_scheduler"),
    *_all("apart", "vllm.v1.metrics.stats", "SchedulerStats", "num_running_reqs", "num_waiting_reqs", "kv_cache_usage"),
    *_all("apart", "vllm.v1.engine", "EngineCoreEventType", "PREEMPTED"),
    *_all("apart", "vllm.v1.engine", "EngineCoreOutput", "events"),
)


def installed(module: str) -> str | None:
    """Source of a module of the vLLM that is installed here, which is not imported; None where there is none."""
    root, *rest = module.split(".")
    found = importlib.util.find_spec(root)
    places = found.submodule_search_locations if found is not None else None
    for place in places or ():
        stem = Path(place).joinpath(*rest)
        for path in (stem.with_suffix(".py"), stem / "__init__.py"):
            if path.is_file():
                return path.read_text(encoding="utf-8")
    return None


def moved(source: Source, needs: frozenset[Need] = frozenset({"engine", "ledger", "apart"})) -> dict[Inside, str]:
    """Return what is not where it stood, with what is wrong; empty where all is well.

    Args:
        source: gives a module's source, None where there is no such module.
        needs: whose needs to look at.
    """
    reader = _Reader(source)
    told = {inside: reader.fault(inside) for inside in INSIDES if inside.need in needs}
    return {inside: fault for inside, fault in told.items() if fault}


class _Reader:
    """Reads classes out of sources, each module once."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._trees: dict[str, ast.Module | None] = {}

    def fault(self, inside: Inside) -> str:
        """What is wrong with one thing; empty when nothing is."""
        if self._tree(inside.module) is None:
            return "its module is gone"
        classes = list(self._classes(inside.module, inside.owner, set()))
        if not classes:
            return "its class is gone"
        found = next((member for one in classes for member in _members(one) if member[0] == inside.name), None)
        if found is None:
            return "it is gone"
        return "" if inside.takes is None or found[1] is None else _misfit(inside, found[1])

    def _tree(self, module: str) -> ast.Module | None:
        if module not in self._trees:
            text = self._source(module)
            self._trees[module] = None if text is None else ast.parse(text)
        return self._trees[module]

    def _classes(self, module: str, name: str, seen: set[tuple[str, str]]) -> Iterator[ast.ClassDef]:
        """A class and its bases, as far as they lie in vLLM."""
        tree = self._tree(module)
        if tree is None or (module, name) in seen:
            return
        seen.add((module, name))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name == name:
                yield node
                for base in node.bases:
                    if isinstance(base, ast.Name):
                        yield from self._classes(_where(tree, module, base.id), base.id, seen)
                return
        elsewhere = _where(tree, module, name)
        if elsewhere != module:
            yield from self._classes(elsewhere, name, seen)


def _where(tree: ast.Module, module: str, name: str) -> str:
    """The module that a name was imported from; this one where it was not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and any(alias.name == name for alias in node.names):
            return node.module
    return module


def _members(owner: ast.ClassDef) -> Iterator[tuple[str, ast.FunctionDef | None]]:
    """Names that a class gives its instances: methods with their definitions, fields, and what methods set on self.

    A local variable of a method is no member: `running = ...` there says nothing of `self.running`.
    """
    inner: list[ast.AST] = list(owner.body)
    while inner:
        node = inner.pop(0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node if isinstance(node, ast.FunctionDef) else None
            yield from ((name, None) for name in _set_on_self(node))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, None
        elif not isinstance(node, ast.ClassDef | ast.Lambda):
            inner.extend(ast.iter_child_nodes(node))


def _set_on_self(method: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    stored = (node for node in ast.walk(method) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    return (node.attr for node in stored if isinstance(node.value, ast.Name) and node.value.id == "self")


def _misfit(inside: Inside, function: ast.FunctionDef) -> str:
    """How a function's parameters differ from what is wanted; empty when they fit."""
    own = function.args
    positional = [one.arg for one in (*own.posonlyargs, *own.args)]
    free = set(positional[len(positional) - len(own.defaults) :])
    free |= {one.arg for one, value in zip(own.kwonlyargs, own.kw_defaults, strict=True) if value is not None}
    names = [*positional, *(one.arg for one in own.kwonlyargs)]
    takes = tuple(names[1:] if names[:1] in (["self"], ["cls"]) else names)
    wanted = inside.takes or ()
    unknown = set() if own.kwarg is not None else set(inside.also) - set(takes)
    if takes[: len(wanted)] != wanted or unknown:
        return f"it takes ({', '.join(takes)})"
    demanded = [name for name in takes if name not in {*free, *wanted, *inside.also}]
    return f"it demands {', '.join(demanded)} as well" if inside.called and demanded else ""
