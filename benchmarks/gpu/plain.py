"""Stock `LLM.generate` on the same engine and the same requests: what a measurement can cost at least."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from engine.backends.vllm.sampling import token_logprobs
from engine.protocol.passes import PASSES, Cut, plan_pass
from engine.protocol.pivots import PivotRule, select
from engine.protocol.seeds import request_seed
from engine.tasks.task import user_message

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from engine.backend import Request
    from engine.backends.vllm.backend import VllmBackend
    from engine.tasks.task import Task
    from sessions.spec import CampaignSpec


def bare(backend: VllmBackend) -> Any:
    """Return vLLM's own `LLM` over the backend's engine, with everything that the backend watches taken off."""
    from vllm import LLM  # noqa: PLC0415 - after the environment is set
    from vllm.v1.engine.llm_engine import LLMEngine  # noqa: PLC0415

    scheduler = backend.core.scheduler
    manager = scheduler.kv_cache_manager
    watched = (
        (manager.block_pool, "cache_full_blocks"),
        (manager.block_pool, "_maybe_evict_cached_block"),
        (manager, "get_computed_blocks"),
        (scheduler, "_preempt_request"),
        (scheduler, "schedule"),
        (backend.engine.engine_core, "get_output"),
    )
    for owner, name in watched:
        vars(owner).pop(name)
    model = backend.engine.vllm_config.model_config.model
    with patch.object(LLMEngine, "from_engine_args", return_value=backend.engine):
        return LLM(model=model)


def _parameters(request: Request, stops: Sequence[int]) -> Any:
    from vllm import SamplingParams  # noqa: PLC0415

    return SamplingParams(
        temperature=request.temperature,
        top_p=request.top_p,
        seed=request.seed,
        max_tokens=request.max_tokens,
        logprobs=request.logprobs if request.logprobs > 0 else None,
        flat_logprobs=request.logprobs > 0,
        stop_token_ids=list(stops),
        ignore_eos=True,
        detokenize=False,
    )


@dataclass
class Timed:
    """Calls of `generate` and their sum.

    Attributes:
        llm: vLLM's own.
        stops: token ids that end a request.
        seconds: sum over the calls.
        calls: seconds of each.
        tokens: generated.
        cached: prompt tokens that came from the cache.
    """

    llm: Any
    stops: list[int]
    seconds: float = 0.0
    tokens: int = 0
    cached: int = 0
    calls: list[float] = field(default_factory=list)

    def generate(self, requests: Sequence[Request]) -> list[Any]:
        """Serve a batch and add its time."""
        prompts = [{"prompt_token_ids": list(one.prompt), "cache_salt": one.salt} for one in requests]
        parameters = [_parameters(one, self.stops) for one in requests]
        began = time.perf_counter()
        done = self.llm.generate(prompts, parameters, use_tqdm=False)
        self.calls.append(time.perf_counter() - began)
        self.seconds += self.calls[-1]
        self.tokens += sum(len(one.outputs[0].token_ids) for one in done)
        self.cached += sum(one.num_cached_tokens or 0 for one in done)
        return list(done)

    def reset(self) -> None:
        """Empty the prefix cache, which must work."""
        assert self.llm.llm_engine.reset_prefix_cache() is True

    def summary(self) -> dict[str, Any]:
        """Numbers for a results file."""
        calls = [round(seconds, 3) for seconds in self.calls]
        return {"seconds": round(self.seconds, 3), "tokens": self.tokens, "cached_tokens": self.cached, "calls": calls}


def replay(llm: Any, stops: list[int], batches: Sequence[tuple[Request, ...]], resets: Sequence[int]) -> Timed:
    """Send recorded batches again, in order and from an empty cache, with the resets where they were."""
    timed = Timed(llm, stops)
    timed.reset()
    for number, requests in enumerate(batches):
        if number in resets:
            timed.reset()
        timed.generate(requests)
    return timed


def trunk_requests(spec: CampaignSpec, backend: VllmBackend, task: Task, index: int) -> list[Request]:
    """A problem's trunk requests, as a campaign makes them."""
    from engine.backend import Request as Made  # noqa: PLC0415

    problem = task.problem(index)
    prompt = backend.encode_chat(spec.system_prompt, user_message(problem, str(spec.prompt)))
    return [
        Made(
            id=f"{index}.plain/trunk/r{rollout}",
            prompt=prompt,
            salt=f"plain/{index}/{rollout}",
            seed=request_seed(spec.seed, "trunk", index, rollout),
            temperature=spec.temperature,
            top_p=spec.top_p,
            max_tokens=spec.max_trunk_tokens,
            logprobs=spec.top_logprobs,
        )
        for rollout in range(spec.rollouts)
    ]


def one_at_a_time(
    llm: Any, spec: CampaignSpec, backend: VllmBackend, task: Task, looked_at: Iterable[int], measured: Container[int]
) -> Timed:
    """The published harness's order: per problem a reset, its trunks, two exact passes, a reset, the re-feed pass.

    Args:
        llm: vLLM's own, from `bare`.
        spec: resolved settings.
        backend: for its tokenizer and block size.
        task: the problems.
        looked_at: task indices whose trunks are generated, in order.
        measured: those of them whose passes run.
    """
    info = backend.info
    rule = PivotRule(spec.margin, spec.boundary_slack, spec.max_pivots, info.block_size, info.special_ids)
    timed = Timed(llm, sorted(info.stop_ids))
    for index in looked_at:
        requests = trunk_requests(spec, backend, task, index)
        timed.reset()
        cuts: list[Cut] = []
        for rollout, (request, done) in enumerate(zip(requests, timed.generate(requests), strict=True)):
            tokens = tuple(done.outputs[0].token_ids)
            logprobs = token_logprobs(done.outputs[0].logprobs, spec.top_logprobs)
            cuts.extend(
                Cut(rollout, (*request.prompt, *tokens[: site.index]), request.id, site)
                for site in select(len(request.prompt), tokens, logprobs, rule).sites
            )
        for pass_ in PASSES if index in measured else ():
            plan = plan_pass(spec, pass_, index, 0, tuple(cuts), info.block_size, "")
            if pass_.reads == "own":
                timed.reset()
            salted = [_with_salt(one, f"plain/{index}/{plan.expectations[one.id].rollout}") for one in plan.requests]
            timed.generate(salted)
    return timed


def _with_salt(request: Request, salt: str) -> Request:
    from dataclasses import replace  # noqa: PLC0415

    return replace(request, salt=salt)
