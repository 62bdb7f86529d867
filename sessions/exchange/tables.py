"""A campaign as three documented tables: pivots, problems and passes, for other people's tools.

`pivots` holds evidence only; what was measured and does not count is in `excluded`, with the reason, so that nobody
averages over it by accident. A value that is not known is None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec
import numpy as np

from sessions.state.columns import COUNTS, FAILED, LEDGER, UNKNOWN, Real, Whole
from sessions.text import json_printable, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from sessions.events import PassName
    from sessions.state.campaign import CampaignState
    from sessions.state.rows import ProblemRow

    Rows = NDArray[np.int64]

TableName = Literal["pivots", "excluded", "problems", "passes"]
Type = Literal["int", "float", "text"]
_CHUNK: Final = 8192
_LONG: Final = 2000
_CACHE: Final = ("verified", "failed", "not_instrumented")
_PROOF: Final = {LEDGER: "ledger", COUNTS: "counts", UNKNOWN: None}


class Column(NamedTuple):
    """One column.

    Attributes:
        name: header.
        unit: of its values; empty for names and numbers of things.
        meaning: in a sentence.
        type: of its values.
    """

    name: str
    unit: str
    meaning: str
    type: Type = "int"


class _Read(NamedTuple):
    column: Column
    values: Callable[[CampaignState, Rows], list[Any]]


def _whole(name: str, meaning: str, unit: str = "", of: Whole | None = None) -> _Read:
    def values(state: CampaignState, rows: Rows) -> list[Any]:
        return [None if value == UNKNOWN else value for value in state.pivots.whole(of or name)[rows].tolist()]  # type: ignore[arg-type]

    return _Read(Column(name, unit, meaning), values)


def _real(name: str, meaning: str, of: Real) -> _Read:
    def values(state: CampaignState, rows: Rows) -> list[Any]:
        return _finite(state.pivots.real(of)[rows])

    return _Read(Column(name, "nats", meaning, "float"), values)


def _finite(values: NDArray[np.float64]) -> list[float | None]:
    return [None if np.isnan(value) else value for value in values.tolist()]


def _net(name: Whole, which: str) -> _Read:
    def values(state: CampaignState, rows: Rows) -> list[Any]:
        nets: list[Any] = state.pivots.whole(name)[rows].tolist()
        return nets  # always known, and -1 is a value like any other

    meaning = f"right continuations of the actual arm minus those of the alternative, {which}"
    return _Read(Column(name, "of k", meaning), values)


def _right(name: Whole, arm: str, which: str) -> _Read:
    return _whole(f"right_{name}", f"right continuations of the {arm} arm, {which}", "of k", of=name)


def _delta(name: str, meaning: str, comparison: int, arm: int | None = None) -> _Read:
    def values(state: CampaignState, rows: Rows) -> list[Any]:
        if arm is None:
            return _finite(state.pivots.deltas()[rows, comparison])
        return _finite(state.pivots.arm_deltas()[rows, comparison, arm])

    return _Read(Column(name, "nats", meaning, "float"), values)


def _text(name: str, meaning: str, arm: int) -> _Read:
    def values(state: CampaignState, rows: Rows) -> list[Any]:
        texts = (state.pivots.texts[row][arm] for row in rows.tolist())
        return [json_printable(msgspec.json.encode(text)).decode() if text else None for text in texts]

    return _Read(Column(name, "", f"{meaning}, as a JSON string", "text"), values)


def _cache_values(state: CampaignState, rows: Rows) -> list[Any]:
    return [_CACHE[value] for value in state.pivots.whole("cache")[rows].tolist()]


def _proof_values(state: CampaignState, rows: Rows) -> list[Any]:
    return [_PROOF[value] for value in state.pivots.whole("proof")[rows].tolist()]


_PIVOT: Final = (
    _whole("problem", "task index"),
    _whole("attempt", "which run of the worker measured it, from 0"),
    _whole("rollout", "trunk that it lies in"),
    _whole("position", "absolute position; the prefix has this many tokens", "tokens"),
    _whole("index", "position within the generated tokens", "tokens"),
    _whole("k", "continuations per arm"),
    _real("margin", "top-1 minus top-2 raw logprob", "margin"),
    _whole("trunk_right", "1 where its whole rollout is right, 0 where not", of="correct"),
    _net("net_exact1", "exact pass 1"),
    _net("net_exact2", "exact pass 2, the replica"),
    _net("net_refeed", "re-feed pass"),
    _right("actual_exact1", "actual", "exact pass 1"),
    _right("actual_exact2", "actual", "exact pass 2"),
    _right("actual_refeed", "actual", "re-feed pass"),
    _right("alternative_exact1", "alternative", "exact pass 1"),
    _right("alternative_exact2", "alternative", "exact pass 2"),
    _right("alternative_refeed", "alternative", "re-feed pass"),
    _Read(Column("cache", "", "verified, failed, or not_instrumented (imports)", "text"), _cache_values),
    _Read(Column("proof", "", "what the cache checks rest on: ledger or counts", "text"), _proof_values),
    _whole("hit_tokens", "tokens that each exact request read from the cache", "tokens"),
    _whole("decode_tokens", "of these, how many were written in decode", "tokens"),
    _whole("twins", "requests that hit a block which a sibling continuation decoded"),
    _whole("probe_diverged_exact2", "1 where a greedy probe of exact-2 left exact-1's tokens", of="diverged_exact2"),
    _whole("probe_diverged_refeed", "1 where a greedy probe of re-feed left exact-1's tokens", of="diverged_refeed"),
    _delta("probe_delta_exact2", "largest first-token logprob difference, exact-2 and exact-1", 0),
    _delta("probe_delta_refeed", "largest first-token logprob difference, re-feed and exact-1", 1),
    _delta("probe_delta_exact2_actual", "the same on the actual arm alone, exact-2", 0, 0),
    _delta("probe_delta_exact2_alternative", "the same on the alternative arm alone, exact-2", 0, 1),
    _delta("probe_delta_refeed_actual", "the same on the actual arm alone, re-feed", 1, 0),
    _delta("probe_delta_refeed_alternative", "the same on the alternative arm alone, re-feed", 1, 1),
    _whole("actual_token", "sampled token id", of="actual"),
    _whole("alternative_token", "forced token id", of="alternative"),
    _real("actual_logprob", "raw logprob of the sampled token", "actual_logprob"),
    _real("alternative_logprob", "raw logprob of the forced token", "alternative_logprob"),
    _whole("rank", "rank of the sampled token among raw logprobs, from 1"),
)
_PIVOT_TEXT: Final = (
    _text("actual_text", "sampled token", 0),
    _text("alternative_text", "forced token", 1),
)
_REASON: Final = Column(
    "excluded",
    "",
    "why it is no evidence: failed, dropped, screened-out, abandoned, repeated or open",
    "text",
)
_PROBLEM: Final = (
    Column("problem", "", "task index"),
    Column("attempt", "", "which run of the worker measured it, from 0"),
    Column("outcome", "", "measured, screened-out, dropped, or none while it is open", "text"),
    Column("trunks", "", "rollouts"),
    Column("trunks_right", "", "rollouts graded right"),
    Column("pivots", "", "measured in this attempt"),
    Column("failed", "", "of these, how many failed their cache checks"),
    Column("evidence", "", "pivots that count"),
    Column("eligible", "", "of these, how many are nonzero in some pass"),
    Column("refeed_disagree", "", "eligible pivots whose sign differs under re-feed"),
    Column("floor_disagree", "", "eligible pivots whose sign differs under the replica"),
    Column("trunk_seconds", "s", "of the batch that generated its trunks", "float"),
    Column("trunk_batch", "", "problems that shared that batch"),
    Column("seconds", "s", "of its group's passes and grading", "float"),
    Column("group", "", "problems that shared these passes"),
    Column("reason", "", "why it was dropped or screened out", "text"),
)
_PASS: Final = (
    Column("problem", "", "task index"),
    Column("attempt", "", "which run of the worker, from 0"),
    Column("pass", "", "exact-1, exact-2 or re-feed", "text"),
    Column("seconds", "s", "of the batch, from submission to the last token", "float"),
    Column("group", "", "problems that shared that batch"),
    Column("tokens", "tokens", "generated; 0 in imports, which do not know"),
    Column("verified", "", "requests whose cache check passed"),
    Column("failed", "", "requests whose cache check failed"),
    Column("preemptions", "", "of its requests"),
    Column("stopped", "", "1 where it was stopped before its end"),
)


class Table(NamedTuple):
    """One table.

    Attributes:
        name: of the table.
        columns: documented.
        rows: values in column order; None where not known. Made while they are read.
    """

    name: TableName
    columns: tuple[Column, ...]
    rows: Iterator[Sequence[Any]]


def tables(state: CampaignState, *, anonymous: bool = False) -> tuple[Table, ...]:
    """All tables of a campaign.

    Args:
        state: folded.
        anonymous: leave out what tokens and problems say.
    """
    reads = _PIVOT if anonymous else (*_PIVOT, *_PIVOT_TEXT)
    columns = tuple(read.column for read in reads)
    mask = state.evidence_mask()
    evidence = np.array(state.evidence, dtype=np.int64)
    excluded = np.flatnonzero(~mask)
    return (
        Table("pivots", columns, _pivots(state, evidence, reads)),
        Table("excluded", (*columns, _REASON), _excluded(state, excluded, reads)),
        Table("problems", _PROBLEM, (_problem(row, anonymous=anonymous) for row in state.problems.values())),
        Table("passes", _PASS, _passes(state)),
    )


def _pivots(state: CampaignState, rows: Rows, reads: Sequence[_Read]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(rows), _CHUNK):
        chunk = rows[start : start + _CHUNK]
        yield from zip(*(read.values(state, chunk) for read in reads), strict=True)


def _excluded(state: CampaignState, rows: Rows, reads: Sequence[_Read]) -> Iterator[Sequence[Any]]:
    for row, values in zip(rows.tolist(), _pivots(state, rows, reads), strict=True):
        yield (*values, _why(state, row))


def _why(state: CampaignState, row: int) -> str:
    if state.pivots.cell(row, "cache") == FAILED:
        return "failed"
    problem = state.problems.get(state.pivots.cell(row, "problem"))
    if problem is None or problem.attempt != state.pivots.cell(row, "attempt"):
        return "abandoned"
    if problem.outcome == "measured":
        return "repeated"
    return problem.outcome or "open"


def _problem(row: ProblemRow, *, anonymous: bool) -> Sequence[Any]:
    found = row.tally
    return (
        row.problem,
        row.attempt,
        row.outcome,
        len(row.trunks) if row.trunks else None,
        row.right,
        row.pivots,
        row.failed,
        None if found is None else found.pivots,
        None if found is None else found.common.n,
        None if found is None else found.common.refeed.disagree,
        None if found is None else found.common.floor.disagree,
        row.trunk_seconds,
        row.trunk_batch,
        row.seconds,
        row.batch,
        None if anonymous or not row.reason else printable(row.reason, _LONG),
    )


def _passes(state: CampaignState) -> Iterator[Sequence[Any]]:
    for row in state.problems.values():
        for ended in row.passes:
            name: PassName = ended.name
            yield (
                ended.problem,
                ended.attempt,
                name,
                ended.seconds,
                ended.batch,
                ended.tokens,
                ended.verified,
                ended.failed,
                ended.preemptions,
                int(ended.stopped),
            )
