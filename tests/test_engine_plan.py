"""What a campaign does next and what it refuses, without an engine: windows, fits, waves, and how a batch ended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
import pytest

from engine.backend import Completion, EngineInfo, StepStats, TokenLogprobs
from engine.bench import Bench
from engine.campaign import between_problems, check_fit, plan_wave, run, todo
from engine.control import Control
from engine.limits import Limits
from engine.measure import run_pass
from engine.passes import PASSES
from engine.tasks.task import Problem
from engine.trunks import generate
from sessions.errors import RefeedError
from sessions.events import CacheFailure, Paused, ProblemClosed, Resumed, WavePlanned
from sessions.spec import CampaignSpec
from sessions.state import fold, new_state
from tests.session_events import opened
from tests.test_engine_passes import CUTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.backend import Finish, Request, Watcher
    from engine.tasks.task import Task
    from sessions.campaign import CampaignState
    from sessions.events import AnyEvent, Outcome

INFO = EngineInfo(
    engine="embedded",
    model="m",
    block_size=16,
    num_blocks=4000,
    max_model_len=200,
    max_num_seqs=64,
    vocab_size=512,
    proof="counts",
    special_ids=frozenset(),
    stop_ids=frozenset({0}),
)
SPEC = CampaignSpec(
    problems=4, rollouts=2, k=2, max_pivots=1, max_trunk_tokens=100, max_cont_tokens=50, probe_tokens=8, scan_limit=8
)


def replace_spec(**changes: object) -> CampaignSpec:
    """The spec with some fields changed."""
    return msgspec.structs.replace(SPEC, **changes)


MEASURED: list[Outcome] = ["measured"] * 4


@dataclass
class Book:
    """A task of numbered questions, one token a letter."""

    size: int = 100
    long: int = -1
    name: str = "book"
    digest: str = "d"
    instruction: str = ""

    def __len__(self) -> int:
        """Problems."""
        return self.size

    def problem(self, index: int) -> Problem:
        """A question; the one numbered `long` is long."""
        return Problem(index, "q" * (60 if index == self.long else 10), "1")


@dataclass
class Script:
    """An engine that serves nothing and answers as told: the parts of a backend that planning needs."""

    info: EngineInfo = INFO
    answer: Callable[[Request], Completion] | None = None
    asked: list[Request] = field(default_factory=list)
    steps: tuple[StepStats, ...] = ()
    says: str = "?"

    def encode_chat(self, system: str | None, user: str) -> tuple[int, ...]:
        """One token a letter."""
        return tuple(5 for _ in (system or "") + user)

    def decode(self, tokens: Sequence[int]) -> str:
        """As told, by default nothing that could be right; {0} is the first token."""
        return self.says.format(*tokens) if tokens else ""

    def run(self, requests: Sequence[Request], watcher: Watcher) -> tuple[Completion, ...]:
        """Answer every request as told."""
        assert self.answer is not None
        self.asked.extend(requests)
        for step in self.steps:
            watcher.step(step)
        return tuple(self.answer(request) for request in requests)

    def reset_prefix_cache(self) -> bool:
        """Nothing to forget."""
        return True

    def close(self) -> None:
        """Nothing to free."""


def bench(
    spec: CampaignSpec = SPEC, book: Book | None = None, script: Script | None = None
) -> tuple[Bench, list[AnyEvent]]:
    """A bench over the book, and the events that it emits."""
    events: list[AnyEvent] = []
    task = cast("Task", book or Book())
    made = Bench(spec, script or Script(), task, events.append, Control(), 0, Limits(spec), Path())
    return made, events


def closed(spec: CampaignSpec, *outcomes: Outcome) -> CampaignState:
    """A campaign whose first problems closed like this."""
    state = new_state(spec)
    fold(state, opened())
    for offset, outcome in enumerate(outcomes):
        fold(state, ProblemClosed(problem=spec.start + offset, attempt=0, outcome=outcome, pivots=0, seconds=1.0))
    return state


def done(request: Request, finish: Finish = "stop", preemptions: int = 0) -> Completion:
    """One token that ended the request."""
    return Completion(request.id, (0,), finish, 0, None, preemptions, (TokenLogprobs(-0.1, ((0, -0.1), (1, -2.3))),))


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
        (replace_spec(), Book(long=3), "problem 3 may need 210 tokens"),
        (replace_spec(max_cont_tokens=8, probe_tokens=150), Book(), "may need 260 tokens"),
        (replace_spec(screen="mixed"), Book(long=7), "problem 7 may need 210 tokens"),
    ],
    ids=["slack", "window", "length", "probe", "screen"],
)
def test_what_cannot_fit_is_refused_before_any_token(spec: CampaignSpec, book: Book, words: str) -> None:
    """The field or the problem is named; a screen's whole window is looked at, and probes may be the longer."""
    made, _ = bench(spec, book)
    with pytest.raises(RefeedError, match=words):
        check_fit(made)


