"""The registered settings of a campaign, and their digest.

A spec is locked before the first token: `Registration` stores it with the SHA-256 of its stored bytes. `name` and
`price_per_hour` are outside the digest, so that renaming a session or learning the price changes nothing.
"""

from __future__ import annotations

import difflib
import hashlib
import math
from typing import Final, Literal

import msgspec

from sessions.errors import RefeedError

EngineName = Literal["auto", "vllm", "embedded"]
Dtype = Literal["bfloat16", "float16", "float32"]
Numerics = Literal["split", "natural", "invariant"]
CacheFailurePolicy = Literal["abort", "drop-problem", "record"]
StopRule = Literal["none", "symmetry", "betting"]
Grading = Literal["solution", "published"]
PivotFilter = Literal["margin", "published"]
Screen = Literal["none", "mixed"]

BUNDLED_MODEL: Final = "bundled"
MIN_LOGPROBS: Final = 2


class CampaignSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One campaign's settings: one model, one task, one registered protocol.

    `None` and "auto" stand for a default that registration resolves (`engine.registration.resolve`); a resolved spec
    has an engine, a model, a task and a continuation temperature, and the digests of its data and model. Engine
    settings that stay `None` are the engine's own and are recorded in EngineReady.

    Attributes:
        engine: "vllm", "embedded", or "auto" (vllm if it and a GPU are there).
        model: path, hub id (with vllm), or "bundled".
        revision: hub revision of the model.
        dtype: of weights and KV.
        batch_invariant: batch-invariant kernels.
        attention_backend: vllm only, by its own name ("FLASH_ATTN", "FLEX_ATTENTION"); None for its choice.
        numerics: embedded engine only.
        task: "arithmetic", "gsm8k", "gsm8k:PATH", or "jsonl:PATH" with lines {"question": TEXT, "answer": NUMBER}.
        prompt: instruction after the question; None for the task's own.
        system_prompt: system message; None for none.
        start: first task index.
        problems: how many problems to measure.
        screen: "mixed" keeps problems whose trunks are neither all right nor all wrong.
        scan_limit: how many problems a screen looks at.
        rollouts: trunks per problem.
        temperature: of trunks.
        top_p: of trunks and continuations.
        k: continuations per arm.
        cont_temperature: of continuations; None for `temperature`.
        top_logprobs: raw logprobs recorded per trunk token.
        margin: largest top-1 minus top-2 gap of a pivot, nats.
        boundary_slack: largest distance of a pivot past a block boundary, tokens.
        max_pivots: pivots per rollout, earliest first.
        pivot_filter: "margin", or "published" (the published harness's fault, for comparison).
        grading: "solution" grades trunk, forced token and continuation; "published" the continuation alone.
        max_trunk_tokens: generated tokens of a trunk.
        max_cont_tokens: generated tokens of a continuation.
        probe_tokens: generated tokens of a greedy probe.
        wave: problems whose trunks are generated together; 0 for 4 (12 with a screen), less if blocks would not last.
        group: problems whose passes run as one batch; 0 for 4, never more than a wave.
        fidelity_nats: largest difference of a logprob between exact 1 and the trunk that it continues, nats.
        on_cache_failure: what a failed cache check ends.
        stop: sequential stop rule.
        alpha: of the stop rule and intervals' sequential counterparts.
        min_problems: informative problems before the stop rule may act.
        decision: pooled excess below the first is "negligible", above the second "load-bearing".
        max_model_len: longest prompt plus generation.
        max_num_seqs: most requests in a batch.
        max_num_batched_tokens: most tokens in an engine step.
        block_size: KV block size, tokens.
        kv_blocks: KV blocks in all.
        gpu_memory_utilization: vllm's share of GPU memory.
        tensor_parallel: GPUs that hold one copy of the model.
        max_hours: end cleanly before passing this.
        max_cost: end cleanly before passing this, in the currency of the price.
        seed: all randomness of the campaign.
        task_digest: SHA-256 of the problems' content; set by registration.
        model_digest: SHA-256 over the model's files, or the hub commit; set by registration.
    """

    engine: EngineName = "auto"
    model: str | None = None
    revision: str | None = None
    dtype: Dtype = "bfloat16"
    batch_invariant: bool = False
    attention_backend: str | None = None
    numerics: Numerics = "split"
    task: str | None = None
    prompt: str | None = None
    system_prompt: str | None = None
    start: int = 0
    problems: int = 20
    screen: Screen = "none"
    scan_limit: int = 200
    rollouts: int = 8
    temperature: float = 0.7
    top_p: float = 0.95
    k: int = 4
    cont_temperature: float | None = None
    top_logprobs: int = 5
    margin: float = 1.0
    boundary_slack: int = 2
    max_pivots: int = 5
    pivot_filter: PivotFilter = "margin"
    grading: Grading = "solution"
    max_trunk_tokens: int = 512
    max_cont_tokens: int = 400
    probe_tokens: int = 32
    wave: int = 0
    group: int = 0
    fidelity_nats: float = 1.0
    on_cache_failure: CacheFailurePolicy = "abort"
    stop: StopRule = "none"
    alpha: float = 0.05
    min_problems: int = 5
    decision: tuple[float, float] = (0.02, 0.05)
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    block_size: int | None = None
    kv_blocks: int | None = None
    gpu_memory_utilization: float | None = None
    tensor_parallel: int | None = None
    max_hours: float | None = None
    max_cost: float | None = None
    seed: int = 0
    task_digest: str | None = None
    model_digest: str | None = None


# Closed lower bounds, then open ones, by field; None (the engine's own) always passes.
MINIMUM: Final[dict[str, float]] = {
    **dict.fromkeys(
        (
            "problems",
            "scan_limit",
            "rollouts",
            "k",
            "max_pivots",
            "max_trunk_tokens",
            "max_cont_tokens",
            "probe_tokens",
            "min_problems",
            "max_model_len",
            "max_num_seqs",
            "max_num_batched_tokens",
            "block_size",
            "kv_blocks",
            "tensor_parallel",
        ),
        1,
    ),
    **dict.fromkeys(("start", "boundary_slack", "wave", "group", "seed", "temperature", "cont_temperature"), 0),
    "top_logprobs": MIN_LOGPROBS,
}
ABOVE: Final[dict[str, float]] = dict.fromkeys(
    ("margin", "fidelity_nats", "max_hours", "max_cost", "top_p", "gpu_memory_utilization", "alpha"), 0
)
AT_MOST: Final[dict[str, float]] = {"top_p": 1, "gpu_memory_utilization": 1, "alpha": 0.5, "seed": 2**63 - 1}
LARGEST: Final = 2**31 - 1  # of every other whole number; none of them means anything beyond

# Fields in which pooled campaigns may differ (protocol: Pooling); name and price are not fields of the spec.
COHORT_FIELDS: Final = frozenset({"start", "problems", "screen", "scan_limit"})


def _reject(field: str, value: object, want: str) -> RefeedError:
    return RefeedError("spec", f"spec field `{field}` is {value!r}", f"it must be {want}")


def _check_ranges(spec: CampaignSpec) -> None:
    for field in CampaignSpec.__struct_fields__:
        value = getattr(spec, field)
        if isinstance(value, float) and not math.isfinite(value):
            raise _reject(field, value, "a finite number")
        if value is None:
            continue
        if field in MINIMUM and not value >= MINIMUM[field]:
            raise _reject(field, value, f"at least {MINIMUM[field]}")
        if field in ABOVE and not value > ABOVE[field]:
            raise _reject(field, value, f"above {ABOVE[field]}")
        most = AT_MOST.get(field, LARGEST if isinstance(value, int) else math.inf)
        if isinstance(value, int | float) and not value <= most:
            raise _reject(field, value, f"at most {most}")


def _check_combinations(spec: CampaignSpec) -> None:
    low, high = spec.decision
    if not low <= high:
        raise _reject("decision", spec.decision, "two thresholds, the lower first")
    if spec.block_size is not None and spec.boundary_slack >= spec.block_size:
        raise _reject("boundary_slack", spec.boundary_slack, f"less than block_size = {spec.block_size}")
    longest = spec.max_trunk_tokens + max(spec.max_cont_tokens, spec.probe_tokens)
    if spec.max_model_len is not None and spec.max_model_len <= longest:
        raise _reject("max_model_len", spec.max_model_len, f"above {longest}: a trunk, and a continuation or probe")
    if spec.screen == "mixed" and spec.rollouts == 1:
        raise _reject("screen", spec.screen, "`none` when rollouts = 1: one trunk cannot be mixed")
    if spec.screen == "mixed" and spec.scan_limit < spec.problems:
        raise _reject("scan_limit", spec.scan_limit, f"at least problems = {spec.problems}")
    if spec.engine == "vllm" and spec.numerics != "split":
        raise _reject("numerics", spec.numerics, "left alone with engine = vllm; use batch_invariant")
    if spec.engine == "embedded" and spec.attention_backend is not None:
        raise _reject("attention_backend", spec.attention_backend, "left alone with engine = embedded")
    if spec.batch_invariant and spec.numerics == "natural":
        raise _reject("numerics", spec.numerics, "`invariant`, or left alone, when batch_invariant is set")
    if spec.temperature == 0 and spec.rollouts > 1:
        raise _reject("temperature", spec.temperature, f"above 0: {spec.rollouts} greedy trunks would be one trunk")


def check(spec: CampaignSpec) -> CampaignSpec:
    """Return the spec when every field is in range and no two contradict.

    Raises:
        RefeedError: kind "spec", naming the field, its value and what it must be.
    """
    _check_ranges(spec)
    _check_combinations(spec)
    return spec


def from_fields(fields: dict[str, object]) -> CampaignSpec:
    """Build and check a spec from field values, as from TOML or flags.

    Raises:
        RefeedError: kind "spec" for an unknown field, a wrong type or an impossible combination.
    """
    for name in fields:
        if name not in CampaignSpec.__struct_fields__:
            close = difflib.get_close_matches(name, CampaignSpec.__struct_fields__, 1)
            hint = f"did you mean `{close[0]}`?" if close else "`refeed-tui launch --help` lists fields"
            raise RefeedError("spec", f"the spec has an unknown field {name[:60]!a}", hint)
    try:
        spec = msgspec.convert(fields, CampaignSpec)
    except msgspec.ValidationError as error:
        given = fields.get(str(error).rpartition("$.")[2].rstrip("`"))
        found = "" if given is None else f"; it is {str(given)[:60]!a}"
        raise RefeedError(
            "spec", f"the spec does not fit: {error}{found}", "`refeed-tui launch --help` lists fields"
        ) from None
    return check(spec)


# What a field names is what its digest says, wherever it lies.
BY_CONTENT: Final = {"task": "task_digest", "model": "model_digest"}


def changed_fields(one: CampaignSpec, other: CampaignSpec, ignore: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Names of the fields in which two specs differ."""
    names = (name for name in CampaignSpec.__struct_fields__ if name not in ignore)
    return tuple(name for name in names if getattr(one, name) != getattr(other, name))


def _of_its_time(spec: CampaignSpec) -> CampaignSpec:
    """A stored spec as it was meant: registration settles the group, and before there were groups it was 1."""
    return msgspec.structs.replace(spec, group=spec.group or 1)


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """What spec.json holds.

    Attributes:
        digest: SHA-256 hex of the bytes of `spec` as stored.
        spec: the spec's stored bytes; never re-encoded before the digest is compared.
        name: the session's name; outside the digest.
        price_per_hour: of the machine; outside the digest.
    """

    digest: str
    spec: msgspec.Raw
    name: str | None = None
    price_per_hour: float | None = None

    def campaign(self) -> CampaignSpec:
        """Return the decoded spec.

        Raises:
            RefeedError: kind "integrity" when the stored spec does not match its digest or cannot be read.
        """
        found = hashlib.sha256(self.spec).hexdigest()
        if found != self.digest:
            raise RefeedError(
                "integrity",
                f"spec.json says digest {self.digest[:16]}, but its spec hashes to {found[:16]}",
                "the spec was changed after registration; nothing of this session can be trusted to match it",
            )
        try:
            return _of_its_time(msgspec.json.decode(self.spec, type=CampaignSpec))
        except msgspec.ValidationError as error:
            raise RefeedError(
                "integrity", f"spec.json cannot be read: {error}", "was it written by a newer version?"
            ) from None


def register(spec: CampaignSpec, *, name: str | None = None, price_per_hour: float | None = None) -> Registration:
    """Encode a resolved spec (sorted keys, shortest floats) and take its digest."""
    stored = msgspec.json.encode(spec, order="sorted")
    return Registration(
        digest=hashlib.sha256(stored).hexdigest(),
        spec=msgspec.Raw(stored),
        name=name,
        price_per_hour=price_per_hour,
    )
