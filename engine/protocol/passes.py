"""A pass as data: what it reads from the cache, the requests it makes, and what each request must prove.

Source: paper, section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from engine.backend import Request
from engine.protocol.pivots import expected_hit
from engine.protocol.seeds import request_seed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.backend import BlockOrigin, Completion, FirstToken, TokenLogprobs
    from engine.protocol.pivots import Site
    from sessions.events import PassName
    from sessions.spec import CampaignSpec

ArmName = Literal["actual", "alternative"]
ColdBy = Literal["", "reset", "salt", "reset+salt"]
Scope = Literal["pivot", "problem"]
CheckName = Literal[
    "hit", "origin", "cold", "reset", "preempted", "aborted", "plan", "returned", "steps", "fidelity", "seeds", "arms"
]

ARMS: Final[tuple[ArmName, ArmName]] = ("actual", "alternative")


@dataclass(frozen=True, slots=True)
class Pass:
    """One way of serving a problem's continuation requests.

    Attributes:
        name: in events and reports.
        reads: "trunk": every request must resume its own trunk's decode-time blocks; "own": no request may read a
            block that was there before the pass (cache-cold).
    """

    name: PassName
    reads: Literal["trunk", "own"]


PASSES: Final = (Pass("exact-1", "trunk"), Pass("exact-2", "trunk"), Pass("re-feed", "own"))


@dataclass(frozen=True, slots=True)
class Cut:
    """A pivot with the trunk that it cuts.

    Attributes:
        rollout: trunk number.
        prefix: prompt and generated tokens before the pivot; its length is the pivot's position.
        trunk_request: id of the request that generated the trunk, and its cache salt: a hit under it can only be the
            trunk's own blocks.
        site: the pivot.
        after: the trunk's logprobs at the index after the pivot's, which the actual arm predicts first; None where the
            trunk ended at its pivot.
    """

    rollout: int
    prefix: tuple[int, ...]
    trunk_request: str
    site: Site
    after: TokenLogprobs | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a request's completion belongs.

    Attributes:
        cut: index into the pass's cuts.
        arm: which token was forced.
        k: continuation number; None for the greedy probe.
    """

    cut: int
    arm: ArmName
    k: int | None


@dataclass(frozen=True, slots=True)
class Expectation:
    """What one request must prove when its first token arrives.

    Attributes:
        problem: task index.
        rollout: of its pivot.
        position: of its pivot.
        hit: cached tokens of a request that resumes everything it can.
        reads: as in Pass.
        trunk_request: whose blocks a resuming request must hit.
        prompt: tokens of the trunk's prompt; every later token of its blocks was written in decode.
        leader: whether it is its trunk's first request of the pass; a cold leader hits nothing.
    """

    problem: int
    rollout: int
    position: int
    hit: int
    reads: Literal["trunk", "own"]
    trunk_request: str
    prompt: int
    leader: bool


@dataclass(frozen=True, slots=True)
class PassPlan:
    """One problem's requests in a pass, in order, with their slots and expectations by request id."""

    problem: int
    pass_: Pass
    requests: tuple[Request, ...]
    slots: tuple[Slot, ...]
    expectations: dict[str, Expectation]


@dataclass(frozen=True, slots=True)
class CheckFailure:
    """A failed cache check.

    Attributes:
        problem: task index; None when the engine could not say whose request it was, which spoils the whole batch.
        request: the request's id; empty when the engine could not say which.
        rollout: of the pivot; None when the whole problem is spoiled.
        position: of the pivot; None when the whole problem is spoiled.
        expected: cached tokens it had to report; None when the count is not the failure.
        found: cached tokens it reported.
        reason: in words.
        scope: what is spoiled whatever the policy: this pivot, or the problem.
        check: name of the check.
    """

    problem: int | None
    request: str
    rollout: int | None
    position: int | None
    expected: int | None
    found: int | None
    reason: str
    scope: Scope
    check: CheckName = "hit"


@dataclass(frozen=True, slots=True)
class PassRun:
    """One problem's part of a pass that ran.

    Attributes:
        plan: its requests and slots.
        completions: in request order.
        failures: failed checks of its requests, and of the whole batch.
    """

    plan: PassPlan
    completions: tuple[Completion, ...]
    failures: tuple[CheckFailure, ...]


def spoiled_batch(reason: str, check: CheckName) -> CheckFailure:
    """Return the failure of a whole batch: no request of it is known to be sound."""
    return CheckFailure(None, "", None, None, None, None, reason, "problem", check)


def cold_salt(problem: int, attempt: int, rollout: int) -> str:
    """Never-used salt of one trunk's re-feed requests."""
    return f"refeed/{problem}/{attempt}/{rollout}"


def slots_of(cut: int, k: int) -> Iterator[Slot]:
    """Requests of one pivot in registered order: per arm the continuations, then the probe."""
    for arm in ARMS:
        for number in range(k):
            yield Slot(cut, arm, number)
        yield Slot(cut, arm, None)


def _request(spec: CampaignSpec, problem: int, cut: Cut, slot: Slot, request_id: str, salt: str) -> Request:
    forced = cut.site.actual if slot.arm == "actual" else cut.site.alternative
    prompt = (*cut.prefix, forced)
    if slot.k is None:
        return Request(request_id, prompt, salt, None, 0.0, 1.0, spec.probe_tokens, logprobs=1)
    temperature = spec.temperature if spec.cont_temperature is None else spec.cont_temperature
    seed = request_seed(spec.seed, "continuation", problem, cut.rollout, cut.site.position, slot.arm, slot.k)
    return Request(
        request_id,
        prompt,
        salt,
        seed if temperature > 0 else None,
        temperature,
        spec.top_p if temperature > 0 else 1.0,
        spec.max_cont_tokens,
    )


