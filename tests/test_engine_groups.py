"""Groups: passes of several problems as one batch, where each problem keeps its own checks and its own end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from engine.protocol.control import Control
from sessions.events import CacheFailure, Notice, PassEnded, PassStarted, Pivot, ProblemClosed, WavePlanned
from tests.helpers.campaigns import SMALL, Faulty, conduct, registered, start

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from engine.backend import Backend, Completion, FirstToken, Request, StepStats
    from tests.helpers.campaigns import Record

PASSES = ("exact-1", "exact-2", "re-feed")
FOUR = registered(SMALL, problems=4, max_pivots=1, wave=4)


@pytest.fixture
def engine() -> Iterator[Backend]:
    """A fresh embedded engine."""
    backend = start(FOUR)
    yield backend
    backend.close()


def short_hit(stage: str) -> Faulty:
    """Settings of a fault: one request of problem 1 reports a hit that is a block short, in one pass."""

    def alter(first: FirstToken) -> FirstToken:
        wrong = first.id.startswith(f"1.0/{stage}/") and first.id.endswith("actual/k0")
        cached = 16 if stage == "re-feed" else 0
        return replace(first, cached_tokens=cached, origins=()) if wrong else first

    return Faulty(None, first=alter)  # type: ignore[arg-type] # its engine is put in by the test


def evidence(record: Record) -> dict[int, list[tuple[object, ...]]]:
    """What each measured problem's pivots say, without when they were said."""
    rows: dict[int, list[tuple[object, ...]]] = {}
    for event in record.of(Pivot):
        rows.setdefault(event.problem, []).append(
            (event.rollout, event.position, event.exact1, event.exact2, event.refeed, event.cache)
        )
    return rows


@pytest.mark.parametrize("stage", PASSES)
def test_a_dropped_problem_leaves_the_others_with_the_batch_that_they_began_in(
    engine: Backend, tmp_path: Path, stage: str
) -> None:
    """Whichever pass it fails in, its requests stay in the later batches, unchecked, and the others are unharmed."""
    batches: list[set[str]] = []

    def note(requests: Sequence[Request]) -> None:
        batches.append({request.id.split(".")[0] for request in requests})

    whole = conduct(FOUR, tmp_path / "whole", backend=engine)
    other = start(FOUR)
    faulty = replace(short_hit(stage), inner=other, before=note)
    spec = registered(FOUR, on_cache_failure="drop-problem")
    record = conduct(spec, tmp_path / "faulty", backend=faulty)
    other.close()
    assert [(event.problem, event.outcome) for event in record.of(ProblemClosed)] == [
        (0, "measured"),
        (1, "dropped"),
        (2, "measured"),
        (3, "measured"),
    ]
    assert batches == [{"0", "1", "2", "3"}] * 4, "one batch of trunks, three of passes"
    failures = record.of(CacheFailure)
    assert {(failure.problem, failure.stage) for failure in failures} == {(1, stage)}
    sound = evidence(whole)
    assert evidence(record) == {problem: sound[problem] for problem in (0, 2, 3)}
    assert (record.ended.state, record.ended.exit_code) == ("finished", 0)


@pytest.mark.parametrize("stage", PASSES)
def test_under_abort_the_first_failure_ends_the_group_and_the_campaign(
    engine: Backend, tmp_path: Path, stage: str
) -> None:
    """Nothing of the group is closed, and the end names pass and problem."""
    record = conduct(FOUR, tmp_path, backend=replace(short_hit(stage), inner=engine))
    assert (record.ended.state, record.ended.exit_code) == ("aborted", 4)
    assert f"{stage} of problem 1" in record.ended.reason
    assert record.of(ProblemClosed) == []
    assert all(event.stopped for event in record.of(PassEnded) if event.name == stage)


