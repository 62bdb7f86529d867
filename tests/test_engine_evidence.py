"""From completions to evidence: what is graded, what is counted, and what a pivot's record says of its cache."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Literal, cast

import pytest

from engine.backend import BlockOrigin, Completion, TokenLogprobs
from engine.control import Control
from engine.evidence import pivot_events, served, solution_text
from engine.measure import PassRun
from engine.passes import PASSES, CheckFailure, Cut, plan_pass
from engine.pivots import Selection, Site
from engine.tasks.task import Problem
from engine.trunks import TrunkSet
from sessions.spec import CampaignSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.bench import Bench

SPEC = CampaignSpec(k=2, rollouts=2, temperature=0.7, probe_tokens=1)
WORDS = ["<pad>", "Answer", ": ", "1", "8", "9", "PROMPT", "<stop>", "\N{MINUS SIGN}", "\n"]
PROMPT = (6,) * 20
STOP = 7


def bench(spec: CampaignSpec = SPEC) -> Bench:
    """A bench that can only speak: one word a token, the stop token silent."""

    def decode(tokens: Sequence[int]) -> str:
        return "".join(WORDS[token] for token in tokens if token != STOP)

    backend = SimpleNamespace(decode=decode)
    return cast("Bench", SimpleNamespace(spec=spec, backend=backend, attempt=0, control=Control(), texts=Path()))


def completion(name: str, tokens: tuple[int, ...], **changes: object) -> Completion:
    """A finished request."""
    done = Completion(name, tokens, "stop", 16, (BlockOrigin("t", 0, 0),), 0)
    return replace(done, **changes)  # type: ignore[arg-type] # fields by name


# Trunk 0 says "Answer: 18" and is cut inside the number, after "Answer: 1": "8" against "9".
TRUNK = (1, 2, 3, 4, STOP)
SITE = Site(23, 3, 0.5, 4, 5, -0.7, -1.2, 1)
CUT = Cut(0, (*PROMPT, *TRUNK[:3]), "7.0/trunk/w0/r0", SITE)
LATER = Cut(1, (*PROMPT, *TRUNK[:3]), "7.0/trunk/w0/r1", SITE)
TRUNKS = TrunkSet(
    problem=Problem(7, "?", "18"),
    prompt=PROMPT,
    completions=(completion("a", TRUNK), completion("b", (1, 2, 5, STOP))),
    correct=(True, False),
    selections=(),
    kept=True,
    failures=(),
)


def ran(number: int, *, owner: str = "t", failures: tuple[CheckFailure, ...] = ()) -> PassRun:
    """The numbered pass over both cuts: every continuation ends at once, every probe says one token."""
    plan = plan_pass(SPEC, PASSES[number], 7, 0, (CUT, LATER), 16, "salt" if number == 2 else "")
    done = tuple(
        completion(
            request.id,
            (STOP,),
            origins=(BlockOrigin(owner, 0, 3 if number == 0 else 5),),
            logprobs=(TokenLogprobs(-0.5, ((STOP, -0.5),)),) if slot.k is None else (),
        )
        for request, slot in zip(plan.requests, plan.slots, strict=True)
    )
    return PassRun(plan, done, failures)


def test_the_completed_solution_is_graded() -> None:
    """Trunk part without the prompt, the arm's forced token, the continuation; a stop token inside says nothing."""
    tail = completion("c", (5, STOP))
    assert solution_text(bench(), TRUNKS, CUT, "actual", tail) == "Answer: 189"
    assert solution_text(bench(), TRUNKS, CUT, "alternative", tail) == "Answer: 199"
    assert solution_text(bench(), TRUNKS, CUT, "actual", completion("c", ())) == "Answer: 18"


def test_published_grading_sees_the_continuation_alone() -> None:
    """The compatibility option grades the tail of a number that the pivot cut (known-faults 7)."""
    published = bench(CampaignSpec(grading="published"))
    assert solution_text(published, TRUNKS, CUT, "actual", completion("c", (5, STOP))) == "9"


