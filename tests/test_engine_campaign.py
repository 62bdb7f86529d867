"""Whole campaigns: the protocol as it runs on a real engine, and what each injected fault ends."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest

from engine.protocol.control import Control
from sessions.events import (
    CacheFailure,
    PassEnded,
    PassStarted,
    Pivot,
    ProblemClosed,
    Progress,
    TrunksDone,
    WavePlanned,
)
from tests.helpers.campaigns import SMALL, Faulty, Record, altered, conduct, registered, start
from tests.helpers.shared import shared_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from engine.backend import Backend, Completion, FirstToken, Request
    from sessions.events import Event

PASSES = ["exact-1", "exact-2", "re-feed"]


@pytest.fixture
def clean() -> Iterator[Backend]:
    """A fresh embedded engine in split mode."""
    backend = start(registered(SMALL))
    yield backend
    backend.close()


def compared(record: Record) -> list[dict[str, object]]:
    """Events as the protocol compares two runs: without times, ids, Progress, and the numbering that it shifts."""
    free = {"seq", "wall", "mono", "seconds", "session", "host", "pid"}
    return [
        {key: value for key, value in msgspec.to_builtins(event).items() if key not in free}
        for event in record.events
        if not isinstance(event, Progress)
    ]


def exact_probes(pivot: Pivot) -> list[tuple[str, str]]:
    """Digests of a pivot's probe tokens and logprobs, by pass and arm."""
    arms = [arm for result in (pivot.exact1, pivot.exact2, pivot.refeed) for arm in (result.actual, result.alternative)]
    return [(arm.probe.tokens, arm.probe.logprobs) for arm in arms if arm.probe is not None]


