"""The registered settings of a campaign, and their digest.

A spec is locked before the first token: `Registration` stores it with the SHA-256 of its stored bytes. `name` and
`price_per_hour` are outside the digest, so that renaming a session or learning the price changes nothing.
"""

from __future__ import annotations

import difflib
import hashlib
import math
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Mapping

EngineName = Literal["auto", "vllm", "embedded"]
Dtype = Literal["bfloat16", "float16", "float32"]
ModelRunner = Literal["auto", "v1", "v2"]
Numerics = Literal["split", "natural", "invariant"]
CacheFailurePolicy = Literal["abort", "drop-problem", "record"]
StopRule = Literal["none", "symmetry", "betting"]
Grading = Literal["solution", "published"]
Grader = Literal["number", "math", "exact"]
PivotFilter = Literal["margin", "published"]
Screen = Literal["none", "mixed"]

BUNDLED_MODEL: Final = "bundled"
MIN_LOGPROBS: Final = 2
LARGEST: Final = 2**31 - 1  # of a whole number; none of them means anything beyond

Count = Annotated[int, Meta(ge=1, le=LARGEST)]
Index = Annotated[int, Meta(ge=0, le=LARGEST)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(gt=0, le=1)]


class CampaignSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One campaign's settings: one model, one task, one registered protocol.

    `None` and "auto" stand for a default that registration resolves (`engine.registration.resolve`); a resolved spec
    has an engine, a model, a task and a continuation temperature, and the digests of its data and model. Engine
    settings that stay `None` are the engine's own and are recorded in EngineReady.

    A field's type carries its range and, for `launch --help`, what it means.
    """

    engine: Annotated[
        EngineName, Meta(description='"vllm", "embedded", or "auto" (vllm if it and a GPU are there).')
    ] = "auto"
    model: Annotated[str | None, Meta(description='path, hub id (with vllm), or "bundled".')] = None
    revision: Annotated[str | None, Meta(description="hub revision of the model.")] = None
    dtype: Annotated[Dtype, Meta(description="of weights and KV.")] = "bfloat16"
    batch_invariant: Annotated[bool, Meta(description="batch-invariant kernels.")] = False
    attention_backend: Annotated[
        str | None,
        Meta(description='vllm only, by its own name ("FLASH_ATTN", "FLEX_ATTENTION"); None for its choice.'),
    ] = None
    model_runner: Annotated[
        ModelRunner, Meta(description="vllm only: v1, v2, or auto for vLLM's choice, which is recorded.")
    ] = "auto"
    numerics: Annotated[Numerics, Meta(description="embedded engine only.")] = "split"
    task: Annotated[
        str | None,
        Meta(
            description='"arithmetic", "gsm8k", "gsm8k:PATH", "math:PATH", "jsonl:PATH" with lines '
            '{"question": TEXT, "answer": NUMBER}, "hub:NAME?split=SPLIT", or a plug-in\'s name (docs/tasks.md).'
        ),
    ] = None
    prompt: Annotated[str | None, Meta(description="instruction after the question; None for the task's own.")] = None
    system_prompt: Annotated[str | None, Meta(description="system message; None for none.")] = None
    template_date: Annotated[
        str | None,
        Meta(description="day (YYYY-MM-DD) for chat templates that print one; None for the day of registration."),
    ] = None
    start: Annotated[Index, Meta(description="first task index.")] = 0
    problems: Annotated[Count, Meta(description="how many problems to measure.")] = 20
    screen: Annotated[
        Screen, Meta(description='"mixed" keeps problems whose trunks are neither all right nor all wrong.')
    ] = "none"
    scan_limit: Annotated[Count, Meta(description="how many problems a screen looks at.")] = 200
    rollouts: Annotated[Count, Meta(description="trunks per problem.")] = 8
    temperature: Annotated[NotNegative, Meta(description="of trunks.")] = 0.7
    top_p: Annotated[Share, Meta(description="of trunks and continuations.")] = 0.95
    k: Annotated[Count, Meta(description="continuations per arm.")] = 4
    cont_temperature: Annotated[NotNegative | None, Meta(description="of continuations; None for `temperature`.")] = (
        None
    )
    top_logprobs: Annotated[
        Annotated[int, Meta(ge=MIN_LOGPROBS, le=LARGEST)], Meta(description="raw logprobs recorded per trunk token.")
    ] = 5
    margin: Annotated[Positive, Meta(description="largest top-1 minus top-2 gap of a pivot, nats.")] = 1.0
    boundary_slack: Annotated[Index, Meta(description="largest distance of a pivot past a block boundary, tokens.")] = 2
    max_pivots: Annotated[Count, Meta(description="pivots per rollout, earliest first.")] = 5
    pivot_filter: Annotated[
        PivotFilter, Meta(description='"margin", or "published" (the published harness\'s fault, for comparison).')
    ] = "margin"
    grading: Annotated[
        Grading,
        Meta(description='"solution" grades trunk, forced token and continuation; "published" the continuation alone.'),
    ] = "solution"
    grader: Annotated[
        Grader,
        Meta(description='"number" compares exact numbers, "math" what math-verify can parse, "exact" strings.'),
    ] = "number"
    max_trunk_tokens: Annotated[Count, Meta(description="generated tokens of a trunk.")] = 512
    max_cont_tokens: Annotated[Count, Meta(description="generated tokens of a continuation.")] = 400
    probe_tokens: Annotated[Count, Meta(description="generated tokens of a greedy probe.")] = 32
    wave: Annotated[
        Index,
        Meta(
            description="problems whose trunks are generated together; 0 for 4 (12 with a screen), "
            "less if blocks would not last."
        ),
    ] = 0
    group: Annotated[
        Index, Meta(description="problems whose passes run as one batch; 0 for 4, never more than a wave.")
    ] = 0
    fidelity_nats: Annotated[
        Positive,
        Meta(description="largest difference of a logprob between exact 1 and the trunk that it continues, nats."),
    ] = 1.0
    on_cache_failure: Annotated[CacheFailurePolicy, Meta(description="what a failed cache check ends.")] = "abort"
    stop: Annotated[StopRule, Meta(description="sequential stop rule.")] = "none"
    alpha: Annotated[
        Annotated[float, Meta(gt=0, le=0.5)],
        Meta(description="of the stop rule and intervals' sequential counterparts."),
    ] = 0.05
    min_problems: Annotated[Count, Meta(description="informative problems before the stop rule may act.")] = 5
    decision: Annotated[
        tuple[float, float],
        Meta(description='pooled excess below the first is "negligible", above the second "load-bearing".'),
    ] = (0.02, 0.05)
    max_model_len: Annotated[Count | None, Meta(description="longest prompt plus generation.")] = None
    max_num_seqs: Annotated[Count | None, Meta(description="most requests in a batch.")] = None
    max_num_batched_tokens: Annotated[Count | None, Meta(description="most tokens in an engine step.")] = None
    block_size: Annotated[Count | None, Meta(description="KV block size, tokens.")] = None
    kv_blocks: Annotated[Count | None, Meta(description="KV blocks in all.")] = None
    gpu_memory_utilization: Annotated[Share | None, Meta(description="vllm's share of GPU memory.")] = None
    tensor_parallel: Annotated[Count | None, Meta(description="GPUs that hold one copy of the model.")] = None
    max_hours: Annotated[Positive | None, Meta(description="end cleanly before passing this.")] = None
    max_cost: Annotated[
        Positive | None, Meta(description="end cleanly before passing this, in the currency of the price.")
    ] = None
    seed: Annotated[Annotated[int, Meta(ge=0, le=2**63 - 1)], Meta(description="all randomness of the campaign.")] = 0
    task_digest: Annotated[str | None, Meta(description="SHA-256 of the problems' content; set by registration.")] = (
        None
    )
    model_digest: Annotated[
        str | None, Meta(description="SHA-256 over the model's files, or the hub commit; set by registration.")
    ] = None


# Fields in which pooled campaigns may differ (protocol: Pooling); name and price are not fields of the spec.
COHORT_FIELDS: Final = frozenset({"start", "problems", "screen", "scan_limit", "template_date"})


def _reject(field: str, value: object, want: str) -> RefeedError:
    return RefeedError("spec", f"spec field `{field}` is {value!r}", f"it must be {want}")


class Field(NamedTuple):
    """A field of the spec.

    Attributes:
        name: as in a spec file.
        kind: its type, without None.
        default: its value where nothing is said.
        help: what it means, in a sentence.
    """

    name: str
    kind: msgspec.inspect.Type
    default: object
    help: str


@cache
def described() -> tuple[Field, ...]:
    """The fields of the spec in their order, as their types describe them."""
    info = msgspec.inspect.type_info(CampaignSpec)
    if not isinstance(info, msgspec.inspect.StructType):
        raise TypeError(f"CampaignSpec is a {type(info).__name__}, not a struct")
    fields = []
    for field in info.fields:
        kind, text = field.type, ""
        if isinstance(kind, msgspec.inspect.Metadata):
            text = (kind.extra_json_schema or {}).get("description", "")
            kind = kind.type
        if isinstance(kind, msgspec.inspect.UnionType):
            (kind,) = (part for part in kind.types if not isinstance(part, msgspec.inspect.NoneType))
        fields.append(Field(field.name, kind, field.default, text[:1].upper() + text[1:]))
    return tuple(fields)


def _check_ranges(fields: Mapping[str, object]) -> None:
    """Pass when every number is in the range of its field; what is no number is left to the type."""
    for field in described():
        value, kind = fields.get(field.name), field.kind
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if isinstance(value, float) and not math.isfinite(value):
            raise _reject(field.name, value, "a finite number")
        if not isinstance(kind, msgspec.inspect.IntType | msgspec.inspect.FloatType):
            continue
        if kind.ge is not None and not value >= kind.ge:
            raise _reject(field.name, value, f"at least {kind.ge}")
        if kind.gt is not None and not value > kind.gt:
            raise _reject(field.name, value, f"above {kind.gt}")
        if kind.le is not None and not value <= kind.le:
            raise _reject(field.name, value, f"at most {kind.le}")


def _check_date(day: str | None) -> None:
    try:
        fine = day is None or date.fromisoformat(day).isoformat() == day
    except ValueError:
        fine = False
    if not fine:
        raise _reject("template_date", day, "a day such as 2026-12-01")


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
    if spec.temperature == 0 and spec.rollouts > 1:
        raise _reject("temperature", spec.temperature, f"above 0: {spec.rollouts} greedy trunks would be one trunk")
    if spec.grading == "published" and spec.grader != "number":
        raise _reject("grader", spec.grader, "`number` with grading = published, which reads numbers alone")


def _check_engine_fields(spec: CampaignSpec) -> None:
    if spec.engine == "vllm" and spec.numerics != "split":
        raise _reject("numerics", spec.numerics, "left alone with engine = vllm; use batch_invariant")
    if spec.engine == "embedded" and spec.attention_backend is not None:
        raise _reject("attention_backend", spec.attention_backend, "left alone with engine = embedded")
    if spec.engine == "embedded" and spec.model_runner != "auto":
        raise _reject("model_runner", spec.model_runner, "`auto` with engine = embedded")
    if spec.batch_invariant and spec.numerics == "natural":
        raise _reject("numerics", spec.numerics, "`invariant`, or left alone, when batch_invariant is set")


def check_new(spec: CampaignSpec) -> None:
    """Refuse what a new campaign must not register, though published files and older sessions may hold it.

    Raises:
        RefeedError: kind "spec", naming the field.
    """
    if spec.cont_temperature == 0 and spec.k > 1:
        raise _reject("k", spec.k, "1 with greedy continuations: the others would be the same text again")


def check(spec: CampaignSpec) -> CampaignSpec:
    """Return the spec when every field is in range and no two contradict.

    Raises:
        RefeedError: kind "spec", naming the field, its value and what it must be.
    """
    _check_ranges(msgspec.structs.asdict(spec))
    _check_combinations(spec)
    _check_engine_fields(spec)
    _check_date(spec.template_date)
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
    _check_ranges(fields)
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
            _check_ranges(msgspec.json.decode(self.spec, type=dict[str, object]))  # names the number
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
