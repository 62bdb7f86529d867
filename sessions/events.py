"""Everything a journal can say: one frozen tagged struct per kind of event.

Events carry raw facts (graded counts, token ids, cached-token counts, seconds), never statistics. New fields always
have defaults, so that old sessions stay readable. `seq`, `wall` and `mono` are set by the journal.

Structs are kept from the cyclic garbage collector (`gc=False`): they hold scalars, text and tuples of these, so they
cannot form cycles, and attaching to a long campaign would spend most of its time in collections otherwise.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

PassName = Literal["exact-1", "exact-2", "re-feed"]
ProofKind = Literal["ledger", "counts"]
CacheState = Literal["verified", "failed", "not_instrumented"]
EndState = Literal["finished", "stopped", "aborted", "interrupted", "failed"]
Outcome = Literal["measured", "screened-out", "dropped"]

# Bounds are checked when a journal is read: a stranger's numbers must fit the arrays that statistics take.
Count = Annotated[int, Meta(ge=0, le=2**53)]
Net = Annotated[int, Meta(ge=-(2**31), le=2**31)]
Quota = Annotated[int, Meta(ge=1, le=2**31)]
Nats = Annotated[float, Meta(ge=-1e9, le=1e9)]
Seconds = Annotated[float, Meta(ge=-1e12, le=1e12)]


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="event"):
    """Common head of all events.

    Attributes:
        seq: position in the journal, from 0.
        wall: seconds since the epoch; may step back.
        mono: seconds of the worker's monotonic clock since it opened the journal.
    """

    seq: int = -1
    wall: Seconds = 0.0
    mono: Seconds = 0.0


class Opened(Event, frozen=True, kw_only=True, gc=False, tag="opened"):
    """A worker (or an import) opened the journal; the second and later ones are resumes.

    Attributes:
        session: the session's id.
        version: of refeed-tui.
        host: host name; empty for imports.
        pid: of the worker; 0 for imports.
        past_stop: whether this run may continue past the sequential stop.
        source: imported file's name; empty otherwise.
        source_sha256: hash of the imported file.
    """

    session: str
    version: str
    host: str = ""
    pid: Count = 0
    past_stop: bool = False
    source: str = ""
    source_sha256: str = ""


class EngineReady(Event, frozen=True, kw_only=True, gc=False, tag="engine-ready"):
    """The engine answered; everything that decides its numerics.

    Attributes:
        engine: "embedded" or "vllm".
        model: path or hub id.
        block_size: tokens.
        num_blocks: KV blocks.
        max_model_len: tokens.
        max_num_seqs: requests in a batch.
        proof: what its cache checks rest on.
        seconds: from start of loading to ready.
        numerics: name to text; everything that can change a logit.
        fingerprint: digest of `numerics`.
        machine: host facts that change no logit.
        changed: names of `numerics` that differ from the session's first engine; also "canary".
        canary: digest of the logprobs of fixed prompts, to their last bit; "varies" when two in a row differ; empty in
            a journal that was written before there was one.
    """

    engine: str
    model: str
    block_size: Count
    num_blocks: Count
    max_model_len: Count
    max_num_seqs: Count
    proof: ProofKind
    seconds: Seconds
    numerics: dict[str, str]
    fingerprint: str
    machine: dict[str, str]
    changed: tuple[str, ...] = ()
    canary: str = ""


class WavePlanned(Event, frozen=True, kw_only=True, gc=False, tag="wave-planned"):
    """Problems whose trunks are generated together.

    Attributes:
        problems: task indices.
        attempt: of this run of the worker, from 0.
        blocks_needed: KV blocks that the trunks must keep until they are measured, at worst.
        blocks_allocated: KV blocks that passes may allocate between two touches of a trunk, at worst.
        blocks_there: KV blocks in all.
        reason: why the wave has this size.
    """

    problems: tuple[Count, ...]
    attempt: Count
    blocks_needed: Count
    blocks_allocated: Count
    blocks_there: Count
    reason: str = ""


class Trunk(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One rollout in numbers.

    Attributes:
        rollout: number within the problem.
        prompt_tokens: length of the prompt.
        tokens: generated.
        finish: "stop" or "length".
        correct: grade of the whole rollout.
        preemptions: of its request.
        candidates: positions that passed the pivot filter, before the cap.
        pivots: kept.
    """

    rollout: Count
    prompt_tokens: Count
    tokens: Count
    finish: str
    correct: bool
    preemptions: Count
    candidates: Count
    pivots: Count


class TrunksDone(Event, frozen=True, kw_only=True, gc=False, tag="trunks-done"):
    """A problem's trunks were generated and graded.

    Attributes:
        problem: task index.
        attempt: of this run of the worker, from 0.
        trunks: by rollout.
        kept: whether the screen keeps the problem.
        seconds: of the batch that generated them (shared by its problems).
        batch: problems in that batch.
        right: imports only: trunks graded right; their `trunks` is empty, for files do not list them.
    """

    problem: Count
    attempt: Count
    trunks: tuple[Trunk, ...]
    kept: bool
    seconds: Seconds
    batch: Count = 1
    right: Count | None = None


