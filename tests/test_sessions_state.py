from __future__ import annotations

import random
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions.disk.journal import Journal, read
from sessions.errors import RefeedError
from sessions.events import (
    Arm,
    CacheFailure,
    CacheProof,
    Ended,
    Event,
    Notice,
    PassEnded,
    PassResult,
    Paused,
    Probe,
    Progress,
    Resumed,
    WavePlanned,
)
from sessions.report.reasons import failed_check
from sessions.spec import CampaignSpec
from sessions.state.columns import PivotColumns
from sessions.state.fold import fold, fold_all, new_state
from stats.live import live
from stats.table import UNKNOWN
from tests.helpers.session_events import (
    cache_failure,
    closed,
    engine_ready,
    opened,
    pass_started,
    pivot,
    probe,
    trunks_done,
)

if TYPE_CHECKING:
    from pathlib import Path

    from sessions.state.campaign import CampaignState

SPEC = CampaignSpec()
FAILED = CacheProof(state="failed", proof="counts", hit_tokens=144, reason="96 of 144 tokens cached")
COUNTS = CacheProof(state="verified", proof="counts", hit_tokens=144)
UNPROVED = CacheProof(state="not_instrumented")


def folded(*events: Event) -> CampaignState:
    """State after these events, numbered as a journal would."""
    return fold_all(SPEC, (msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(events)))


def failure(problem: int = 0, rollout: int | None = 0, position: int | None = 145, attempt: int = 1) -> CacheFailure:
    """A request that hit too little."""
    return cache_failure(problem, rollout, position, attempt)


def test_pivots_become_evidence_when_their_problem_closes_measured() -> None:
    """Until then they wait; afterwards they are rows of the table, in order."""
    events: list[Event] = [opened(), pivot(3, 0, 145, (1, 0, -1)), pivot(3, 1, 161, (2, 2, 2))]
    before = folded(*events)
    assert (len(before.table().group), before.waiting, before.live.problems) == (0, 2, 0)
    after = folded(*events, closed(3, 2), pivot(4), closed(4, 1), closed(5, 0))
    table = after.table()
    assert table.problems.tolist() == [3, 4, 5]
    assert table.group.tolist() == [0, 0, 1]
    assert table.net.tolist() == [[1, 0, -1], [2, 2, 2], [0, 0, 0]]
    assert (table.position.tolist(), table.rollout.tolist()) == ([145, 161, 145], [0, 1, 0])
    assert table.hit_tokens.tolist() == [144] * 3
    assert table.decode_tokens.tolist() == [32] * 3
    assert after.evidence_mask().tolist() == [True] * 3
    assert (after.live.problems, after.live.informative) == (3, 1)


def test_failed_pivots_and_unmeasured_problems_never_enter() -> None:
    """They are in the journal, and counted as dropped by reason."""
    state = folded(
        opened(),
        pivot(0, 0, 145, (1, 0, -1)),
        pivot(0, 0, 161, (1, 0, -1), cache=FAILED),
        closed(0, 2),
        pivot(1, 0, 145, (4, 0, -4)),
        closed(1, 1, outcome="dropped"),
        closed(2, 0, outcome="screened-out"),
        pivot(3),
    )
    assert state.table().net.tolist() == [[1, 0, -1]]
    assert state.measured == [0]
    assert state.evidence_mask().tolist() == [True, False, False, False]
    assert (state.dropped.failed, state.dropped.problem, state.dropped.abandoned, state.waiting) == (1, 1, 0, 1)
    assert state.closed == 3
    assert state.irregular == []


def test_an_interrupted_attempt_gives_no_evidence() -> None:
    """After a resume the problem is measured anew; what its first attempt left is abandoned."""
    state = folded(
        opened(),
        trunks_done(0),
        pivot(0, 0, 145, (4, 0, -4)),
        pivot(0, 0, 161, (4, 0, -4)),
        opened(),
        pivot(0, 0, 145, (1, 1, 1), attempt=2),
        closed(0, 1, attempt=2),
    )
    assert state.table().net.tolist() == [[1, 1, 1]]
    assert state.dropped.abandoned == 2
    assert state.problems[0].attempt == 2
    assert state.problems[0].trunks == ()
    assert state.cache_tally().checked == 1