def plan_pass(
    spec: CampaignSpec,
    pass_: Pass,
    problem: int,
    attempt: int,
    cuts: tuple[Cut, ...],
    block: int,
    cold_by: ColdBy,
) -> PassPlan:
    """Lay out a problem's part of a pass: rollout, pivot, actual arm then alternative, k = 0..K-1, then the probe.

    Args:
        spec: the registered settings.
        pass_: which pass.
        problem: task index.
        attempt: of this run of the worker.
        cuts: the problem's pivots, by rollout and position.
        block: KV block size, tokens.
        cold_by: with "salt" the pass has fresh salts; otherwise it uses the trunks' own.
    """
    requests, slots, expectations = [], [], {}
    led: set[int] = set()
    for number, cut in enumerate(cuts):
        salt = cold_salt(problem, attempt, cut.rollout) if "salt" in cold_by else cut.trunk_request
        for slot in slots_of(number, spec.k):
            what = "probe" if slot.k is None else f"k{slot.k}"
            request_id = f"{problem}.{attempt}/{pass_.name}/r{cut.rollout}/p{cut.site.position}/{slot.arm}/{what}"
            request = _request(spec, problem, cut, slot, request_id, salt)
            requests.append(request)
            slots.append(slot)
            expectations[request_id] = Expectation(
                problem=problem,
                rollout=cut.rollout,
                position=cut.site.position,
                hit=expected_hit(len(request.prompt), block),
                reads=pass_.reads,
                trunk_request=cut.trunk_request,
                prompt=cut.site.position - cut.site.index,
                leader=cut.rollout not in led,
            )
            led.add(cut.rollout)
    return PassPlan(problem, pass_, tuple(requests), tuple(slots), expectations)


def _failure(
    first: FirstToken, want: Expectation, reason: str, scope: Scope, expected: int | None, check: CheckName = "hit"
) -> CheckFailure:
    return CheckFailure(
        want.problem, first.id, want.rollout, want.position, expected, first.cached_tokens, reason, scope, check
    )


def _wrong_origin(number: int, origin: BlockOrigin, want: Expectation, block: int) -> str | None:
    """What is wrong with block `number` of a hit that must be the trunk's own, in words; None when nothing is."""
    if origin.owner != want.trunk_request:
        return f"block {number} of its hit was stored by {origin.owner}, not by its trunk {want.trunk_request}"
    start = number * block
    if origin.start != start:
        return f"block {number} of its hit must start at the trunk's token {start}, but starts at {origin.start}"
    decoded = min(max(start + block - want.prompt, 0), block)
    if origin.decode_tokens != decoded:
        return (
            f"block {number} of its hit must have {decoded} tokens that were written in decode, but has "
            f"{origin.decode_tokens}"
        )
    return None


def _check_resumed(first: FirstToken, want: Expectation, cached: int, block: int) -> CheckFailure | None:
    if cached < want.hit:
        reason = f"only {cached} of {want.hit} trunk tokens were cached: a trunk block was evicted or never stored"
        return _failure(first, want, reason, "problem", want.hit)
    if cached > want.hit:
        reason = f"{cached} tokens were cached where only {want.hit} can be: the count cannot be right"
        return _failure(first, want, reason, "pivot", want.hit)
    for number, origin in enumerate(first.origins or ()):
        wrong = _wrong_origin(number, origin, want, block)
        if wrong is not None:
            return _failure(first, want, wrong, "problem", want.hit, "origin")
    return None


def _check_cold(
    first: FirstToken, want: Expectation, cached: int, own: Iterable[str] | dict[str, Expectation]
) -> CheckFailure | None:
    if want.leader and cached != 0:
        reason = f"the first re-feed request of its trunk found {cached} tokens cached: the pass was not cold"
        return _failure(first, want, reason, "problem", 0, "cold")
    if cached > want.hit:
        reason = f"{cached} tokens were cached where at most {want.hit} can be: the count cannot be right"
        return _failure(first, want, reason, "pivot", want.hit)
    for number, origin in enumerate(first.origins or ()):
        if origin.owner not in own:
            reason = f"block {number} of its hit was stored before the pass, by {origin.owner}: the pass was not cold"
            return _failure(first, want, reason, "problem", None, "cold")
    return None


def check_first_token(plan: PassPlan, first: FirstToken, block: int, *, ledger: bool) -> CheckFailure | None:
    """Check one request's cache hit as its first token arrives; None when it proves what the pass demands.

    Source: protocol, "Verified" and "Salts and coldness"; known-faults 2 to 4.
    """
    want = plan.expectations[first.id]
    cached = first.cached_tokens
    if cached is None:
        return _failure(first, want, "the engine reported no cached-token count", "pivot", want.hit)
    if ledger and (first.origins is None or len(first.origins) * block != cached):
        known = "no blocks" if first.origins is None else f"{len(first.origins)} blocks"
        reason = f"the ledger knows {known} of a hit of {cached} tokens"
        return _failure(first, want, reason, "pivot", want.hit, "origin")
    if want.reads == "trunk":
        return _check_resumed(first, want, cached, block)
    return _check_cold(first, want, cached, plan.expectations)
