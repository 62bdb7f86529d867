"""What a campaign does next and what it refuses, on a real engine: windows, fits, waves, and how a batch ended."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from engine.protocol.campaign import between_groups, check_fit, plan_wave, run, todo
from engine.protocol.group import run_pass
from engine.protocol.limits import Limits
from engine.protocol.passes import PASSES
from engine.protocol.trunks import generate
from engine.tasks.grading import extract
from engine.tasks.task import Problem
from sessions.errors import RefeedError
from sessions.events import CacheFailure, PassEnded, Paused, Pivot, ProblemClosed, Resumed, WavePlanned
from sessions.state.fold import fold, new_state
from tests.helpers.campaigns import Faulty
from tests.helpers.embedded_checkpoints import LLAMA, write_checkpoint
from tests.helpers.session_events import opened
from tests.helpers.tiny_bench import SPEC, Book, bench, open_tiny, replace_spec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.backend import Backend, Completion, Request, StepStats
    from engine.backends.embedded.backend import EmbeddedBackend
    from engine.protocol.trunks import TrunkSet
    from sessions.events import AnyEvent, Outcome
    from sessions.spec import CampaignSpec
    from sessions.state.campaign import CampaignState

MEASURED: list[Outcome] = ["measured"] * 4


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model whose head is not its embedding: at temperature 1 it writes all kinds of letters."""
    return write_checkpoint(tmp_path_factory.mktemp("model"), LLAMA)


@pytest.fixture
def engine(checkpoint: Path) -> EmbeddedBackend:
    """A fresh engine; an id is used once in its life."""
    return open_tiny(checkpoint)


def closed(spec: CampaignSpec, *outcomes: Outcome) -> CampaignState:
    """A campaign whose first problems closed like this."""
    state = new_state(spec)
    fold(state, opened())
    for offset, outcome in enumerate(outcomes):
        fold(state, ProblemClosed(problem=spec.start + offset, attempt=0, outcome=outcome, pivots=0, seconds=1.0))
    return state


def test_a_dropped_problem_is_one_of_the_registered_ones() -> None:
    """The window is start..start+problems; what was dropped is not replaced by a later problem."""
    spec = replace_spec(start=10)
    what = todo(spec, 100, closed(spec, "measured", "dropped"))
    assert (what.open, what.left) == ((12, 13), 2)
    assert todo(spec, 100, closed(spec, *MEASURED[:4])).open == ()


def test_a_screen_looks_on_until_enough_were_kept_and_never_past_its_limit() -> None:
    """Screened-out problems do not count as measured, dropped ones do; the window ends at scan_limit or the data."""
    spec = replace_spec(start=10, screen="mixed")
    what = todo(spec, 100, closed(spec, "screened-out", "measured", "dropped"))
    assert (what.open, what.left) == ((13, 14, 15, 16, 17), 2)
    assert todo(spec, 100, closed(spec, *MEASURED[:4])).open == ()
    assert todo(spec, 15, closed(spec)).open == (10, 11, 12, 13, 14)


@pytest.mark.parametrize(
    ("spec", "book", "words"),
    [
        (replace_spec(boundary_slack=15), Book(), "boundary_slack"),
        (replace_spec(start=98), Book(), "has 100 problems"),
        (replace_spec(), Book(long=3), "problem 3 may need 213 tokens"),
        (replace_spec(max_cont_tokens=8, probe_tokens=150), Book(), "may need 263 tokens"),
        (replace_spec(screen="mixed"), Book(long=7), "problem 7 may need 213 tokens"),
    ],
    ids=["slack", "window", "length", "probe", "screen"],
)
def test_what_cannot_fit_is_refused_before_any_token(
    engine: EmbeddedBackend, spec: CampaignSpec, book: Book, words: str
) -> None:
    """The field or the problem is named; a screen's whole window is looked at, and probes may be the longer.

    The chat template adds three tokens to a question.
    """
    faulty = Faulty(engine)
    with pytest.raises(RefeedError, match=words):
        run(bench(faulty, spec, book)[0], closed(spec))
    assert faulty.batches == 0


def test_what_lies_outside_the_window_is_not_looked_at(engine: EmbeddedBackend) -> None:
    """A long problem behind the last registered one, or behind a screen's limit, stops nothing."""
    check_fit(bench(engine, replace_spec(), Book(long=4))[0])
    check_fit(bench(engine, replace_spec(boundary_slack=14, screen="mixed"), Book(long=8))[0])