@pytest.mark.parametrize("again", ["close", "pivot and close", "late pivot"])
def test_a_closed_problem_stays_as_it_closed(again: str) -> None:
    """A second closing, or a pivot after the first, is called irregular and changes no number."""
    events: list[Event] = [opened(), pivot(0, nets=(1, 0, -1)), closed(0)]
    more: dict[str, list[Event]] = {
        "close": [closed(0)],
        "pivot and close": [pivot(0, position=161, nets=(1, 0, -1)), closed(0)],
        "late pivot": [pivot(0, position=161, nets=(1, 0, -1))],
    }
    state = folded(*events, *more[again])
    assert state.table().net.tolist() == [[1, 0, -1]]
    assert state.live.pivots == 1
    assert len(state.irregular) == len(more[again])
    assert all("not counted" in text for text in state.irregular)


def test_a_repeated_pivot_counts_once() -> None:
    """One (rollout, position) of an attempt is one pivot."""
    state = folded(opened(), pivot(0, nets=(1, 0, -1)), pivot(0, nets=(1, 0, -1)), closed(0, 2))
    assert len(state.table().group) == 1
    assert len(state.irregular) == 1


def test_a_closing_that_miscounts_its_pivots_is_irregular() -> None:
    """The number in ProblemClosed is compared with what came."""
    assert "closed with 3 pivots, but 1 came" in folded(opened(), pivot(0), closed(0, 3)).irregular[0]


def result(net: int, actual: int | None, alternative: int | None) -> PassResult:
    """A pass with these counts."""
    return PassResult(net=net, actual=Arm(correct=actual), alternative=Arm(correct=alternative))


@pytest.mark.parametrize(
    "spoiled",
    [
        msgspec.structs.replace(pivot(), k=5),
        msgspec.structs.replace(pivot(), refeed=result(5, None, None)),
        msgspec.structs.replace(pivot(), exact1=result(1, 4, 2)),
        msgspec.structs.replace(pivot(), exact2=result(1, 6, 5)),
    ],
)
def test_numbers_that_contradict_each_other_are_an_integrity_error(spoiled: Event) -> None:
    """Counts beyond k, nets that are no difference of counts, another k: the line is named and nothing is counted."""
    with pytest.raises(RefeedError, match="line 2 says") as caught:
        folded(opened(), spoiled)
    assert caught.value.kind == "integrity"


def test_the_cache_rate_keeps_failures_in_its_denominator() -> None:
    """Checked = pivots with three ended passes plus failures; requests of one pivot are one failure."""
    state = folded(
        opened(),
        pivot(0, 0, 145),
        pivot(0, 0, 161, cache=COUNTS),
        closed(0, 2),
        pivot(1, 0, 145),
        failure(1, 0, 161),
        failure(1, 0, 161),
        pivot(1, 0, 161, cache=FAILED),
        failure(1, None, None),
        failure(1, None, None),
        Ended(state="aborted", exit_code=4, reason="cache"),
        opened(),
        pivot(1, 0, 145, attempt=2),
        pivot(1, 0, 161, attempt=2),
    )
    found = state.cache_tally()
    assert (found.verified, found.ledger, found.counts, found.not_instrumented) == (4, 3, 1, 0)
    assert found.checked == 4 + 3
    assert found.rate == 4 / 7
    assert (
        failed_check(found.failures[0])
        == "problem 1, attempt 2, rollout 0, position 161: hit 128 cached tokens, expected 144"
    )
    assert len(state.failures) == 4


def test_imports_without_cache_counts_are_evidence_but_not_checked() -> None:
    """A pivot that no cache check saw is neither verified nor failed."""
    state = folded(opened(), pivot(0, cache=UNPROVED), closed(0))
    found = state.cache_tally()
    assert (found.checked, found.not_instrumented, found.rate) == (0, 1, None)
    assert len(state.table().group) == 1


def test_probe_differences_are_float64_of_the_stored_values() -> None:
    """As the published records compute them: |first logprob - exact-1's| by arm, and the larger of both."""
    one = probe(logprob=-0.6067786812782288)
    replica, refeed = probe(logprob=-0.5671465992927551), probe(logprob=-0.6082793474197388, tokens="ff" * 8)
    passes = [
        PassResult(net=0, actual=Arm(probe=first), alternative=Arm(probe=second))
        for first, second in (
            (one, probe(25, -3.6954811548639555e-06)),
            (replica, probe(25, -3.814689989667386e-06)),
            (refeed, probe(25, -3.933898824470816e-06)),
        )
    ]
    event = msgspec.structs.replace(pivot(), exact1=passes[0], exact2=passes[1], refeed=passes[2])
    table = folded(opened(), event, closed(0)).table()
    assert table.probe_delta.tolist() == [[0.03963208198547363, 0.0015006661415100098]]
    assert table.probe_arm_delta[0, 0, 1] == abs(-3.814689989667386e-06 - -3.6954811548639555e-06)
    assert table.probe_diverged.tolist() == [[0, 1]]


