"""From completions to evidence: what is graded, what is counted, and what a pivot's record says of its cache."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pytest

from engine.backend import BlockOrigin, Completion, TokenLogprobs
from engine.protocol.evidence import pivot_events, served, solution_text
from engine.protocol.group import run_pass
from engine.protocol.passes import PASSES, CheckFailure, Cut, PassRun, plan_pass
from engine.protocol.pivots import Selection, Site
from engine.protocol.trunks import TrunkSet, generate
from engine.tasks.grading import extract, grade
from engine.tasks.task import Problem
from sessions.disk.texts import probe_of
from sessions.spec import CampaignSpec
from tests.helpers.embedded_checkpoints import EOS, LLAMA, write_checkpoint
from tests.helpers.tiny_bench import bench as bench_of
from tests.helpers.tiny_bench import open_tiny, replace_spec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.backend import Backend
    from engine.protocol.context import Bench

    Benches = Callable[..., Bench]

SPEC = CampaignSpec(k=2, rollouts=2, temperature=0.7, probe_tokens=1)
WORDS = ["<pad>", "Answer", ": ", "1", "8", "9", "PROMPT", "<stop>", "\N{MINUS SIGN}", "\n"]
PROMPT = (6,) * 20
STOP = 7


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Backend:
    """An engine whose tokens are these words; `<pad>` and `<stop>` are special, and its text leaves them out."""
    folder = write_checkpoint(tmp_path_factory.mktemp("model"), LLAMA)
    stored = json.loads((folder / "tokenizer.json").read_text())
    stored["model"]["vocab"] = {word: token for token, word in enumerate(WORDS)}
    stored["added_tokens"] = [
        dict(stored["added_tokens"][0], id=token, content=WORDS[token]) for token in (WORDS.index("<pad>"), STOP)
    ]
    (folder / "tokenizer.json").write_text(json.dumps(stored))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": STOP}))
    return open_tiny(folder)


@pytest.fixture
def bench(engine: Backend) -> Benches:
    """Makes a bench of a spec."""
    return lambda spec=SPEC: bench_of(engine, spec)[0]


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
            origins=(BlockOrigin(owner, 0, 3 if number == 0 else 1),),
            logprobs=(TokenLogprobs(-0.5, ((STOP, -0.5),)),) if slot.k is None else (),
        )
        for request, slot in zip(plan.requests, plan.slots, strict=True)
    )
    return PassRun(plan, done, failures)


def test_the_engine_speaks_as_these_tests_read(bench: Benches) -> None:
    """The real decoder joins the words and leaves out what is special, wherever it stands."""
    backend = bench().backend
    assert backend.info.special_ids >= {0, STOP}
    assert STOP in backend.info.stop_ids
    assert backend.decode((1, 2, 3, STOP, 4, 0, 8, 9)) == "Answer: 18\N{MINUS SIGN}\n"


def test_the_completed_solution_is_graded(bench: Benches) -> None:
    """Trunk part without the prompt, the arm's forced token, the continuation; a stop token inside says nothing."""
    tail = completion("c", (5, STOP))
    assert solution_text(bench(), TRUNKS, CUT, "actual", tail) == "Answer: 189"
    assert solution_text(bench(), TRUNKS, CUT, "alternative", tail) == "Answer: 199"
    assert solution_text(bench(), TRUNKS, CUT, "actual", completion("c", ())) == "Answer: 18"


def test_published_grading_sees_the_continuation_alone(bench: Benches) -> None:
    """The compatibility option grades the tail of a number that the pivot cut (known-faults 7)."""
    published = bench(CampaignSpec(grading="published"))
    assert solution_text(published, TRUNKS, CUT, "actual", completion("c", (5, STOP))) == "9"


@pytest.mark.parametrize(("grading", "right"), [("solution", True), ("published", False)])
def test_the_registered_rule_grades_continuations(
    bench: Benches, grading: Literal["solution", "published"], right: bool
) -> None:
    """A minus of U+2212 is one to the default rule and none to the published one."""
    run = ran(0)
    says = tuple(replace(one, tokens=(9, 1, 2, 8, 4, STOP)) for one in run.completions)
    minus = replace(TRUNKS, problem=Problem(7, "?", "-8"))
    rows = served(bench(CampaignSpec(k=2, grading=grading)), minus, (CUT, LATER), replace(run, completions=says))
    assert rows[0][0].correct is right


def test_a_pivot_inside_the_final_number_is_right_on_the_arm_that_completes_it(bench: Benches) -> None:
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


def test_a_pivot_records_its_counts_its_hit_and_its_own_trunks_grade(bench: Benches) -> None:
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


