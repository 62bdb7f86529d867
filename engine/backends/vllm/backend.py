"""Stock vLLM as a `Backend`: requests in, completions out, and who wrote the blocks that each of them resumed.

The engine runs in this process unless asked otherwise, since only there can its block pool be read.
One step is `engine.step()`; `VllmBackend.run` is the whole of a batch's life: add, step, tell the watcher, finish.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from engine.backend import EngineInfo, FirstToken, Request, StepStats
from engine.backends.chat import Chat
from engine.backends.early import check_checkpoint
from engine.backends.vllm import (
    checks,
    compat,
    describe,
    download,
    environment,
    hardware,
    hub,
    preflight,
    progress,
    settings,
    warmup,
)
from engine.backends.vllm.errors import explain
from engine.backends.vllm.ledger import Ledger
from engine.backends.vllm.sampling import Open, parameters, prompt_of
from engine.backends.vllm.steps import Steps
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from engine.backend import Completion, Finish, Watcher
    from sessions.spec import CampaignSpec

    Progress = Callable[[str, float], None]

FINISHES: Final[dict[str, Finish]] = {"stop": "stop", "length": "length", "abort": "aborted"}
CPU_WARMUP: Final = 2


class VllmBackend:
    """An engine of vLLM's behind the `Backend` protocol."""

    def __init__(self, engine: Any, core: Any, spec: CampaignSpec, tell: Progress) -> None:
        """Watch a started engine.

        Args:
            engine: vLLM's LLMEngine.
            core: its engine core; None when that runs in its own process.
            spec: resolved settings.
            tell: progress callback, for what a person should know while requests run.
        """
        self.engine = engine
        self.ledger: Ledger | None = None
        self._names: dict[str, str] = {}
        self._core = core
        self._model = str(spec.model)
        self._tell = tell
        if core is not None:
            self.ledger = Ledger(core, self._names)
        else:
            compat.end_calls_of_a_dead_core(engine.engine_core)
        self._steps = Steps(engine, core, self.ledger)
        self.vocabulary = _chat(engine.vllm_config.model_config, spec)
        self._info = self._describe()

    def _describe(self) -> EngineInfo:
        config = self.engine.vllm_config
        if self._core is None:
            blocks = int(config.cache_config.num_gpu_blocks)
        else:
            blocks = int(self._core.scheduler.kv_cache_manager.block_pool.num_gpu_blocks)
        return EngineInfo(
            engine="vllm",
            model=self._model,
            block_size=int(config.cache_config.block_size),
            num_blocks=blocks,
            max_model_len=int(config.model_config.max_model_len),
            max_num_seqs=int(config.scheduler_config.max_num_seqs),
            vocab_size=self.vocabulary.size,
            proof="counts" if self.ledger is None else "ledger",
            special_ids=self.vocabulary.special_ids,
            stop_ids=self.vocabulary.stop_ids,
        )

    @property
    def info(self) -> EngineInfo:
        """What the engine turned out to be."""
        return self._info

    @property
    def core(self) -> Any:
        """The engine core in this process; None when it runs in its own."""
        return self._core

    def complete_info(self, *, numerics: dict[str, str], machine: dict[str, str]) -> None:
        """Add what is known of the engine once its start is over."""
        self._info = replace(self._info, numerics=numerics, machine=machine)

    def encode_chat(self, system: str | None, user: str) -> tuple[int, ...]:
        """Token ids of a one-turn chat, through the model's chat template, ready for the assistant's first token."""
        return self.vocabulary.encode_chat(system, user)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of token ids, without special tokens."""
        return self.vocabulary.decode(tokens)

    def run(self, requests: Sequence[Request], watcher: Watcher) -> tuple[Completion, ...]:
        """Serve requests, admitted in the order given, and return their completions in that order.

        When `watcher` returns False every unfinished request is aborted within that step and returned as "aborted",
        with the tokens that it had generated and no logprobs beyond its first token's.

        Raises:
            RefeedError: kind "engine" when a request cannot fit or the engine died.
        """
        engine = self._engine()
        for request in requests:
            self._check_fit(request)
        try:
            return self._run(engine, requests, watcher)
        except RefeedError:
            raise
        except Exception as error:
            raise explain(error, self._model, "serving") from error

    def _run(self, engine: Any, requests: Sequence[Request], watcher: Watcher) -> tuple[Completion, ...]:
        self._steps.begin()
        opened: dict[str, Open] = {}
        with compat.held(engine.engine_core, apart=self._core is None):
            for request in requests:
                internal = engine.add_request(request.id, prompt_of(request), parameters(request, self._stops))
                opened[request.id] = Open(request, internal)
                self._names[internal] = request.id
        done: dict[str, Completion] = {}
        while engine.has_unfinished_requests():
            go_on = self._take(engine.step(), opened, done, watcher)
            if not (watcher.step(self._stats(done)) and go_on):
                self._abort(engine, opened, done)
        self._drain(engine)
        self._report_split_prompts()
        return tuple(done[request.id] for request in requests)

    def _take(
        self, outputs: Iterable[Any], opened: dict[str, Open], done: dict[str, Completion], watcher: Watcher
    ) -> bool:
        """Take one step's outputs; False when the watcher wants the batch stopped."""
        go_on = True
        for output in outputs:
            entry = opened[output.request_id]
            if not entry.started:
                entry.started = True
                entry.cached_tokens = output.num_cached_tokens
                entry.origins = None if self.ledger is None else self.ledger.take_hit(entry.internal)
                first = FirstToken(entry.request.id, entry.cached_tokens, entry.origins)
                go_on = watcher.first_token(first) and go_on
            completion = output.outputs[0]
            entry.add(completion)
            if output.finished:
                finish = FINISHES.get(completion.finish_reason)
                if finish is None:
                    raise RefeedError("engine", f"request {entry.request.id} ended with {completion.finish_reason!r}")
                done[entry.request.id] = entry.close(finish, self._steps.preemptions(entry.internal))
        return go_on

    def _stats(self, done: dict[str, Completion]) -> StepStats:
        running, waiting, kv_use = self._steps.load()
        return StepStats(running, waiting, len(done), self._steps.tokens, kv_use, self._steps.all_preemptions())

    def _abort(self, engine: Any, opened: dict[str, Open], done: dict[str, Completion]) -> None:
        left = [entry for entry in opened.values() if entry.request.id not in done]
        for entry in left:
            state = engine.output_processor.request_states.get(entry.internal)
            if state is not None:
                entry.tokens = list(state.detokenizer.output_token_ids)
        engine.abort_request([entry.internal for entry in left], internal=True)
        for entry in left:
            done[entry.request.id] = entry.close("aborted", self._steps.preemptions(entry.internal))

    def _drain(self, engine: Any) -> None:
        """Let asynchronous scheduling finish what is in flight, so that the next batch begins with an idle engine."""
        while self._core is not None and compat.unfinished_batches(self._core):
            engine.step()

    def _report_split_prompts(self) -> None:
        # The warm-up is wider than a step on purpose; it is over when the numerics are known.
        if self.ledger is not None and self.ledger.split_prompts and self._info.numerics:
            self._tell(
                "warning: some prompts were prefilled in more than one step; raise max_num_batched_tokens to keep "
                "chunk boundaries the same in every pass",
                1.0,
            )

    def _check_fit(self, request: Request) -> None:
        info = self._info
        length = len(request.prompt)
        if length + 1 > info.max_model_len:
            raise RefeedError(
                "engine",
                f"request {request.id} has {length} prompt tokens, but the engine takes {info.max_model_len} in all",
                "raise `max_model_len` or shorten the prompt",
            )
        longest = min(length + request.max_tokens, info.max_model_len)
        if -(-longest // info.block_size) > info.num_blocks - 1:
            raise RefeedError(
                "engine",
                f"request {request.id} may need {-(-longest // info.block_size)} KV blocks, but there are "
                f"{info.num_blocks - 1}",
                "raise `kv_blocks` or `gpu_memory_utilization`, or lower the token limits",
            )

    def reset_prefix_cache(self) -> bool:
        """Forget every cached block. False when it could not, e.g. while blocks are in use; only True counts.

        Raises:
            RefeedError: kind "engine" when the engine died.
        """
        engine = self._engine()
        try:
            done = engine.reset_prefix_cache() is True
        except Exception as error:
            raise explain(error, self._model, "emptying the cache of") from error
        if done and self.ledger is not None:
            self.ledger.forget_blocks()
        return done

    def close(self) -> None:
        """Free the engine's memory; safe to call twice."""
        if self.engine is not None:
            engine, self.engine, self._core = self.engine, None, None
            compat.shut_down(engine)

    def _engine(self) -> Any:
        if self.engine is None:
            raise RefeedError("engine", "the vLLM engine was closed", "load it again")
        return self.engine

    @property
    def _stops(self) -> list[int]:
        return sorted(self.vocabulary.stop_ids)


@dataclass(frozen=True, slots=True)
class _How:
    """How to start beside what the spec says: local folder or hub's snapshot, process mode, overrides, variables."""

    model: Path | hub.Snapshot
    apart: bool
    overrides: Mapping[str, Any]
    variables: Mapping[str, str]


def _start(spec: CampaignSpec, path: str, how: _How, *, cpu: bool) -> Any:
    from vllm import EngineArgs  # noqa: PLC0415
    from vllm.usage.usage_lib import UsageContext  # noqa: PLC0415
    from vllm.v1.engine.llm_engine import LLMEngine  # noqa: PLC0415

    given = settings.arguments(spec, path, cpu=cpu, log_stats=how.apart) | dict(how.overrides)
    config = EngineArgs(**given).create_engine_config(UsageContext.LLM_CLASS)
    tokens, head = config.scheduler_config.max_num_batched_tokens, config.model_config.get_head_size()
    better = {} if cpu else settings.refinements(spec, batched_tokens=tokens, head_size=head)
    if better:
        config = EngineArgs(**given | better).create_engine_config(UsageContext.LLM_CLASS)
    return LLMEngine.from_vllm_config(config, usage_context=UsageContext.LLM_CLASS, disable_log_stats=not how.apart)


def _warm_up(backend: VllmBackend, tell: Progress, *, cpu: bool) -> None:
    """Run what will be compiled, then leave no block of it behind.

    Raises:
        RefeedError: kind "engine" when the cache cannot be reset.
    """
    tell("warming up", 0.0)
    widest = CPU_WARMUP if cpu else warmup.WIDEST
    for batch in warmup.batches(backend.info, widest=widest):
        backend.run(batch, warmup.Unwatched())
    if not backend.reset_prefix_cache():
        raise RefeedError("engine", "the prefix cache could not be reset after the warm-up", "see worker.log")
    tell("warming up", 1.0)


def _chat(config: Any, spec: CampaignSpec) -> Chat:
    return Chat(Path(str(config.tokenizer)), int(config.get_vocab_size()), spec.template_date)


def _open(engine: Any, spec: CampaignSpec, tell: Progress, *, apart: bool) -> tuple[VllmBackend, tuple[str, ...]]:
    """Check a started engine and put it behind the protocol; it is shut down when it must be refused."""
    try:
        core = None if apart else engine.engine_core.engine_core
        warnings = checks.verify(spec, engine.vllm_config, core)
        return VllmBackend(engine, core, spec, tell), warnings
    except BaseException:
        compat.shut_down(engine)
        raise


def _files(model: Path | hub.Snapshot, tell: Progress) -> download.Source:
    return download.Source(str(model), "") if isinstance(model, Path) else download.fetch(model, tell)


def _ask_hub(spec: CampaignSpec, tell: Progress) -> hub.Snapshot:
    """Look a model up on the hub, and refuse what could not be downloaded."""
    tell("looking the model up on the hub", 0.0)
    found = hub.look_up(str(spec.model), spec.revision)
    preflight.require_room(found.cache.parent, found.needed, found.model)
    if found.unreached and found.commit != spec.revision and not hub.offline():
        tell(
            f"warning: the hub cannot be asked ({found.unreached}); the local copy of {found.model} at commit "
            f"{found.commit} is used",
            1.0,
        )
    return found


def _load(spec: CampaignSpec, tell: Progress, how: _How) -> VllmBackend:
    clock = {"began": time.monotonic()}
    found = hardware.find(spec, apart=how.apart)
    clock["imported"] = time.monotonic()
    if found.cpu:
        compat.allow_amx()
    with progress.watched(tell):
        source = _files(how.model, tell)
        if not isinstance(how.model, Path):
            check_checkpoint(spec, Path(source.path), f"1 + 1 = ?\n\n{spec.prompt or ''}")
        clock["located"] = time.monotonic()
        tell("starting the engine core", 0.0)  # a core in its own process says nothing until it has started
        engine = _start(spec, source.path, how, cpu=found.cpu)
    clock["started"] = time.monotonic()
    backend, warnings = _open(engine, spec, tell, apart=how.apart)
    try:
        _warm_up(backend, tell, cpu=found.cpu)
    except BaseException:
        backend.close()
        raise
    gc.freeze()  # what a started engine holds stays: no collection in a pass has to look through it
    clock["warm"] = time.monotonic()
    said = (*(() if found.warning is None else (found.warning,)), *warnings)
    for text in said:
        tell(f"warning: {text}", 1.0)
    backend.complete_info(
        numerics=describe.numerics(spec, source, engine.vllm_config, backend.core, how.variables),
        machine=describe.machine(said, clock),
    )
    return backend


def load(
    spec: CampaignSpec,
    tell: Progress,
    *,
    folder: Path | None = None,
    multiprocess: bool | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> VllmBackend:
    """Start stock vLLM for a resolved spec, check what it turned out to be, and warm it up.

    Args:
        spec: resolved settings; those that are None are vLLM's own, or on a CPU what works there.
        tell: told what is being done and how far it is, 0 to 1; also warnings, as "warning: ...".
        folder: where the model is if it is not on the hub; None takes `spec.model` as a path.
        multiprocess: engine core in a process of its own; None asks the environment (REFEED_TUI_VLLM_MULTIPROCESS).
        overrides: engine arguments of vLLM's that no spec has, such as random weights for a benchmark.

    Raises:
        RefeedError: kind "engine", with the cause and what to do.
    """
    where = Path(str(spec.model)).expanduser() if folder is None else folder
    apart = environment.multiprocess_wanted() if multiprocess is None else multiprocess
    by_counts = compat.check_insides(apart=apart)
    if by_counts is not None:
        apart = True
        tell(f"warning: {by_counts}", 1.0)
    for sentence in preflight.holders():
        tell(f"warning: {sentence}", 1.0)
    try:
        preflight.require_driver()
        model = where if where.is_dir() else _ask_hub(spec, tell)
        tell("importing vLLM", 0.0)
        variables = environment.prepare(spec, multiprocess=apart)
        return _load(spec, tell, _How(model, apart, overrides or {}, variables))
    except RefeedError:
        raise
    except ModuleNotFoundError as error:
        if error.name not in {"vllm", "huggingface_hub"}:
            raise explain(error, str(spec.model), "loading") from error
        hint = "install it, from the checkout, with: pip install '.[vllm]' (README: On a GPU)"
        raise RefeedError("engine", "vLLM is not installed in this environment", hint) from None
    except Exception as error:
        raise explain(error, str(spec.model), "loading") from error