def test_a_campaign_measures_every_registered_problem_and_verifies_every_pivot(clean: Backend, tmp_path: Path) -> None:
    """Three passes of both problems together, in order, all pivots verified by the ledger, counts that add up."""
    record = conduct(registered(SMALL), tmp_path, backend=clean)
    assert (record.ended.state, record.ended.exit_code) == ("finished", 0)
    assert [event.problem for event in record.of(ProblemClosed)] == [0, 1]
    ended = record.of(PassEnded)
    assert [(event.name, event.problem, event.batch) for event in ended] == [
        (name, problem, 2) for name in PASSES for problem in (0, 1)
    ]
    assert [event.problems for event in record.of(PassStarted)] == [(0, 1)] * 3
    requests = [event.requests for event in record.of(PassStarted)]
    assert requests == [sum(event.verified for event in ended if event.name == name) for name in PASSES]
    pivots = record.of(Pivot)
    assert len(pivots) >= 2
    for pivot in pivots:
        assert (pivot.cache.state, pivot.cache.proof) == ("verified", "ledger")
        assert pivot.cache.hit_tokens == 16 * (pivot.position // 16)
        assert pivot.exact1.cached == pivot.exact2.cached == (pivot.cache.hit_tokens, pivot.cache.hit_tokens)
        assert pivot.refeed.cached is not None
        assert pivot.margin < SMALL.margin
        assert pivot.position % 16 <= SMALL.boundary_slack
        for result in (pivot.exact1, pivot.exact2, pivot.refeed):
            assert result.actual.correct is not None
            assert result.alternative.correct is not None
            assert result.net == result.actual.correct - result.alternative.correct
            assert 0 <= result.actual.correct <= SMALL.k
        assert len(exact_probes(pivot)) == 6
    assert record.state.cache_tally().rate == 1.0
    assert len(record.state.table().group) == len(pivots)


def test_decode_time_state_is_what_the_exact_passes_resume(clean: Backend, tmp_path: Path) -> None:
    """The hit of a pivot beyond the prompt's last block holds KV that was written in decode, token for token."""
    record = conduct(registered(SMALL), tmp_path, backend=clean)
    prompts = {event.problem: event.trunks[0].prompt_tokens for event in record.of(TrunksDone)}
    for pivot in record.of(Pivot):
        assert pivot.cache.decode_tokens == max(0, pivot.cache.hit_tokens - prompts[pivot.problem])


def test_two_runs_with_one_seed_say_the_same(tmp_path: Path) -> None:
    """Two fresh engines, one spec: journals equal but for times, ids and Progress."""
    first, second = (conduct(registered(SMALL), tmp_path / name) for name in ("a", "b"))
    assert compared(first) == compared(second)
    other = conduct(registered(SMALL, seed=1), tmp_path / "c")
    assert compared(other) != compared(first)


def test_the_wave_changes_neither_seeds_nor_estimates_in_invariant_mode(tmp_path: Path) -> None:
    """Batch-invariant: one problem at a time with a reset and both together with salts give the same pivots."""
    one, both = (conduct(registered(SMALL, batch_invariant=True, wave=wave), tmp_path / str(wave)) for wave in (1, 2))
    assert {event.cold_by for event in one.of(PassStarted) if event.name == "re-feed"} == {"reset"}
    assert {event.cold_by for event in both.of(PassStarted) if event.name == "re-feed"} == {"salt"}

    def evidence(record: Record) -> list[tuple[object, ...]]:
        return [
            (p.problem, p.rollout, p.position, p.exact1.net, p.exact2.net, p.refeed.net, *exact_probes(p))
            for p in record.of(Pivot)
        ]

    assert evidence(one) == evidence(both)


def test_batch_invariant_mode_has_zero_disagreement_on_every_channel(tmp_path: Path) -> None:
    """Estimates, probe tokens and probe logprobs are the same in all three passes, to the last bit."""
    record = conduct(registered(SMALL, batch_invariant=True, problems=3), tmp_path)
    pivots = record.of(Pivot)
    assert pivots
    for pivot in pivots:
        assert pivot.exact1.net == pivot.exact2.net == pivot.refeed.net
        assert pivot.exact1.actual.correct == pivot.refeed.actual.correct
        probes = exact_probes(pivot)
        assert probes[0:2] == probes[2:4] == probes[4:6]


def _missing(first: FirstToken) -> FirstToken:
    return altered(first, None)


def _too_high(first: FirstToken) -> FirstToken:
    assert first.cached_tokens is not None
    return altered(first, first.cached_tokens + 16)


def _too_low(first: FirstToken) -> FirstToken:
    assert first.cached_tokens is not None
    return altered(first, max(0, first.cached_tokens - 16))


def only(pass_name: str, alter: Callable[[FirstToken], FirstToken]) -> Callable[[FirstToken], FirstToken]:
    """Alter the first requests of one pass of problem 0, the others not."""
    return lambda first: alter(first) if f"0.0/{pass_name}/" in first.id and first.id.endswith("/k0") else first


FAULTS = [
    pytest.param(lambda inner: Faulty(inner, first=only("exact-1", _missing)), "no cached-token count", id="missing"),
    pytest.param(lambda inner: Faulty(inner, first=only("exact-2", _too_high)), "tokens", id="too-high"),
    pytest.param(lambda inner: Faulty(inner, first=only("exact-2", _too_low)), "tokens", id="too-low"),
    pytest.param(lambda inner: Faulty(inner, first=only("re-feed", _missing)), "no cached-token count", id="cold"),
]


@pytest.mark.parametrize(("break_it", "words"), FAULTS)
def test_a_bad_count_aborts_the_campaign_by_default(
    clean: Backend, tmp_path: Path, break_it: Callable[[Backend], Faulty], words: str
) -> None:
    """Exit code 4, the offending request in plain words, no pivot counted, and no pass after it."""
    record = conduct(registered(SMALL), tmp_path, backend=break_it(clean))
    assert (record.ended.state, record.ended.exit_code) == ("aborted", 4)
    assert words in record.ended.reason
    assert "of problem 0" in record.ended.reason
    assert "/k0" in record.ended.reason
    assert record.of(PassEnded)[-1].stopped
    assert len(record.state.table().group) == 0
    rate = record.state.cache_tally().rate
    assert rate is not None
    assert rate < 1


def test_an_abort_stops_the_pass_within_one_step(clean: Backend, tmp_path: Path) -> None:
    """The failing pass generates no more than its first step's tokens, of hundreds that it would have."""
    record = conduct(registered(SMALL), tmp_path, backend=Faulty(clean, first=only("exact-1", _missing)))
    stopped = record.of(PassEnded)[-1]
    started = record.of(PassStarted)[-1]
    assert stopped.tokens <= started.requests


@pytest.mark.parametrize(("break_it", "words"), FAULTS)
def test_drop_problem_removes_its_problem_and_goes_on(
    clean: Backend, tmp_path: Path, break_it: Callable[[Backend], Faulty], words: str
) -> None:
    """Problem 0 closes as dropped with the reason; problem 1 is measured; nothing of 0 is counted."""
    record = conduct(registered(SMALL, on_cache_failure="drop-problem"), tmp_path, backend=break_it(clean))
    assert (record.ended.state, record.ended.exit_code) == ("finished", 0)
    closed = {event.problem: event for event in record.of(ProblemClosed)}
    assert (closed[0].outcome, closed[1].outcome) == ("dropped", "measured")
    assert words in closed[0].reason
    assert set(record.state.table().problems) == {1}
    assert "1 dropped" in record.ended.reason


def test_record_keeps_failed_pivots_in_the_journal_and_out_of_the_statistics(clean: Backend, tmp_path: Path) -> None:
    """Under `record` a pivot with a missing count is written as failed and not counted; the others are."""
    target: list[str] = []

    def lose_one(first: FirstToken) -> FirstToken:
        if "0.0/exact-1/" in first.id and not target:
            target.append(first.id)
        return altered(first, None) if first.id in target else first

    record = conduct(registered(SMALL, on_cache_failure="record"), tmp_path, backend=Faulty(clean, first=lose_one))
    pivots = record.of(Pivot)
    failed = [pivot for pivot in pivots if pivot.cache.state == "failed"]
    assert len(failed) == 1
    assert target[0] in failed[0].cache.reason
    assert len(record.state.table().group) == len(pivots) - 1
    tally = record.state.cache_tally()
    assert (tally.checked, tally.verified) == (len(pivots), len(pivots) - 1)


@pytest.mark.parametrize("policy", ["abort", "drop-problem", "record"])
def test_an_evicted_trunk_block_spoils_its_problem(clean: Backend, tmp_path: Path, policy: str) -> None:
    """Blocks that really left the cache between trunks and exact 1 are found by every policy, also `record`."""

    def evict(requests: Sequence[Request]) -> None:
        if "0.0/exact-1/" in requests[0].id:
            assert clean.reset_prefix_cache() is True

    spec = registered(SMALL, on_cache_failure=policy, wave=1)
    record = conduct(spec, tmp_path, backend=Faulty(clean, before=evict))
    assert "evicted" in record.of(CacheFailure)[0].reason
    assert 0 not in record.state.table().problems
    assert record.ended.exit_code == (4 if policy == "abort" else 0)


@pytest.mark.parametrize("policy", ["abort", "drop-problem", "record"])
def test_a_reset_that_fails_is_no_third_exact_pass(clean: Backend, tmp_path: Path, policy: str) -> None:
    """A refused reset ends the problem before any re-feed request is served."""
    faulty = Faulty(clean, reset=lambda: False)
    record = conduct(registered(SMALL, on_cache_failure=policy, wave=1), tmp_path, backend=faulty)
    assert "refused to reset" in record.of(CacheFailure)[0].reason
    assert len(record.state.table().group) == 0
    assert (record.ended.state, record.ended.exit_code) == ("aborted", 4), "cache checks left nothing"


def test_a_reset_that_lies_is_caught_by_the_leader(clean: Backend, tmp_path: Path) -> None:
    """A reset that says True and does nothing leaves trunk blocks behind, and the pass proves not to be cold."""
    record = conduct(registered(SMALL, wave=1), tmp_path, backend=Faulty(clean, reset=lambda: True))
    assert (record.ended.state, record.ended.exit_code) == ("aborted", 4)
    assert "not cold" in record.ended.reason


@pytest.mark.parametrize("policy", ["abort", "drop-problem", "record"])
def test_a_preemption_spoils_its_problem(clean: Backend, tmp_path: Path, policy: str) -> None:
    """A preempted request was recomputed by prefill, which its cached count does not show."""

    def preempt(done: Completion) -> Completion:
        return replace(done, preemptions=1) if "0.0/exact-2/" in done.id and done.id.endswith("k1") else done

    spec = registered(SMALL, on_cache_failure=policy)
    record = conduct(spec, tmp_path, backend=Faulty(clean, completion=preempt))
    assert "preempted" in record.of(CacheFailure)[0].reason
    assert record.of(CacheFailure)[0].request != ""
    assert 0 not in record.state.table().problems
    assert record.ended.exit_code == (4 if policy == "abort" else 0)


def test_a_cache_too_small_for_the_batch_really_preempts_and_is_found(tmp_path: Path) -> None:
    """With few KV blocks the engine itself preempts; the campaign says so instead of counting recomputed state."""
    record = conduct(registered(SMALL, kv_blocks=40, max_model_len=400), tmp_path)
    assert (record.ended.state, record.ended.exit_code) == ("aborted", 4)
    assert "preempted" in record.ended.reason or "evicted" in record.ended.reason


def test_a_user_abort_keeps_closed_problems_and_a_second_run_measures_the_rest(clean: Backend, tmp_path: Path) -> None:
    """Stopped in problem 1, resumed: problem 0 is not measured again and the evidence is the uninterrupted one."""
    control = Control()

    def stop_later(requests: Sequence[Request]) -> None:
        if "1.0/exact-2/" in requests[0].id:
            control.stop("aborted by the user", "aborted", 1)

    spec = registered(SMALL, group=1)
    stopped = conduct(spec, tmp_path, backend=Faulty(clean, before=stop_later), control=control)
    assert (stopped.ended.state, stopped.ended.exit_code) == ("aborted", 1)
    assert list(stopped.state.measured) == [0]
    before = [msgspec.to_builtins(event) for event in stopped.events]
    resumed = conduct(spec, tmp_path, backend=clean, earlier=stopped)
    assert [msgspec.to_builtins(event) for event in resumed.events[: len(before)]] == before
    assert list(resumed.state.measured) == [0, 1]
    assert {event.attempt for event in resumed.of(ProblemClosed) if event.problem == 1} == {1}


def test_a_screen_keeps_only_mixed_problems_in_registered_order(clean: Backend, tmp_path: Path) -> None:
    """Problems whose trunks agree are closed as screened out; the kept ones are mixed and in order."""
    spec = registered(SMALL, screen="mixed", problems=1, scan_limit=12, rollouts=4, wave=4)
    record = conduct(spec, tmp_path, backend=clean)
    mixed = {event.problem: len({trunk.correct for trunk in event.trunks}) > 1 for event in record.of(TrunksDone)}
    closed = record.of(ProblemClosed)
    assert [event.problem for event in closed] == sorted(event.problem for event in closed)
    for event in closed:
        assert (event.outcome == "measured") == mixed[event.problem]
    assert sum(event.outcome == "measured" for event in closed) <= 1


def test_a_screen_in_a_small_cache_generates_again_what_it_could_not_hold(tmp_path: Path) -> None:
    """Kept problems that the cache cannot hold wait for a later wave, and every measured one is verified."""
    spec = registered(
        SMALL, screen="mixed", problems=3, scan_limit=12, rollouts=4, wave=6, group=1, kv_blocks=400, max_pivots=1
    )
    roomy, small = conduct(registered(spec, kv_blocks=4000), tmp_path / "a"), conduct(spec, tmp_path / "b")
    twice = [event.problem for event in small.of(TrunksDone)]
    assert len(twice) > len(set(twice)), "nothing had to be generated again"
    assert (small.ended.state, small.ended.exit_code) == ("finished", 0)
    assert small.of(CacheFailure) == []
    assert small.state.measured == roomy.state.measured
    assert len(small.state.measured) == 3


def test_waves_follow_the_plan_and_say_what_they_need(clean: Backend, tmp_path: Path) -> None:
    """Five problems in waves of two: 0 1, 2 3, 4, each with its block plan."""
    record = conduct(registered(SMALL, problems=5, wave=2, max_pivots=1), tmp_path, backend=clean)
    waves = record.of(WavePlanned)
    assert [wave.problems for wave in waves] == [(0, 1), (2, 3), (4,)]
    assert all(0 < wave.blocks_needed < wave.blocks_there == 4000 for wave in waves)


def test_texts_hold_what_each_arm_wrote(clean: Backend, tmp_path: Path) -> None:
    """The side file has every trunk, continuation and probe, and its grades add up to the pivots' counts."""
    from sessions.disk import texts  # noqa: PLC0415 - only here

    record = conduct(registered(SMALL, problems=1), tmp_path, backend=clean)
    closed = record.of(ProblemClosed)[0]
    wrote = texts.read(tmp_path, closed.texts, closed.texts_sha256)
    assert len(wrote.trunks) == SMALL.rollouts
    for pivot in record.of(Pivot):
        mine = [
            text
            for text in wrote.continuations
            if (text.rollout, text.position, text.name, text.arm)
            == (pivot.rollout, pivot.position, "re-feed", "actual")
        ]
        assert sum(text.correct for text in mine) == pivot.refeed.actual.correct
        assert wrote.trunks[pivot.rollout].tokens[pivot.index] == pivot.actual


def test_the_published_filter_and_grading_run_too(clean: Backend, tmp_path: Path) -> None:
    """Compatibility options change what is selected and graded, not how it is verified."""
    spec = registered(SMALL, problems=1, pivot_filter="published", grading="published")
    record = conduct(spec, tmp_path, backend=clean)
    assert record.ended.state == "finished"
    assert all(pivot.cache.state == "verified" for pivot in record.of(Pivot))


def test_gsm8k_runs_through(clean: Backend, tmp_path: Path) -> None:
    """Real GSM8K problems run on the bundled model; hardly any is solved, and none is invented."""
    path = shared_path("data", "gsm8k", "test.jsonl")
    question = json.loads(path.read_text().splitlines()[0])["question"]
    assert question.startswith("Janet")
    spec = registered(SMALL, task=f"gsm8k:{path}", problems=1, rollouts=1, max_model_len=None)
    record = conduct(spec, tmp_path, backend=clean)
    assert record.ended.state == "finished"
    assert record.of(TrunksDone)[0].trunks[0].tokens > 0


def test_events_survive_the_journal(clean: Backend, tmp_path: Path) -> None:
    """Every event that a campaign emits encodes and decodes to itself."""
    from sessions.events import AnyEvent  # noqa: PLC0415 - only here

    record = conduct(registered(SMALL, problems=1), tmp_path, backend=clean)
    decode = msgspec.json.Decoder(AnyEvent).decode
    events: list[Event] = [decode(msgspec.json.encode(event)) for event in record.events]
    assert events == record.events