@pytest.mark.parametrize(("grading", "right"), [("solution", True), ("published", False)])
def test_the_registered_rule_grades_continuations(grading: Literal["solution", "published"], right: bool) -> None:
    """A minus of U+2212 is one to the default rule and none to the published one."""
    run = ran(0)
    says = tuple(replace(one, tokens=(9, 1, 2, 8, 4, STOP)) for one in run.completions)
    minus = replace(TRUNKS, problem=Problem(7, "?", "-8"))
    rows = served(bench(CampaignSpec(k=2, grading=grading)), minus, (CUT, LATER), replace(run, completions=says))
    assert rows[0][0].correct is right


def test_a_pivot_inside_the_final_number_is_right_on_the_arm_that_completes_it() -> None:
    """Empty continuations: the actual arm says 18 and is right, the alternative says 19 and is wrong; all K of each."""
    rows = served(bench(), TRUNKS, (CUT, LATER), ran(0))
    graded = [(row.slot.arm, row.slot.k, row.correct) for row in rows[0]]
    assert graded == [
        ("actual", 0, True),
        ("actual", 1, True),
        ("actual", None, None),
        ("alternative", 0, False),
        ("alternative", 1, False),
        ("alternative", None, None),
    ]


def test_a_pivot_records_its_counts_its_hit_and_its_own_trunks_grade() -> None:
    """Net 2 of 2, the decode share of exact-1's hit, the range of cached counts, and rollout 1's trunk is wrong."""
    runs = [ran(0), ran(1), ran(2)]
    mixed = (replace(runs[1].completions[0], finish="length", cached_tokens=0, tokens=(5, 5)),)
    runs[1] = replace(runs[1], completions=(*mixed, *runs[1].completions[1:]))
    rows = [served(bench(), TRUNKS, (CUT, LATER), run) for run in runs]
    first, second = pivot_events(bench(), TRUNKS, (CUT, LATER), runs, rows)
    assert (first.correct, second.correct) == (True, False)
    assert (first.exact1.net, first.exact1.actual.correct, first.exact1.alternative.correct) == (2, 2, 0)
    assert (first.exact1.actual.capped, first.exact2.actual.capped) == (0, 1)
    assert (first.exact1.actual.tokens, first.exact2.actual.tokens) == (2, 3)
    assert first.exact2.net == 1, "Answer: 1899 is wrong"
    assert (first.exact1.cached, first.exact2.cached) == ((16, 16), (0, 16))
    assert (first.cache.hit_tokens, first.cache.decode_tokens) == (16, 3)
    assert [result.twins for result in (first.exact1, first.exact2, first.refeed)] == [0, 0, 6]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_failure_in_any_pass_fails_its_pivot_and_no_other(number: int) -> None:
    """The pivot of rollout 1 failed in one pass; the one at the same position of rollout 0 did not."""
    failure = CheckFailure("x", 1, 23, 16, None, "no count", "pivot")
    runs = [ran(index, failures=(failure,) if index == number else ()) for index in range(3)]
    rows = [served(bench(), TRUNKS, (CUT, LATER), run) for run in runs]
    states = [pivot.cache.state for pivot in pivot_events(bench(), TRUNKS, (CUT, LATER), runs, rows)]
    assert states == ["verified", "failed"]


def test_a_cut_s_prefix_ends_before_its_pivot() -> None:
    """Prompt and the tokens before the pivot: as many as its position, by rollout and then by position."""
    later = replace(SITE, position=24, index=4)
    chosen = replace(TRUNKS, selections=(Selection((SITE, later), 2), Selection((SITE,), 1)))
    cuts = chosen.cuts()
    assert [(cut.rollout, cut.site.position) for cut in cuts] == [(0, 23), (0, 24), (1, 23)]
    assert [cut.prefix for cut in cuts] == [(*PROMPT, *TRUNK[:3]), (*PROMPT, *TRUNK[:4]), (*PROMPT, 1, 2, 5)]
    assert [cut.trunk_request for cut in cuts] == ["a", "a", "b"]
    assert all(len(cut.prefix) == cut.site.position for cut in cuts)