class PassStarted(Event, frozen=True, kw_only=True, gc=False, tag="pass-started"):
    """The requests of a group's pass were submitted as one batch.

    Attributes:
        problem: task index; the first of the group.
        attempt: of this run of the worker, from 0.
        name: of the pass.
        requests: how many.
        cold_by: how the pass was made cold: by a checked reset, by fresh salts, or both; "" for passes that resume.
        problems: of the group whose requests are one batch; empty for that of `problem` alone.
    """

    problem: Count
    attempt: Count
    name: PassName
    requests: Count
    cold_by: Literal["", "reset", "salt", "reset+salt"] = ""
    problems: tuple[Count, ...] = ()


class Progress(Event, frozen=True, kw_only=True, gc=False, tag="progress"):
    """Where a running batch is; at most 2 Hz.

    Attributes:
        problem: task index; the first of the wave while trunks are generated, of the group in a pass.
        stage: "trunks" or the pass's name.
        done: requests finished.
        total: requests submitted.
        verified: requests of this pass whose cache check passed.
        failed: requests of this pass whose cache check failed.
        tokens: generated so far in this batch.
        tokens_per_s: since the last Progress.
        kv_use: share of KV blocks in use.
        preemptions: so far in this batch.
    """

    problem: Count
    stage: str
    done: Count
    total: Count
    verified: Count
    failed: Count
    tokens: Count
    tokens_per_s: float
    kv_use: float
    preemptions: Count = 0


class PassEnded(Event, frozen=True, kw_only=True, gc=False, tag="pass-ended"):
    """A problem's part of a pass ended, or the pass was stopped.

    Attributes:
        problem: task index.
        attempt: of this run of the worker, from 0.
        name: of the pass.
        seconds: of the batch, from submission to the last token (shared by its problems).
        tokens: generated for this problem; 0 in imports, which do not know.
        verified: requests whose cache check passed.
        failed: requests whose cache check failed.
        preemptions: of its requests.
        stopped: whether it was stopped before its end.
        batch: problems in that batch.
    """

    problem: Count
    attempt: Count
    name: PassName
    seconds: Seconds
    tokens: Count
    verified: Count
    failed: Count
    preemptions: Count = 0
    stopped: bool = False
    batch: Count = 1