def test_a_wave_is_as_wide_as_its_blocks_last(checkpoint: Path, engine: EmbeddedBackend) -> None:
    """Four problems are wanted; in a small cache fewer are planned, and not even one is an error."""
    made, events = bench(engine)
    problems, cold_by = plan_wave(made, todo(SPEC, 100, closed(SPEC)))
    assert ([problem.index for problem in problems], cold_by) == ([0, 1, 2, 3], "salt")
    small, _ = bench(open_tiny(checkpoint, 200))
    problems, cold_by = plan_wave(small, todo(SPEC, 100, closed(SPEC)))
    assert ([problem.index for problem in problems], cold_by) == ([0, 1, 2], "salt")
    apart, _ = bench(open_tiny(checkpoint, 200), replace_spec(group=1))
    assert len(plan_wave(apart, todo(SPEC, 100, closed(SPEC)))[0]) == 2, "passes one after the other take more blocks"
    least, _ = bench(open_tiny(checkpoint, 17))  # two trunks of 13 + 100 tokens, and the null block
    assert [problem.index for problem in plan_wave(least, todo(SPEC, 100, closed(SPEC)))[0]] == [0]
    none, _ = bench(open_tiny(checkpoint, 16))
    with pytest.raises(RefeedError, match="may need 16 KV blocks, but the engine has 16"):
        plan_wave(none, todo(SPEC, 100, closed(SPEC)))
    assert isinstance(events[0], WavePlanned)


def test_only_a_registered_wave_of_one_resets(engine: EmbeddedBackend) -> None:
    """The last problem of wider waves is alone in its wave and still made cold by a salt, like the others."""
    made, _ = bench(engine)
    assert plan_wave(made, todo(SPEC, 100, closed(SPEC, *MEASURED[:3])))[1] == "salt"
    one = replace_spec(wave=1)
    assert plan_wave(bench(engine, one)[0], todo(one, 100, closed(one)))[1] == "reset"


def test_trunks_of_a_later_wave_have_new_ids_and_salts_and_the_same_noise(
    checkpoint: Path, engine: EmbeddedBackend
) -> None:
    """A screen may generate a problem again: its old blocks must not serve it, and its seeds stay."""
    asked: list[Request] = []
    made, _ = bench(Faulty(engine, before=asked.extend), replace_spec(max_trunk_tokens=30))
    problems = [Problem(3, "q" * 40, "1"), Problem(4, "q" * 40, "1")]
    sets = [generate(made, problems, wave) for wave in (0, 1)]
    first, again = asked[:4], asked[4:]
    assert len({request.id for request in asked}) == len({request.salt for request in asked}) == 8
    assert [request.seed for request in first] == [request.seed for request in again]
    assert len({request.seed for request in first}) == 4
    assert [trunks.problem.index for trunks in sets[1]] == [3, 4]
    assert all(done.cached_tokens == 0 for trunks in sets[1] for done in trunks.completions)
    assert written(sets[0]) == written(sets[1])
    asked_later: list[Request] = []
    other = Faulty(open_tiny(checkpoint), before=asked_later.extend)
    varied = generate(bench(other, replace_spec(seed=1, max_trunk_tokens=30))[0], problems, 0)
    assert {request.seed for request in asked_later}.isdisjoint(request.seed for request in first)
    assert written(varied) != written(sets[0])


def written(sets: list[TrunkSet]) -> list[tuple[int, ...]]:
    """Tokens of all trunks."""
    return [done.tokens for trunks in sets for done in trunks.completions]


def saying(engine: Backend, text: str) -> Faulty:
    """The engine, its trunks all replaced by one text."""
    tokens = engine.encode_chat(None, text)[1:-2]  # without the template's own
    return Faulty(
        engine, completion=lambda done: replace(done, tokens=tokens, logprobs=done.logprobs[:1] * len(tokens))
    )


@pytest.mark.parametrize(("grading", "right"), [("solution", True), ("published", False)])
def test_the_registered_rule_grades_trunks(engine: EmbeddedBackend, grading: str, right: bool) -> None:
    """4M is four million to the default rule and four to the published one."""
    made, _ = bench(saying(engine, "Answer: 4M"), replace_spec(grading=grading))
    sets = generate(made, [Problem(3, "q", "4000000")], 0)
    assert sets[0].correct == (right, right)


def preempted(stats: StepStats) -> StepStats:
    """A step after which somebody had been preempted."""
    return replace(stats, preemptions=1)


