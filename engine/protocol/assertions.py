"""What must hold of a pass before it is served and of a batch when it returned; what does not is a failed check."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from engine.protocol.passes import ARMS, CheckFailure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine.backend import Completion, Request
    from engine.protocol.passes import CheckName, Cut, PassPlan


def check_plans(plans: Sequence[PassPlan], cuts: Sequence[Sequence[Cut]], earlier: Sequence[PassPlan]) -> str | None:
    """What is wrong with a pass as planned, in words; None when it asks what the protocol says.

    Args:
        plans: of the group's problems.
        cuts: pivots of each.
        earlier: the group's plans of exact 1, which every later pass must repeat; empty for exact 1 itself.
    """
    for plan, of_plan in zip(plans, cuts, strict=True):
        for request, slot in zip(plan.requests, plan.slots, strict=True):
            wrong = _wrong_prompt(request, of_plan[slot.cut], ARMS.index(slot.arm))
            if wrong is not None:
                return f"request {request.id}: {wrong}"
    requests = [request for plan in plans for request in plan.requests]
    return _shared_seed(requests) or _changed(requests, [request for plan in earlier for request in plan.requests])


def _wrong_prompt(request: Request, cut: Cut, arm: int) -> str | None:
    site = cut.site
    if site.actual == site.alternative:
        return f"both arms force token {site.actual}"
    if len(request.prompt) - 1 != site.position:
        return f"its prefix has {len(request.prompt) - 1} tokens, but its pivot lies at position {site.position}"
    if request.prompt[:-1] != cut.prefix:
        return "its prefix is not its trunk's"
    forced = (site.actual, site.alternative)[arm]
    if request.prompt[-1] != forced:
        return f"its {ARMS[arm]} arm forces token {request.prompt[-1]} instead of {forced}"
    return None


def _shared_seed(requests: Sequence[Request]) -> str | None:
    owner: dict[int, str] = {}
    for request in requests:
        if request.seed is None:
            continue
        if request.seed in owner:
            return f"requests {owner[request.seed]} and {request.id} have one seed"
        owner[request.seed] = request.id
    return None


def _asked(request: Request) -> tuple[object, ...]:
    return (
        request.prompt,
        request.seed,
        request.temperature,
        request.top_p,
        request.max_tokens,
        request.logprobs,
    )


def _changed(requests: Sequence[Request], earlier: Sequence[Request]) -> str | None:
    if not earlier:
        return None
    if len(requests) != len(earlier):
        return f"it has {len(requests)} requests, but exact 1 had {len(earlier)}"
    pairs = zip(requests, earlier, strict=True)
    return next(
        (f"{one.id} does not ask what {first.id} asked" for one, first in pairs if _asked(one) != _asked(first)), None
    )


def check_ids(problem: int, requests: Sequence[Request], completions: Sequence[Completion]) -> CheckFailure | None:
    """The failure of completions that are not those of a problem's requests, in their order; None when they are."""
    if len(completions) != len(requests):
        reason = f"the engine returned {len(completions)} completions of {len(requests)} requests"
        return CheckFailure(problem, "", None, None, None, None, reason, "problem", "returned")
    for request, completion in zip(requests, completions, strict=True):
        if completion.id != request.id:
            reason = f"the engine returned {completion.id} where {request.id} was asked"
            return CheckFailure(problem, request.id, None, None, None, None, reason, "problem", "returned")
    return None


def check_logprobs(requests: Sequence[Request], completions: Sequence[Completion]) -> Iterator[tuple[Completion, str]]:
    """Completions whose logprobs are missing or not finite, with what is wrong; those cut short are not looked at."""
    for request, completion in zip(requests, completions, strict=True):
        if request.logprobs == 0 or completion.finish == "aborted":
            continue
        numbers = [number for entry in completion.logprobs for number in (entry.sampled, *(n for _, n in entry.top))]
        if not len(completion.logprobs) == len(completion.tokens) > 0:
            yield completion, f"it has {len(completion.tokens)} tokens, but logprobs of {len(completion.logprobs)}"
        elif not all(map(math.isfinite, numbers)):
            yield completion, "one of its logprobs is not finite"


def check_trunks(problem: int, requests: Sequence[Request], completions: Sequence[Completion]) -> CheckFailure | None:
    """The failure of a problem's trunks as they returned; None when they are what was asked."""
    wrong = check_ids(problem, requests, completions)
    if wrong is not None:
        return wrong
    for completion, reason in check_logprobs(requests, completions):
        return CheckFailure(problem, completion.id, None, None, None, None, reason, "problem", "returned")
    return None


def check_returned(
    plan: PassPlan, completions: Sequence[Completion], seen: Mapping[str, int | None]
) -> Iterator[CheckFailure]:
    """Failures of a problem's part of a pass as it returned, in order of its requests.

    Args:
        plan: of the part.
        completions: of its requests, by their ids and in their order.
        seen: cached tokens that were checked as first tokens arrived, by request id.
    """

    def failure(done: Completion, reason: str, name: CheckName) -> CheckFailure:
        want = plan.expectations[done.id]
        expected, found = (want.hit, done.cached_tokens) if name == "hit" else (None, None)
        return CheckFailure(plan.problem, done.id, want.rollout, want.position, expected, found, reason, "pivot", name)

    for done in completions:
        if done.finish == "aborted":
            continue
        if done.id not in seen:
            yield failure(done, "the request ended without reporting its cache hit", "hit")
        elif done.cached_tokens != seen[done.id]:
            reason = f"it returned {done.cached_tokens} cached tokens, but {seen[done.id]} were checked"
            yield failure(done, reason, "returned")
    for done, reason in check_logprobs(plan.requests, completions):
        yield failure(done, reason, "returned")
