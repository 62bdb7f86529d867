"""The public per-pivot JSON of the paper's harness, as records: what `imports` reads and `export` can write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from sessions.errors import RefeedError
from sessions.events import CacheFailure, Count, Nats, ProofKind, Quota, Seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that a file names. Later versions of the harness name more."""

    model: str
    problems: Quota
    rollouts: Quota
    temperature: float
    top_p: float
    k: Quota
    margin_lt: float
    boundary_slack: Count
    max_pivots_per_rollout: Quota
    max_trunk_tokens: Quota
    max_cont_tokens: Quota
    cont_temp: float | None = None
    screen_mixed: bool = False
    scan_limit: Quota = 200
    scan_start: Count = 0


class ProblemRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One problem: its trunks' accuracy and the seconds of its three passes."""

    problem_id: Count
    pivots: Count
    rollout_accuracy: float
    pass_seconds: tuple[Seconds, Seconds, Seconds]
    total_seconds: Seconds
    cache_violations: dict[str, int] | None = None


class Greedy(msgspec.Struct, frozen=True, kw_only=True):
    """First probed (token id, logprob) of each arm in one pass."""

    actual: tuple[Count, Nats]
    alt: tuple[Count, Nats]


class PivotExtras(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What our own exports add to a pivot, so that importing them loses nothing that a report shows.

    Attributes:
        proof: what its cache checks rest on; None where not instrumented.
        hit_tokens: tokens that each exact request read from the cache.
        decode_tokens: of these, written in decode.
        right: right continuations (actual, alternative) by pass; None in imports.
        twins: requests that hit a block which a sibling continuation decoded, by pass.
        tokens: sampled and forced token id.
        texts: of these.
        logprobs: of these, raw.
        rank: of the sampled token.
    """

    proof: ProofKind | None = None
    hit_tokens: Count | None = None
    decode_tokens: Count | None = None
    right: tuple[tuple[Count, Count], tuple[Count, Count], tuple[Count, Count]] | None = None
    twins: tuple[Count, Count, Count] = (0, 0, 0)
    tokens: tuple[Count, Count] | None = None
    texts: tuple[str, str] = ("", "")
    logprobs: tuple[Nats, Nats] | None = None
    rank: Count | None = None


class RunExtras(msgspec.Struct, frozen=True, kw_only=True):
    """What our own exports add to a file.

    Attributes:
        spec: every registered setting, by field.
        failures: cache failures; they stay in the denominator of the verified share.
    """

    spec: dict[str, object]
    failures: tuple[CacheFailure, ...] = ()


class PivotRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One pivot; estimates are fractions of k. Cache and probe fields are absent in files of the first harness."""

    problem_id: Count
    rollout: Count
    abs_pos: Count
    gen_index: Count
    margin: Nats
    rollout_correct: bool | int
    estimate_exact1: float = msgspec.field(name="A_exact1")
    estimate_exact2: float = msgspec.field(name="A_exact2")
    estimate_refeed: float = msgspec.field(name="A_refeed")
    cache_ok_exact1: bool | None = None
    cache_ok_exact2: bool | None = None
    greedy_first_exact1: Greedy | None = None
    greedy_first_exact2: Greedy | None = None
    greedy_first_refeed: Greedy | None = None
    greedy_divergence_exact2: bool | None = None
    greedy_divergence_refeed: bool | None = None
    greedy_first_logprob_delta_exact2: Nats | None = None
    greedy_first_logprob_delta_refeed: Nats | None = None
    refeed_tui: PivotExtras | None = None


class PublishedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A whole file. `aggregate` is the harness's own arithmetic: recomputed here, and held against the pivots."""

    config: Config
    per_problem: tuple[ProblemRecord, ...]
    pivots: tuple[PivotRecord, ...]
    final: bool = True
    experiment: str = ""
    prereg: str = ""
    elapsed_seconds: float | None = None
    aggregate: dict[str, object] | None = None
    refeed_tui: RunExtras | None = None


_SECTIONS: Final = {"config": Config, "per_problem": ProblemRecord, "pivots": PivotRecord}


def decode(data: bytes, source: str) -> tuple[PublishedRun, tuple[str, ...]]:
    """Read a file's bytes.

    Args:
        data: of the file.
        source: its name, for messages.

    Returns:
        the run, and the names of keys that are not known here, e.g. "config.kv_dtype".

    Raises:
        RefeedError: kind "usage" when it is no such file; the message has the place, e.g. `$.pivots[3].A_exact1`.
    """
    try:
        raw = msgspec.json.decode(data)
        run = msgspec.convert(raw, PublishedRun)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise RefeedError(
            "usage", f"{source} is no per-pivot file of the published harness: {str(error)[:200]!a}"
        ) from None
    return run, tuple(sorted(set(_unknown(raw))))


def _unknown(raw: Mapping[str, Any]) -> Iterator[str]:
    yield from (key[:60] for key in raw if key not in PublishedRun.__struct_encode_fields__)
    for section, record in _SECTIONS.items():
        held = raw[section]
        for part in held if isinstance(held, list) else [held]:
            yield from (f"{section}.{key[:60]}" for key in part if key not in record.__struct_encode_fields__)