@pytest.mark.parametrize(
    ("preempt", "abort", "step", "spoiled"),
    [
        ("", "", None, [False, False]),
        ("4.0/", "", preempted, [False, True]),
        ("", "", preempted, [True, True]),
        ("", "3.0/", None, [True, False]),
    ],
    ids=["none", "named", "unnamed", "aborted"],
)
def test_a_preempted_or_lost_trunk_spoils_its_problem_and_an_unnamed_one_all(
    engine: EmbeddedBackend,
    preempt: str,
    abort: str,
    step: Callable[[StepStats], StepStats] | None,
    spoiled: list[bool],
) -> None:
    """A preemption that no completion owns up to may have hit any problem of the batch."""

    def alter(done: Completion) -> Completion:
        hit = preempt != "" and done.id.startswith(preempt)
        lost = abort != "" and done.id.startswith(abort)
        return replace(done, preemptions=int(hit), finish="aborted" if lost else done.finish)

    made, _ = bench(Faulty(engine, step=step, completion=alter), replace_spec(max_trunk_tokens=8))
    sets = generate(made, [Problem(3, "q", "1"), Problem(4, "q", "1")], 0)
    assert [len(trunks.failures) > 0 for trunks in sets] == spoiled


@pytest.mark.parametrize(
    ("name", "lost", "step", "words"),
    [
        ("k1", False, preempted, "was preempted 1 times"),
        ("", False, preempted, "a request was preempted"),
        ("k1", True, None, "nobody had asked"),
    ],
    ids=["named", "unnamed", "aborted"],
)
def test_what_only_the_end_of_a_pass_shows_is_a_failure(
    engine: EmbeddedBackend,
    name: str,
    lost: bool,
    step: Callable[[StepStats], StepStats] | None,
    words: str,
) -> None:
    """Preempted and lost requests spoil the problem; the request is named where the engine tells."""

    def alter(done: Completion) -> Completion:
        if name == "" or not done.id.endswith(name):
            return done
        return replace(done, finish="aborted") if lost else replace(done, preemptions=1)

    made, _ = bench(engine, replace_spec(on_cache_failure="record"))
    (trunks,) = generate(made, [made.task.problem(7)], 0)
    faulty = replace(made, backend=Faulty(engine, step=step, completion=alter))
    ((wrong,),) = (run.failures for run in run_pass(faulty, [(7, trunks.cuts())], PASSES[0], ""))
    assert wrong.scope == "problem"
    assert words in wrong.reason
    assert wrong.request.endswith(name)
    assert (wrong.request == "") is (name == "")


def test_a_request_that_never_reported_its_hit_fails_its_pivot(engine: EmbeddedBackend) -> None:
    """An engine that forgets to tell of a first token has proved nothing for that request."""
    made, _ = bench(engine)
    (trunks,) = generate(made, [made.task.problem(7)], 0)
    cuts = trunks.cuts()
    assert len(cuts) > 1
    silent = replace(made, backend=Faulty(engine, first=lambda first: None if "/r0/" in first.id else first))
    (done,) = run_pass(silent, [(7, cuts)], PASSES[0], "")
    assert [failure.request for failure in done.failures] == [
        request.id for request in done.plan.requests if "/r0/" in request.id
    ]
    assert len(done.failures) == 2 * (SPEC.k + 1)
    assert {failure.reason for failure in done.failures} == {"the request ended without reporting its cache hit"}
    assert {failure.scope for failure in done.failures} == {"pivot"}


def test_a_pass_says_whether_it_was_cut_short(engine: EmbeddedBackend) -> None:
    """Probes end first; a failure after that stops the continuations, and the pass is no whole one."""
    made, events = bench(engine)
    (trunks,) = generate(made, [made.task.problem(7)], 0)
    began = time.monotonic()
    (whole,) = run_pass(made, [(7, trunks.cuts())], PASSES[0], "")
    late = Faulty(engine, step=lambda stats: replace(stats, preemptions=int(stats.finished > 0)))
    (cut,) = run_pass(replace(made, backend=late), [(7, trunks.cuts())], PASSES[1], "")
    elapsed = time.monotonic() - began
    assert "aborted" not in {done.finish for done in whole.completions}
    assert {done.finish for done in cut.completions} > {"aborted"}
    first, second = (event for event in events if isinstance(event, PassEnded))
    assert (first.stopped, first.failed, first.verified) == (False, 0, len(whole.completions))
    assert (second.stopped, second.failed, second.verified) == (True, 1, len(cut.completions))
    assert (first.tokens, second.tokens) == tuple(
        sum(len(done.tokens) for done in run.completions) for run in (whole, cut)
    )
    assert 0 < first.seconds + second.seconds <= elapsed


def test_a_pause_waits_and_says_so_and_a_stop_ends_it(engine: EmbeddedBackend) -> None:
    """Paused is recorded before the wait, Resumed after it, and nothing of a stop that came meanwhile is lost."""
    made, events = bench(engine)
    made.control.pause()
    made.control.stop("aborted by the user", "aborted", 1)
    ended = between_groups(made, closed(SPEC))
    assert ended is not None
    assert (ended.state, ended.exit_code) == ("aborted", 1)
    assert [type(event) for event in events] == [Paused]
    again, events = bench(engine)
    again.control.pause()
    again.control.wait_while_paused = again.control.resume  # type: ignore[method-assign] # somebody resumes
    assert between_groups(again, closed(SPEC)) is None
    assert [type(event) for event in events] == [Paused, Resumed]