def test_counts_that_an_engine_did_not_give_are_left_out_of_their_range(bench: Benches) -> None:
    """A missing count is no 0 and no error; without any there is no range, and without origins no decode-time share."""
    runs = [ran(0), ran(1), ran(2)]
    some = (replace(runs[1].completions[0], cached_tokens=None), *runs[1].completions[1:])
    none = tuple(replace(one, cached_tokens=None) for one in runs[2].completions)
    counted = tuple(replace(one, origins=None) for one in runs[0].completions)
    runs = [replace(run, completions=done) for run, done in zip(runs, (counted, some, none), strict=True)]
    rows = [served(bench(), TRUNKS, (CUT, LATER), run) for run in runs]
    first, _ = pivot_events(bench(), TRUNKS, (CUT, LATER), runs, rows)
    assert (first.exact1.cached, first.exact2.cached, first.refeed.cached) == ((16, 16), (16, 16), None)
    assert (first.cache.proof, first.cache.hit_tokens, first.cache.decode_tokens) == ("counts", 16, None)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_failure_in_any_pass_fails_its_pivot_and_no_other(bench: Benches, number: int) -> None:
    """The pivot of rollout 1 failed in one pass; the one at the same position of rollout 0 did not."""
    failure = CheckFailure(7, "x", 1, 23, 16, None, "no count", "pivot")
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


def test_a_real_problems_pivots_say_what_its_completions_did(tmp_path: Path) -> None:
    """Three real passes: grades, caps, tokens, hits, twins and decode-time state, each counted again from its ids."""
    engine = open_tiny(write_checkpoint(tmp_path, LLAMA))
    spec = replace_spec(rollouts=6, k=4, margin=5.0, max_pivots=6, max_trunk_tokens=60, max_cont_tokens=20)
    bench, _ = bench_of(engine, spec)
    (trunks,) = generate(bench, [Problem(7, "q" * 10, "1")], 0)
    cuts = trunks.cuts()
    runs = [run for pass_ in PASSES for run in run_pass(bench, [(7, cuts)], pass_, "salt")]
    assert [run.failures for run in runs] == [(), (), ()]
    done = {completion.id: completion for run in runs for completion in run.completions}

    def text(cut: Cut, forced: int, completion: Completion) -> str:
        return engine.decode((*trunks.completions[cut.rollout].tokens[: cut.site.index], forced, *completion.tokens))

    def of(cut: Cut, name: str, arm: str) -> list[Completion]:
        stem = f"7.0/{name}/r{cut.rollout}/p{cut.site.position}/{arm}"
        return [done[f"{stem}/k{number}"] for number in range(4)]

    forced: dict[str, Callable[[Cut], int]] = {
        "actual": lambda cut: cut.site.actual,
        "alternative": lambda cut: cut.site.alternative,
    }
    answers = Counter(
        extract(text(cut, token(cut), one), "solution")
        for cut in cuts
        for arm, token in forced.items()
        for one in of(cut, "exact-1", arm)
    )
    gold = next(answer for answer, _ in answers.most_common() if answer is not None)
    graded = replace(trunks, problem=Problem(7, "q" * 10, gold))
    pivots = pivot_events(bench, graded, cuts, runs, [served(bench, graded, cuts, run) for run in runs])
    nets = []
    for cut, pivot in zip(cuts, pivots, strict=True):
        assert (pivot.rollout, pivot.position, pivot.k) == (cut.rollout, cut.site.position, 4)
        for result, name in zip(
            (pivot.exact1, pivot.exact2, pivot.refeed), ("exact-1", "exact-2", "re-feed"), strict=True
        ):
            right = {}
            for arm, token in forced.items():
                mine = of(cut, name, arm)
                right[arm] = sum(grade(text(cut, token(cut), one), gold, "solution") for one in mine)
                probe = done[f"7.0/{name}/r{cut.rollout}/p{cut.site.position}/{arm}/probe"]
                found = result.actual if arm == "actual" else result.alternative
                assert (found.correct, found.tokens) == (right[arm], sum(len(one.tokens) for one in mine))
                assert found.capped == sum(len(one.tokens) == 20 and one.tokens[-1] != EOS for one in mine)
                assert found.probe == probe_of(probe.tokens, [entry.sampled for entry in probe.logprobs])
            every = [
                one for identity, one in done.items() if f"/{name}/r{cut.rollout}/p{cut.site.position}/" in identity
            ]
            assert len(every) == 2 * (4 + 1)
            counts = [one.cached_tokens for one in every if one.cached_tokens is not None]
            assert result.cached == (min(counts), max(counts))
            siblings = [one for one in every if any(origin.decode_tokens for origin in one.origins or ())]
            assert result.twins == (len(siblings) if name == "re-feed" else 0)
            assert result.net == right["actual"] - right["alternative"]
            nets.append(result.net)
        hit = 16 * (pivot.position // 16)
        assert (pivot.cache.hit_tokens, pivot.exact1.cached, pivot.exact2.cached) == (hit, (hit, hit), (hit, hit))
        assert pivot.cache.decode_tokens == hit - len(trunks.prompt)
        assert (pivot.cache.state, pivot.cache.proof) == ("verified", "ledger")
    assert max(16 * (pivot.position // 16) for pivot in pivots) > 16, "no hit of several blocks"
    assert any(nets), "nothing to grade"
