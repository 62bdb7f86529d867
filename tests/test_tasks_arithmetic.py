"""The generated word problems: fixed, right, varied, and never seen in training."""

import re
from itertools import islice

import pytest

from engine.tasks import arithmetic
from engine.tasks.arithmetic import Arithmetic, audit_problem, evaluate, is_audit, training_stream
from engine.tasks.grading import grade
from sessions.errors import RefeedError

MANY = 400


def test_a_problem_is_the_same_every_time_and_the_digest_pins_them_all() -> None:
    """A change of words, numbers or drawing changes the digest, and needs a new VERSION and a new checkpoint."""
    assert audit_problem(7) == audit_problem(7)
    assert Arithmetic().digest == DIGEST


DIGEST = "abeac24a9522c667065308a7e77b6f0861c13f808bc4eff9dda7d7232768c0ea"


def test_the_worked_solution_grades_right_and_its_arithmetic_holds() -> None:
    """Every "a op b = c" in a solution is true, and the last line is the answer."""
    operations = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "/": int.__floordiv__}
    checked = 0
    for index in range(MANY):
        worked = audit_problem(index)
        assert worked.answer == evaluate(worked.skeleton)
        assert worked.solution.splitlines()[-1] == f"Answer: {worked.answer}"
        assert grade(worked.solution, str(worked.answer), "solution")
        assert not grade(worked.solution, str(worked.answer + 1), "solution")
        for a, sign, b, c in re.findall(r"(?<![\d(*] )(?<!\d)(\d+) ([-+*/]) (\d+) = (\d+)", worked.solution):
            assert operations[sign](int(a), int(b)) == int(c), worked.solution
            checked += 1
    assert checked > 3 * MANY


def test_problems_have_three_to_six_steps_and_factors_up_to_79() -> None:
    """Chains stay within the stated lengths, and their numbers within the stated ranges."""
    lengths = set()
    for index in range(MANY):
        skeleton = audit_problem(index).skeleton
        lengths.add(sum(2 if step.op in ("add_product", "sub_product") else 1 for step in skeleton))
        products = [step for step in skeleton if step.op in ("start", "add_product", "sub_product", "price")]
        assert all(2 <= step.a <= 79 and 1 <= step.b <= 79 for step in products)
    assert lengths == {3, 4, 5, 6}


def test_problems_and_answers_are_diverse() -> None:
    """Hundreds of problems share no question, and few share an answer."""
    problems = [audit_problem(index) for index in range(MANY)]
    assert len({worked.question for worked in problems}) == MANY
    assert len({worked.answer for worked in problems}) > 0.9 * MANY


@pytest.mark.parametrize(("seed", "shard"), [(0, 0), (0, 17), (5, 3)])
def test_training_never_yields_the_chain_of_an_audit_problem(seed: int, shard: int) -> None:
    """The two ranges are split by a hash of the chain itself, so they share none, whoever drew it."""
    audits = {audit_problem(index).skeleton for index in range(MANY)}
    training = {worked.skeleton for worked in islice(training_stream(seed, shard), 2_000)}
    assert all(is_audit(skeleton) for skeleton in audits)
    assert not any(is_audit(skeleton) for skeleton in training)
    assert audits.isdisjoint(training)


def test_streams_differ_by_seed_and_shard() -> None:
    """Workers with different shards train on different problems, and one stream repeats from its seed."""
    first = [list(islice(training_stream(*key), 50)) for key in ((0, 0), (0, 1), (1, 0))]
    assert len({worked.question for stream in first for worked in stream}) == 150
    assert first[0] == list(islice(training_stream(0, 0), 50))


def test_the_share_of_audit_chains_is_one_in_sixteen() -> None:
    """About a sixteenth of freely drawn chains are for audits."""
    draw = arithmetic._Draw("share")
    found = sum(is_audit(arithmetic._draw_skeleton(draw)) for _ in range(8_000))
    assert 400 < found < 600


@pytest.mark.parametrize("index", [-1, arithmetic.AUDIT_PROBLEMS])
def test_a_number_outside_the_range_is_an_error(index: int) -> None:
    """A problem that does not exist is refused by its number."""
    with pytest.raises(RefeedError, match=rf"arithmetic has no problem {index}") as caught:
        Arithmetic().problem(index)
    assert caught.value.kind == "task"