def test_under_record_a_pivots_failure_stays_in_its_problem(engine: Backend, tmp_path: Path) -> None:
    """All four problems are measured; one pivot of problem 1 is failed and counts nowhere."""

    def too_many(first: FirstToken) -> FirstToken:
        wrong = first.id.startswith("1.0/exact-2/") and first.id.endswith("actual/k0")
        return replace(first, cached_tokens=None, origins=None) if wrong else first

    spec = registered(FOUR, on_cache_failure="record")
    record = conduct(spec, tmp_path, backend=Faulty(engine, first=too_many))
    failed = {event.problem: 0 for event in record.of(Pivot)}
    for event in record.of(Pivot):
        failed[event.problem] += event.cache.state == "failed"
    assert failed[1] >= 1
    assert sum(failed.values()) == failed[1]
    assert [event.outcome for event in record.of(ProblemClosed)] == ["measured"] * 4


@pytest.mark.parametrize("named", [True, False])
def test_a_preemption_spoils_whom_it_hit_and_everybody_when_nobody_knows(
    engine: Backend, tmp_path: Path, *, named: bool
) -> None:
    """The engine's counter tells of it during the pass; a completion may own up to it at the end."""

    def preempt(stats: StepStats) -> StepStats:
        return replace(stats, preemptions=1)

    def own(done: Completion) -> Completion:
        return replace(done, preemptions=int(named and "2.0/exact-1/" in done.id and done.id.endswith("k0")))

    spec = registered(FOUR, on_cache_failure="drop-problem", wave=4)
    faulty = Faulty(engine, step=lambda stats: preempt(stats) if faulty.batches > 1 else stats, completion=own)
    record = conduct(spec, tmp_path, backend=faulty)
    first = [event for event in record.of(CacheFailure) if event.stage == "exact-1"]
    assert {event.problem for event in first} == ({2} if named else {0, 1, 2, 3})
    assert {event.request == "" for event in first} == {not named}


def test_a_group_that_was_broken_off_is_measured_again_and_closed_ones_are_not(tmp_path: Path, engine: Backend) -> None:
    """Aborted in the second group's exact 2: the first group's two problems stay, the other two are new attempts."""
    control = Control()

    def stop_later(requests: Sequence[Request]) -> None:
        if requests[0].id.startswith("2.0/exact-2/"):
            control.stop("aborted by the user", "aborted", 1)

    spec = registered(FOUR, group=2)
    stopped = conduct(spec, tmp_path, backend=Faulty(engine, before=stop_later), control=control)
    assert (stopped.ended.state, stopped.ended.exit_code) == ("aborted", 1)
    assert list(stopped.state.measured) == [0, 1]
    resumed = conduct(spec, tmp_path, backend=engine, earlier=stopped)
    assert [(event.problem, event.attempt) for event in resumed.of(ProblemClosed)] == [(0, 0), (1, 0), (2, 1), (3, 1)]
    assert [event.problems for event in resumed.of(PassStarted) if event.attempt == 1] == [(2, 3)] * 3


def test_the_stop_rule_is_obeyed_after_the_group_in_which_it_crossed(engine: Backend, tmp_path: Path) -> None:
    """A group closes as a whole: all four of its problems are in the statistics, and no fifth is measured."""
    spec = registered(FOUR, problems=8, group=4, stop="symmetry", alpha=0.5, min_problems=1, margin=5.0, max_pivots=2)

    def one_sided(done: Completion) -> Completion:
        """Re-fed continuations are cut to nothing, so that wherever exact credit is not 0, re-feeding loses it."""
        return replace(done, tokens=done.tokens[:1]) if "/re-feed/" in done.id and "/probe" not in done.id else done

    record = conduct(spec, tmp_path, backend=Faulty(engine, completion=one_sided))
    assert record.ended.state == "stopped", record.ended.reason
    assert len(record.of(ProblemClosed)) % 4 == 0
    crossed = record.state.live.monitor.followed("symmetry").crossing
    assert crossed is not None
    assert crossed.problem <= max(event.problem for event in record.of(ProblemClosed))