def test_absent_probes_stay_absent() -> None:
    """No probe, or one arm's alone, gives NaN and UNKNOWN; an import's own figures are taken as they are."""
    half = Arm(probe=Probe(first_token=1, first_logprob=-1.0, tokens="aa" * 8))
    nothing = PassResult(net=0, actual=half, alternative=Arm())
    given = PassResult(net=0, actual=Arm(), alternative=Arm(), probe_diverged=True, probe_delta=0.25)
    event = msgspec.structs.replace(pivot(), exact1=nothing, exact2=nothing, refeed=given)
    table = folded(opened(), event, closed(0)).table()
    assert np.isnan(table.probe_delta[0, 0])
    assert table.probe_delta[0, 1] == 0.25
    assert table.probe_arm_delta[0, 0].tolist()[0] == 0.0
    assert np.isnan(table.probe_arm_delta[0, 0, 1])
    assert table.probe_diverged.tolist() == [[UNKNOWN, 1]]


def test_what_is_going_on_follows_the_events() -> None:
    """Loading, trunks, a pass with its progress, between, paused, ended."""
    state = new_state(SPEC)
    wave = WavePlanned(problems=(0, 1), attempt=1, blocks_needed=1, blocks_allocated=1, blocks_there=9)
    progress = Progress(
        problem=0, stage="exact-1", done=40, total=400, verified=40, failed=0, tokens=900, tokens_per_s=450, kv_use=0.5
    )
    ended = PassEnded(problem=0, attempt=1, name="exact-1", seconds=7.5, tokens=4000, verified=400, failed=0)
    seen = []
    for number, event in enumerate(
        [
            opened(),
            engine_ready(),
            wave,
            trunks_done(0),
            pass_started(0),
            progress,
            ended,
            Paused(),
            Resumed(),
            closed(0, 0),
        ]
    ):
        fold(state, msgspec.structs.replace(event, mono=float(number), seq=number))
        seen.append((state.current.stage, state.current.problem, state.current.since, state.current.done))
    assert seen == [
        ("loading", None, 0.0, 0),
        ("between", None, 1.0, 0),
        ("trunks", 0, 2.0, 0),
        ("between", None, 3.0, 0),
        ("exact-1", 0, 4.0, 0),
        ("exact-1", 0, 4.0, 40),
        ("between", None, 6.0, 0),
        ("paused", None, 7.0, 0),
        ("between", None, 8.0, 0),
        ("between", None, 9.0, 0),
    ]
    row = state.problems[0]
    assert (row.stage, row.right, len(row.trunks), row.passes, row.closed_at) == (
        "closed",
        5,
        8,
        (state_pass(ended),),
        9.0,
    )
    assert state.problems[1].stage == "trunks"
    assert state.tokens == 8 * 240 + 4000
    fold(state, Notice(kind="warning", text="hot"))
    fold(state, Ended(state="finished", exit_code=0, reason="done"))
    assert (state.current.stage, state.notices[0].text) == ("ended", "hot")
    assert state.ended is not None


def state_pass(event: PassEnded) -> PassEnded:
    """The event as it was stamped in the test above."""
    return msgspec.structs.replace(event, mono=6.0, seq=6)


def test_gaps_between_runs_are_told_with_what_changed() -> None:
    """How long, how the earlier run ended, and whether host or numerics are others; a clock may step back."""
    first = msgspec.structs.replace(opened(), wall=100.0)
    second = msgspec.structs.replace(opened(), wall=90.0, host="other")
    changed = msgspec.structs.replace(engine_ready(), changed=("torch",), wall=91.0, mono=1.0)
    state = folded(
        first,
        msgspec.structs.replace(engine_ready(), wall=110.0, mono=10.0),
        second,
        changed,
        msgspec.structs.replace(Ended(state="aborted", exit_code=1, reason="user"), wall=95.0, mono=5.0),
        msgspec.structs.replace(opened(), wall=195.0, host="other"),
    )
    one, two = state.gaps()
    assert (one.run, one.seconds, one.after, one.host_changed, one.changed) == (1, -20.0, "", True, ("torch",))
    assert (two.run, two.seconds, two.after, two.host_changed, two.changed) == (2, 100.0, "aborted", False, ())
    assert state.seconds == 15.0
    assert state.started == 100.0