class Probe(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One arm's greedy probe in one pass.

    Attributes:
        first_token: first probed token id.
        first_logprob: its raw logprob, nats.
        length: tokens probed; 0 in imports.
        tokens: BLAKE2b-64 hex of the token ids (int32, little endian); equal hex means equal tokens.
        logprobs: BLAKE2b-64 hex of the logprobs (float32, little endian); equal hex means equal to the last bit.
    """

    first_token: Count
    first_logprob: Nats
    length: Count = 0
    tokens: str = ""
    logprobs: str = ""


class Arm(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One arm of a pivot in one pass.

    Attributes:
        correct: continuations graded right, out of k; None in imports, which know only the difference.
        capped: continuations that ended at the token limit.
        tokens: generated by its continuations.
        probe: its greedy probe; None where absent.
    """

    correct: Count | None = None
    capped: Count = 0
    tokens: Count = 0
    probe: Probe | None = None


class PassResult(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A pivot in one pass.

    Attributes:
        net: correct_actual - correct_alternative, out of k.
        actual: the sampled token's arm.
        alternative: the forced token's arm.
        cached: (fewest, most) cached tokens among the pivot's requests; None where not instrumented.
        twins: requests that hit a block which a sibling continuation decoded; 0 where only counts are known.
        probe_diverged: imports only: whether a probe left exact-1's tokens.
        probe_delta: imports only: largest first-token logprob difference to exact-1 over the arms.
    """

    net: Net
    actual: Arm
    alternative: Arm
    cached: tuple[Count, Count] | None = None
    twins: Count = 0
    probe_diverged: bool | None = None
    probe_delta: Nats | None = None


class CacheProof(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What the cache checks say of a pivot.

    Attributes:
        state: verified, failed, or not_instrumented (imports only).
        proof: what they rest on; None where not instrumented.
        hit_tokens: tokens that each exact request had to hit.
        decode_tokens: of those, tokens whose KV was written in decode; None when only counts are known.
        reason: of a failure, in words.
    """

    state: CacheState
    proof: ProofKind | None = None
    hit_tokens: Count | None = None
    decode_tokens: Count | None = None
    reason: str = ""


class Fidelity(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The first token of exact 1's actual-arm probe against the trunk that it continues.

    Attributes:
        argmax: "same" as the trunk's likeliest token at that index; "other", among the trunk's recorded likeliest;
            "outside" of them; or "beyond": the trunk ended at its pivot, so that there is nothing to compare with.
        delta: |difference of the probed token's raw logprob|, nats; None where the trunk has none recorded.
    """

    argmax: Literal["same", "other", "outside", "beyond"]
    delta: Nats | None = None


class Pivot(Event, frozen=True, kw_only=True, gc=False, tag="pivot"):
    """One pivot after its third pass, all passes inside. Evidence once its problem closed in the same attempt.

    Attributes:
        problem: task index.
        attempt: of this run of the worker, from 0.
        rollout: trunk that it lies in.
        position: absolute token position: the prefix has this many tokens.
        index: generated index: position minus prompt length.
        margin: top-1 minus top-2 raw logprob, nats.
        k: continuations per arm.
        correct: grade of its rollout.
        cache: what the cache checks say.
        exact1: pass 1.
        exact2: pass 2, the replica.
        refeed: the re-feed pass.
        actual: sampled token id; None in imports.
        alternative: forced token id; None in imports.
        actual_text: sampled token's text.
        alternative_text: forced token's text.
        actual_logprob: raw logprob of the sampled token.
        alternative_logprob: raw logprob of the forced token.
        rank: rank of the sampled token among raw logprobs, from 1; ties share the better rank.
        fidelity: exact 1 against its trunk; None in imports and in sessions from before it was recorded.
    """

    problem: Count
    attempt: Count
    rollout: Count
    position: Count
    index: Count
    margin: Nats
    k: Quota
    correct: bool
    cache: CacheProof
    exact1: PassResult
    exact2: PassResult
    refeed: PassResult
    actual: Count | None = None
    alternative: Count | None = None
    actual_text: str = ""
    alternative_text: str = ""
    actual_logprob: Nats | None = None
    alternative_logprob: Nats | None = None
    rank: Count | None = None
    fidelity: Fidelity | None = None


class CacheFailure(Event, frozen=True, kw_only=True, gc=False, tag="cache-failure"):
    """A request failed its cache check.

    Attributes:
        problem: task index.
        attempt: of this run of the worker, from 0.
        stage: "trunks" or the pass's name.
        request: the request's id.
        rollout: of the pivot; None when no single pivot is to blame.
        position: of the pivot; None when no single pivot is to blame.
        expected: cached tokens that it had to report; None when the count is not the failure.
        found: cached tokens that it reported; None when missing.
        reason: in words.
        policy: what the failure ends.
        check: name of the check; empty in sessions from before checks had names.
    """

    problem: Count
    attempt: Count
    stage: str
    request: str
    rollout: Count | None
    position: Count | None
    expected: Count | None
    found: Count | None
    reason: str
    policy: str
    check: str = ""


class ProblemClosed(Event, frozen=True, kw_only=True, gc=False, tag="problem-closed"):
    """A problem is done; its pivots of this attempt are evidence when it was measured.

    Attributes:
        problem: task index.
        attempt: of this run of the worker, from 0.
        outcome: measured, screened-out (trunks not mixed), or dropped (by a cache failure).
        pivots: Pivot events of this attempt.
        seconds: of its group's passes; trunks are in TrunksDone.
        texts: name of its side file under texts/; empty when none.
        texts_sha256: hash of that file.
        reason: why it was dropped or screened out.
        batch: problems in its group.
    """

    problem: Count
    attempt: Count
    outcome: Outcome
    pivots: Count
    seconds: Seconds
    texts: str = ""
    texts_sha256: str = ""
    reason: str = ""
    batch: Count = 1


class Paused(Event, frozen=True, kw_only=True, gc=False, tag="paused"):
    """The worker waits before the next problem; the GPU stays held.

    Attributes:
        by: who asked.
    """

    by: str = "user"


class Resumed(Event, frozen=True, kw_only=True, gc=False, tag="resumed"):
    """The worker goes on after a pause.

    Attributes:
        by: who asked.
    """

    by: str = "user"


class Notice(Event, frozen=True, kw_only=True, gc=False, tag="notice"):
    """Something a person should know: loading progress, a warning, a deviation.

    Attributes:
        kind: short name, e.g. "loading", "warning", "deviation".
        text: one sentence.
        fraction: 0 to 1 for progress; None otherwise.
    """

    kind: str
    text: str
    fraction: float | None = None


class Ended(Event, frozen=True, kw_only=True, gc=False, tag="ended"):
    """This run of the worker ended.

    Attributes:
        state: finished; stopped (its rule, hours or cost); aborted (cache check or user); interrupted (signal); failed.
        exit_code: of the worker.
        reason: one sentence.
    """

    state: EndState
    exit_code: int
    reason: str


AnyEvent = (
    Opened
    | EngineReady
    | WavePlanned
    | TrunksDone
    | PassStarted
    | Progress
    | PassEnded
    | Pivot
    | CacheFailure
    | ProblemClosed
    | Paused
    | Resumed
    | Notice
    | Ended
)