def test_groups_of_one_and_of_four_say_the_same_in_invariant_mode(tmp_path: Path) -> None:
    """Where no result depends on the batch, neither can one depend on the group; all passes agree to the last bit."""
    records = [conduct(registered(FOUR, batch_invariant=True, group=group), tmp_path / str(group)) for group in (1, 4)]
    one, four = (evidence(record) for record in records)
    assert one == four
    assert sum(map(len, one.values())) >= 4
    for rows in one.values():
        for _, _, exact1, exact2, refeed, _ in rows:
            assert exact1.actual == exact2.actual == refeed.actual  # type: ignore[attr-defined] # PassResult


def test_groups_do_not_change_which_pivots_there_are(tmp_path: Path, engine: Backend) -> None:
    """In stock mode pivots come from trunks, which do not know of groups; every pivot is verified either way."""
    one = conduct(registered(FOUR, group=1), tmp_path / "1")
    four = conduct(FOUR, tmp_path / "4", backend=engine)
    places = [{(p.problem, p.rollout, p.position) for p in record.of(Pivot)} for record in (one, four)]
    assert places[0] == places[1] != set()
    assert {p.cache.state for record in (one, four) for p in record.of(Pivot)} == {"verified"}
    batches = [{ended.batch for ended in record.of(PassEnded)} for record in (one, four)]
    assert batches == [{1}, {4}]


def test_counts_alone_make_a_pass_cold_by_a_reset_and_by_salts(engine: Backend, tmp_path: Path) -> None:
    """Without a ledger a reset that says True may have done nothing; a salt that was never used cannot hit."""
    counting = _CountsOnly(engine)
    record = conduct(registered(FOUR, wave=1, problems=1), tmp_path, backend=counting)
    assert [event.cold_by for event in record.of(PassStarted)] == ["", "", "reset+salt"]
    assert {(p.cache.state, p.cache.proof) for p in record.of(Pivot)} == {("verified", "counts")}


class _CountsOnly(Faulty):
    """A real engine that tells no block origins."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(
            inner,
            first=lambda first: replace(first, origins=None),
            completion=lambda done: replace(done, origins=None),
        )

    @property
    def info(self):  # type: ignore[no-untyped-def] # noqa: ANN202 - as Faulty's
        return replace(self.inner.info, proof="counts")


def test_too_few_blocks_are_a_warning_before_any_pass(tmp_path: Path) -> None:
    """What the capacity rule says of one problem is told at once, with the blocks, and stays in the journal."""
    spec = registered(SMALL, problems=1, rollouts=4, max_pivots=4, margin=5.0, kv_blocks=60, on_cache_failure="record")
    record = conduct(spec, tmp_path)
    kinds = [type(event) for event in record.events]
    warning = next(event for event in record.of(Notice) if event.kind == "warning")
    assert kinds.index(Notice) < kinds.index(WavePlanned)
    plan = record.of(WavePlanned)[0]
    assert f"{plan.blocks_allocated:,}" in warning.text
    assert plan.reason == "even one problem's trunks might not last"


def test_a_preempted_request_of_a_dropped_problem_cuts_nobody_elses_pass_short(engine: Backend, tmp_path: Path) -> None:
    """The one problem that is still checked is not alone in the batch: company may own up to the preemption."""
    spec = registered(FOUR, problems=2, wave=2, on_cache_failure="drop-problem")

    def own(done: Completion) -> Completion:
        return replace(done, preemptions=int("1.0/exact-2/" in done.id and done.id.endswith("k0")))

    faulty = replace(short_hit("exact-1"), inner=engine, completion=own)
    faulty.step = lambda stats: replace(stats, preemptions=int(faulty.batches == 3))
    record = conduct(spec, tmp_path, backend=faulty)
    assert [(event.problem, event.outcome) for event in record.of(ProblemClosed)] == [(0, "measured"), (1, "dropped")]
    assert not any(event.stopped for event in record.of(PassEnded) if event.problem == 0)