def test_what_lies_outside_the_window_is_not_looked_at() -> None:
    """A long problem behind the last registered one, or behind a screen's limit, stops nothing."""
    check_fit(bench(replace_spec(), Book(long=4))[0])
    check_fit(bench(replace_spec(boundary_slack=14, screen="mixed"), Book(long=8))[0])


def test_a_wave_is_as_wide_as_its_blocks_last() -> None:
    """Four problems are wanted; in a small cache fewer are planned, and not even one is an error."""
    made, events = bench()
    problems, cold_by = plan_wave(made, todo(SPEC, 100, closed(SPEC)))
    assert ([problem.index for problem in problems], cold_by) == ([0, 1, 2, 3], "salt")
    small, _ = bench(script=Script(replace(INFO, num_blocks=200)))
    problems, cold_by = plan_wave(small, todo(SPEC, 100, closed(SPEC)))
    assert ([problem.index for problem in problems], cold_by) == ([0, 1], "salt")
    none, _ = bench(script=Script(replace(INFO, num_blocks=14)))
    with pytest.raises(RefeedError, match="14 KV blocks"):
        plan_wave(none, todo(SPEC, 100, closed(SPEC)))
    assert isinstance(events[0], WavePlanned)


def test_only_a_registered_wave_of_one_resets() -> None:
    """The last problem of wider waves is alone in its wave and still made cold by a salt, like the others."""
    made, _ = bench()
    assert plan_wave(made, todo(SPEC, 100, closed(SPEC, *MEASURED[:3])))[1] == "salt"
    one = replace_spec(wave=1)
    assert plan_wave(bench(one)[0], todo(one, 100, closed(one)))[1] == "reset"


def test_trunks_of_a_later_wave_have_new_ids_and_salts_and_the_same_noise() -> None:
    """A screen may generate a problem again: its old blocks must not serve it, and its seeds stay."""
    script = Script(answer=lambda request: replace(done(request), tokens=(), logprobs=()))
    made, _ = bench(script=script)
    problems = [Problem(3, "q", "1"), Problem(4, "q", "1")]
    sets = [generate(made, problems, wave) for wave in (0, 1)]
    first, again = script.asked[:4], script.asked[4:]
    assert len({request.id for request in script.asked}) == len({request.salt for request in script.asked}) == 8
    assert [request.seed for request in first] == [request.seed for request in again]
    assert len({request.seed for request in first}) == 4
    assert [trunks.problem.index for trunks in sets[1]] == [3, 4]
    other, _ = bench(replace_spec(seed=1), script=Script(answer=script.answer))
    generate(other, problems, 0)
    assert isinstance(other.backend, Script)
    assert {request.seed for request in other.backend.asked}.isdisjoint(request.seed for request in first)


@pytest.mark.parametrize(("grading", "right"), [("solution", True), ("published", False)])
def test_the_registered_rule_grades_trunks(grading: str, right: bool) -> None:
    """A minus of U+2212 is one to the default rule and none to the published one."""
    script = Script(answer=done, says="Answer: \u22121")
    made, _ = bench(replace_spec(grading=grading, top_logprobs=2), script=script)
    sets = generate(made, [Problem(3, "q", "-1")], 0)
    assert sets[0].correct == (right, right)


PREEMPTED = StepStats(running=1, waiting=0, finished=0, tokens=1, kv_use=1.0, preemptions=1)


@pytest.mark.parametrize(
    ("preempt", "abort", "steps", "spoiled"),
    [
        ("", "", (), [False, False]),
        ("4.0/", "", (PREEMPTED,), [False, True]),
        ("", "", (PREEMPTED,), [True, True]),
        ("", "3.0/", (), [True, False]),
    ],
    ids=["none", "named", "unnamed", "aborted"],
)
def test_a_preempted_or_lost_trunk_spoils_its_problem_and_an_unnamed_one_all(
    preempt: str, abort: str, steps: tuple[StepStats, ...], spoiled: list[bool]
) -> None:
    """A preemption that no completion owns up to may have hit any problem of the batch."""

    def answer(request: Request) -> Completion:
        hit = bool(preempt) and request.id.startswith(preempt)
        lost = bool(abort) and request.id.startswith(abort)
        return replace(done(request, "aborted" if lost else "stop", int(hit)), tokens=(), logprobs=())

    made, _ = bench(script=Script(answer=answer, steps=steps))
    sets = generate(made, [Problem(3, "q", "1"), Problem(4, "q", "1")], 0)
    assert [len(trunks.failures) > 0 for trunks in sets] == spoiled