def test_a_campaign_whose_problems_all_closed_is_finished_whatever_time_is_left(engine: EmbeddedBackend) -> None:
    """Hours that end with the last problem put nothing off: the campaign is finished, not stopped."""
    spec = replace_spec(max_hours=1.0)
    made, _ = bench(engine, spec)
    late = replace(made, limits=Limits(spec, earlier_seconds=3599.5))
    ended = run(late, closed(spec, "measured", "measured", "measured", "dropped"))
    assert (ended.state, ended.exit_code) == ("finished", 0)
    assert ended.reason == "measured 3 of 4 registered problems; 1 dropped by cache checks"
    cut = run(late, closed(spec, "measured"))
    assert cut.state == "stopped"


def mixed(engine: Backend, spec: CampaignSpec, index: int) -> Problem:
    """A problem whose trunks, on this engine, have pivots and give two answers, one of them its gold one."""
    for letter in "abcdefghijklmnopqrstuvwxyz":
        question = letter * 10
        looking = replace(bench(engine, spec)[0], attempt=100 + ord(letter))
        (trunks,) = generate(looking, [Problem(index, question, "1")], 0)
        said = [extract(engine.decode(done.tokens), "solution") for done in trunks.completions]
        gold = next((answer for answer in said if answer is not None and said.count(answer) == 1), None)
        if gold is not None and all(len(selection.sites) > 0 for selection in trunks.selections):
            return Problem(index, question, gold)
    raise AssertionError(f"no question makes problem {index} mixed")


@pytest.mark.parametrize(
    ("blocks", "waves"),
    [(4000, [(0, 1, 2, 3, 4, 5)]), (50, [(0,), (1,)])],
    ids=["roomy", "small"],
)
def test_a_screen_measures_what_was_asked_and_no_more(
    checkpoint: Path, tmp_path: Path, blocks: int, waves: list[tuple[int, ...]]
) -> None:
    """Of candidates that are all mixed the first two are measured; a small cache looks at fewer together.

    A trunk of 13 + 40 tokens has 4 blocks, a pass of two pivots allocates 2 x 2 x (2 x 2 + 1) = 20: 49 blocks hold one
    candidate's trunks and passes, but not two candidates' 16 + 40.
    """
    spec = replace_spec(
        screen="mixed", problems=2, wave=6, max_trunk_tokens=40, max_cont_tokens=20, batch_invariant=True
    )
    engine = open_tiny(checkpoint, blocks, numerics="invariant")  # what a trunk says must not depend on its batch
    book = Book(problems={index: mixed(engine, spec, index) for index in range(6)})
    made, events = bench(engine, spec, book)
    state = closed(spec)

    def emit(event: AnyEvent) -> None:
        events.append(event)
        fold(state, event)

    ended = run(replace(made, emit=emit, texts=tmp_path), state)
    assert ended.reason == "measured 2 of 2 registered problems"
    shut = [(event.problem, event.outcome) for event in events if isinstance(event, ProblemClosed)]
    assert shut == [(0, "measured"), (1, "measured")]
    assert [event.problems for event in events if isinstance(event, WavePlanned)] == waves
    assert all(pivot.cache.state == "verified" for pivot in events if isinstance(pivot, Pivot))


@pytest.mark.parametrize("policy", ["abort", "drop-problem", "record"])
def test_a_preempted_trunk_is_a_recorded_failure_and_no_pass_follows(engine: EmbeddedBackend, policy: str) -> None:
    """The failure is in the journal with its request; the campaign aborts, or the problem is dropped."""
    asked: list[Request] = []
    faulty = Faulty(engine, before=asked.extend, completion=lambda done: replace(done, preemptions=1))
    spec = replace_spec(problems=1, on_cache_failure=policy)
    made, events = bench(faulty, spec)
    state = closed(spec)

    def emit(event: AnyEvent) -> None:
        events.append(event)
        fold(state, event)

    ended = run(replace(made, emit=emit), state)
    failures = [event for event in events if isinstance(event, CacheFailure)]
    assert [(failure.stage, failure.request) for failure in failures] == [("trunks", "0.0/trunk/w0/r0")]
    assert len(asked) == spec.rollouts
    assert (ended.state, ended.exit_code) == ("aborted", 4)
    assert list(state.measured) == []
