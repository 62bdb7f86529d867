"""Events as a campaign emits them, for tests and benchmarks of sessions."""

from __future__ import annotations

from sessions.events import (
    Arm,
    CacheFailure,
    CacheProof,
    EngineReady,
    Opened,
    PassResult,
    PassStarted,
    Pivot,
    Probe,
    ProblemClosed,
    Trunk,
    TrunksDone,
)


def probe(token: int = 93210, logprob: float = -0.6067786812782288, tokens: str = "a1b2c3d4e5f60718") -> Probe:
    """A probe of 32 tokens; equal `tokens` hex means that it stayed on exact-1's tokens."""
    return Probe(first_token=token, first_logprob=logprob, length=32, tokens=tokens, logprobs="0f1e2d3c4b5a6978")


def result(net: int, k: int = 4, shift: float = 0.0, tokens: str = "a1b2c3d4e5f60718") -> PassResult:
    """A pass whose arms differ by `net`, its probes shifted by `shift` nats on the actual arm."""
    right = max(net, 0) + (k - abs(net)) // 2
    actual = Arm(correct=right, capped=1, tokens=512, probe=probe(logprob=-0.5 - shift, tokens=tokens))
    alternative = Arm(correct=right - net, tokens=498, probe=probe(token=25, logprob=-0.25))
    return PassResult(net=net, actual=actual, alternative=alternative, cached=(144, 144))


def pivot(
    problem: int = 0,
    rollout: int = 0,
    position: int = 145,
    nets: tuple[int, int, int] = (0, 0, 0),
    *,
    attempt: int = 1,
    k: int = 4,
    cache: CacheProof | None = None,
    shifts: tuple[float, float] = (0.0, 0.0),
    probes: tuple[str, str] = ("a1b2c3d4e5f60718", "a1b2c3d4e5f60718"),
) -> Pivot:
    """A verified pivot with these net counts (exact-1, exact-2, re-feed)."""
    verified = CacheProof(state="verified", proof="ledger", hit_tokens=144, decode_tokens=32)
    return Pivot(
        problem=problem,
        attempt=attempt,
        rollout=rollout,
        position=position,
        index=position - 116,
        margin=0.125,
        k=k,
        correct=True,
        cache=cache or verified,
        exact1=result(nets[0], k),
        exact2=result(nets[1], k, shifts[0], probes[0]),
        refeed=result(nets[2], k, shifts[1], probes[1]),
        actual=93210,
        alternative=25,
        actual_text=" crayons",
        alternative_text=" pens",
        actual_logprob=-0.75,
        alternative_logprob=-0.875,
        rank=1,
    )


def opened(session: str = "20261129-190312-k3f9") -> Opened:
    """A worker's first event."""
    return Opened(session=session, version="0.1.0", host="box", pid=4242)


def engine_ready() -> EngineReady:
    """An embedded engine that answered."""
    return EngineReady(
        engine="embedded",
        model="bundled",
        block_size=16,
        num_blocks=4096,
        max_model_len=1024,
        max_num_seqs=128,
        proof="ledger",
        seconds=0.5,
        numerics={"torch": "2.13", "kernels": "split"},
        fingerprint="ab" * 32,
        machine={"cpu": "two cores"},
    )


def trunks_done(problem: int = 0, rollouts: int = 8, right: int = 5, *, attempt: int = 1) -> TrunksDone:
    """Trunks of which the first `right` are correct."""
    trunks = tuple(
        Trunk(
            rollout=number,
            prompt_tokens=116,
            tokens=240,
            finish="stop",
            correct=number < right,
            preemptions=0,
            candidates=9,
            pivots=5,
        )
        for number in range(rollouts)
    )
    return TrunksDone(problem=problem, attempt=attempt, trunks=trunks, kept=True, seconds=3.5)


def pass_started(problem: int = 0, name: str = "exact-1", *, attempt: int = 1) -> PassStarted:
    """A pass of 400 requests."""
    return PassStarted(problem=problem, attempt=attempt, name=name, requests=400)  # type: ignore[arg-type]


def closed(problem: int = 0, pivots: int = 1, *, attempt: int = 1, outcome: str = "measured") -> ProblemClosed:
    """The end of a problem."""
    return ProblemClosed(
        problem=problem,
        attempt=attempt,
        outcome=outcome,  # type: ignore[arg-type]
        pivots=pivots,
        seconds=21.0,
    )


def cache_failure(
    problem: int, rollout: int | None = 3, position: int | None = 145, attempt: int = 0, policy: str = "abort"
) -> CacheFailure:
    """A request that hit a block too little."""
    return CacheFailure(
        problem=problem,
        attempt=attempt,
        stage="exact-2",
        request="p7-r3-145-a-k2",
        rollout=rollout,
        position=position,
        expected=144,
        found=128,
        reason="hit 128 cached tokens, expected 144",
        policy=policy,
    )