@pytest.mark.parametrize(
    ("name", "finish", "preemptions", "steps", "words"),
    [
        ("k1", "stop", 1, (PREEMPTED,), "was preempted 1 times"),
        ("", "stop", 0, (PREEMPTED,), "a request was preempted"),
        ("k1", "aborted", 0, (), "nobody had asked"),
    ],
    ids=["named", "unnamed", "aborted"],
)
def test_what_only_the_end_of_a_pass_shows_is_a_failure(
    name: str, finish: Finish, preemptions: int, steps: tuple[StepStats, ...], words: str
) -> None:
    """Preempted and lost requests spoil the problem; the request is named where the engine tells."""

    def answer(request: Request) -> Completion:
        return done(request, finish, preemptions) if name and request.id.endswith(name) else done(request)

    made, _ = bench(replace_spec(on_cache_failure="record"), script=Script(answer=answer, steps=steps))
    wrong = [one for one in run_pass(made, 7, PASSES[0], CUTS, "").failures if one.scope == "problem"]
    assert len(wrong) == 1
    assert words in wrong[0].reason
    assert wrong[0].request.endswith(name)
    assert (wrong[0].request == "") is (name == "")


def test_a_request_that_never_reported_its_hit_fails_its_pivot() -> None:
    """An engine that forgets to tell of a first token has proved nothing for that request."""
    made, _ = bench(script=Script(answer=done))
    failures = run_pass(made, 7, PASSES[0], CUTS, "").failures
    assert len(failures) == 3 * 2 * (SPEC.k + 1)
    assert {failure.reason for failure in failures} == {"the request ended without reporting its cache hit"}


def test_a_pause_waits_and_says_so_and_a_stop_ends_it() -> None:
    """Paused is recorded before the wait, Resumed after it, and nothing of a stop that came meanwhile is lost."""
    made, events = bench()
    made.control.pause()
    made.control.stop("aborted by the user", "aborted", 1)
    ended = between_problems(made, closed(SPEC))
    assert ended is not None
    assert (ended.state, ended.exit_code) == ("aborted", 1)
    assert [type(event) for event in events] == [Paused]
    again, events = bench()
    again.control.pause()
    again.control.wait_while_paused = again.control.resume  # type: ignore[method-assign] # somebody resumes
    assert between_problems(again, closed(SPEC)) is None
    assert [type(event) for event in events] == [Paused, Resumed]


def test_a_campaign_whose_problems_all_closed_is_finished_whatever_time_is_left() -> None:
    """Hours that end with the last problem put nothing off: the campaign is finished, not stopped."""
    spec = replace_spec(max_hours=1.0)
    made, _ = bench(spec)
    late = replace(made, limits=Limits(spec, earlier_seconds=3599.5))
    ended = run(late, closed(spec, "measured", "measured", "measured", "dropped"))
    assert (ended.state, ended.exit_code) == ("finished", 0)
    assert ended.reason == "measured 3 of 4 registered problems; 1 dropped by cache checks"
    cut = run(late, closed(spec, "measured"))
    assert cut.state == "stopped"


@pytest.mark.parametrize(("blocks", "waves"), [(4000, [(0, 1, 2, 3, 4, 5)]), (90, [(0, 1, 2)])], ids=["roomy", "small"])
def test_a_screen_measures_what_was_asked_and_no_more(
    tmp_path: Path, blocks: int, waves: list[tuple[int, ...]]
) -> None:
    """Of candidates that are all mixed the first two are measured; a small cache looks at fewer together."""

    def answer(request: Request) -> Completion:
        told = TokenLogprobs(-0.1, ((int(request.id[-1]), -0.1), (9, -2.3)))
        return replace(done(request), tokens=(int(request.id[-1]),), logprobs=(told,))

    spec = replace_spec(screen="mixed", problems=2, wave=6, top_logprobs=2)
    info = replace(INFO, num_blocks=blocks)
    made, events = bench(spec, script=Script(info, answer=answer, says="Answer: {0}"))
    state = closed(spec)

    def emit(event: AnyEvent) -> None:
        events.append(event)
        fold(state, event)

    ended = run(replace(made, emit=emit, texts=tmp_path), state)
    assert ended.reason == "measured 2 of 2 registered problems"
    shut = [(event.problem, event.outcome) for event in events if isinstance(event, ProblemClosed)]
    assert shut == [(0, "measured"), (1, "measured")]
    assert [event.problems for event in events if isinstance(event, WavePlanned)] == waves


@pytest.mark.parametrize("policy", ["abort", "drop-problem", "record"])
def test_a_preempted_trunk_is_a_recorded_failure_and_no_pass_follows(policy: str) -> None:
    """The failure is in the journal with its request; the campaign aborts, or the problem is dropped."""
    script = Script(answer=lambda request: done(request, preemptions=1))
    spec = replace_spec(problems=1, on_cache_failure=policy, top_logprobs=2)
    made, events = bench(spec, script=script)
    state = closed(spec)

    def emit(event: AnyEvent) -> None:
        events.append(event)
        fold(state, event)

    ended = run(replace(made, emit=emit), state)
    failures = [event for event in events if isinstance(event, CacheFailure)]
    assert [(failure.stage, failure.request) for failure in failures] == [("trunks", "0.0/trunk/w0/r0")]
    assert len(script.asked) == spec.rollouts
    assert ended.exit_code == (4 if policy == "abort" else 0)
    assert list(state.measured) == []