def random_campaign(seed: int) -> list[Event]:
    """A campaign with failures, resumes, drops and empty problems."""
    draw = random.Random(seed)
    events: list[Event] = [opened()]
    attempt = 1
    for problem in range(draw.randint(0, 6)):
        while True:
            count = draw.randint(0, 4)
            for number in range(count):
                nets = (draw.randint(-2, 2), draw.randint(-2, 2), draw.randint(-2, 2))
                cache = FAILED if draw.random() < 0.1 else None
                events.append(pivot(problem, 0, 145 + 16 * number, nets, attempt=attempt, cache=cache))
            if draw.random() < 0.8:
                break
            attempt += 1
            events.append(opened())
        outcome = draw.choice(["measured", "measured", "measured", "dropped", "screened-out"])
        events.append(closed(problem, count, attempt=attempt, outcome=outcome))
    return [msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(events)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9))
def test_live_statistics_and_totals_equal_the_table(seed: int) -> None:
    """The running numbers, the totals of a summary and the batch functions agree on any campaign."""
    events = random_campaign(seed)
    state = fold_all(SPEC, events)
    batch = live(state.table(), alpha=SPEC.alpha)
    assert state.live == batch
    assert (state.totals.pivots, state.totals.common) == (batch.pivots, batch.common)
    assert (state.totals.problems, state.totals.informative) == (batch.problems, batch.informative)
    assert state.irregular == []


def test_folding_through_a_journal_equals_folding_in_memory(tmp_path: Path) -> None:
    """What is written and read back folds to the same table and tallies."""
    events = random_campaign(7)
    path = tmp_path / "events.jsonl"
    with Journal.open(path, "c0" * 32, clock=lambda: (0.0, 0.0)) as journal:
        for event in events:
            journal.append(event)
    one, two = fold_all(SPEC, read(path, "c0" * 32)), fold_all(SPEC, events)
    for name in one.table().__slots__:
        np.testing.assert_array_equal(getattr(one.table(), name), getattr(two.table(), name))
    assert one.cache_tally() == two.cache_tally()


def test_a_table_is_built_once_after_each_closing() -> None:
    """Asking again costs nothing; the next closing gives a new one."""
    state = folded(opened(), pivot(0), closed(0))
    assert state.table() is state.table()
    before = state.table()
    fold(state, closed(1, 0))
    assert state.table() is not before


def test_many_runs_of_many_problems_fold_in_linear_time() -> None:
    """A stranger's journal that reopens problems over and over cannot make folding hang."""
    events: list[Event] = []
    wave = WavePlanned(problems=tuple(range(200)), attempt=1, blocks_needed=1, blocks_allocated=1, blocks_there=9)
    for _ in range(200):
        events += [opened(), wave]
    ended = PassEnded(problem=0, attempt=1, name="exact-1", seconds=7.5, tokens=1, verified=1, failed=0)
    events += [ended] * 5000
    state = folded(*events)
    assert len(state.problems) == 200
    assert len(state.problems[0].passes) == 1


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([*random_campaign(3), *random_campaign(5), *random_campaign(11)]), max_size=30))
def test_any_order_of_events_folds_without_a_crash(events: list[Event]) -> None:
    """Events that no campaign would write in this order fold, and the table is consistent."""
    state = folded(*events)
    table = state.table()
    keys = list(zip(table.group.tolist(), table.rollout.tolist(), table.position.tolist(), strict=True))
    assert len(keys) == len(set(keys))
    assert len(state.measured) == len(set(state.measured))


@pytest.mark.parametrize("arm", ["actual", "alternative"])
def test_a_probe_that_diverges_on_either_arm_diverged(arm: str) -> None:
    """A pivot's probes diverged when one arm's did, whichever it is."""
    made = pivot(attempt=0)
    moved = getattr(made.refeed, arm)
    other = msgspec.structs.replace(moved, probe=msgspec.structs.replace(moved.probe, tokens="ff" * 8))
    refeed = msgspec.structs.replace(made.refeed, **{arm: other})
    columns = PivotColumns()
    columns.append(msgspec.structs.replace(made, refeed=refeed))
    assert columns.wholes("diverged_exact2", "diverged_refeed").tolist() == [[0, 1]]
