"""Grading: hard answers, every GSM8K gold answer, the published rule, hostile text."""

import json
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tasks import quantities
from engine.tasks.grading import extract, grade
from sessions.errors import RefeedError
from tests.helpers.shared import shared_path

HARD = [
    # text, gold, right under "solution", right under "published" where the whole text is the continuation
    ("Answer: 18", "18", True, True),
    ("Answer: 18.", "18", True, True),
    ("Answer: 8", "18", False, False),
    ("Answer: 18\n", "18", True, True),
    ("**Answer:** 18", "18", True, True),
    ("**Answer: 18**", "18", True, True),
    ("Answer: **18**", "18", True, True),
    ("### Answer: 18 eggs", "18", True, True),
    ("answer = 18", "18", True, True),
    ("Answer: $18", "18", True, True),
    ("Answer: $18.00", "18", True, True),
    ("Answer: 18 dollars per day", "18", True, True),
    ("Answer: about 18", "18", True, True),
    ("The answer is 18.", "18", True, True),
    ("So the final answer is: $1,300.", "1300", True, True),
    ("Answer: 1,300", "1300", True, True),
    ("Answer: 1 300", "1300", True, False),
    ("Answer: 1\u2009300", "1300", True, False),
    ("Answer: 1\u202f300 km", "1300", True, False),
    ("Answer: 1_300", "1300", True, False),
    ("Answer: 1'300", "1300", True, False),
    ("Answer: 12,34,567", "1234567", True, True),
    ("Answer: 1,300,000", "1300000", True, True),
    ("Answer: \u22125", "-5", True, False),
    ("Answer: -5", "-5", True, True),
    ("Answer: -$5", "-5", True, True),
    ("Answer: $-5", "-5", True, True),
    ("Answer: \u22125", "5", False, True),
    ("Answer: 3/4", "3/4", True, False),
    ("Answer: 3/4", "0.75", True, False),
    ("Answer: 3 / 4 of a cake", "0.75", True, False),
    ("Answer: 1 1/2", "1.5", True, False),
    ("Answer: 1 and 1/2 hours", "1.5", True, False),
    ("Answer: 2½", "2.5", True, False),
    ("Answer: ½", "1/2", True, False),
    ("Answer: .5", "0.5", True, False),
    ("Answer: 0.50", "1/2", True, True),
    ("Answer: -.5", "-1/2", True, False),
    ("Answer: 0.3333", "1/3", False, True),
    ("Answer: 3.5 million", "3500000", True, False),
    ("Answer: 2 thousand people", "2000", True, False),
    ("Answer: $1.2 billion", "1200000000", True, False),
    ("Answer: $3.5M", "3500000", True, False),
    ("Answer: 5k", "5000", True, False),
    ("Answer: 5 km", "5", True, True),
    ("Answer: 3:30", "3:30", True, False),
    ("Answer: 3:30 PM", "15:30", True, False),
    ("Answer: 3:30 p.m.", "3:30", True, False),
    ("Answer: 3:30 am", "3:30 pm", False, False),
    ("Answer: 5:00", "5", True, True),
    ("Answer: 5:00 PM", "5", True, True),
    ("Answer: 45%", "45", True, True),
    ("Answer: 45 percent", "45", True, True),
    (r"Answer: 45\%", "45", True, True),
    (r"Answer: \$45", "45", True, True),
    (r"Answer: \(45\)", "45", True, True),
    (r"so \boxed{45}", "45", True, True),
    (r"so \boxed{45 \text{ eggs}}", "45", True, True),
    (r"so \boxed{\frac{3}{4}}", "3/4", True, False),
    (r"so \boxed{-\frac{3}{4}}", "-3/4", True, False),
    (r"so \boxed{1\frac{1}{2}}", "3/2", True, False),
    (r"so \boxed{\dfrac12}", "1/2", True, False),
    (r"so \boxed{\text{The total is } 45}", "45", True, True),
    (r"Answer: $2{,}125$", "2125", True, False),
    (r"Answer: 2\,125", "2125", True, False),
    (r"Answer: \boxed{45}", "45", True, True),
    ("Answer: 1.2e3", "1200", True, False),
    ("Answer: 1.2\u00d710^3", "1200", True, False),
    (r"Answer: 1.2 \times 10^{3}", "1200", True, False),
    ("Answer: 1.2 x 10³", "1200", True, False),
    ("Answer: 5 \u00d7 10⁻²", "0.05", True, False),
    ("Answer: 12 * 3 = 36", "36", True, False),
    ("Answer: x = 36", "36", True, True),
    ("#### 36", "36", True, True),
    ("To answer 5 questions she needs **18** minutes.", "18", True, False),
    ("The answer 5 seems odd, so in total **18**", "18", True, False),
    ("Answer: 5\nWait, that is wrong.\nAnswer: 18", "18", True, True),
    ("Answer: 5\nNo: \\boxed{18}", "18", True, True),
    ("She has **9** left.\nAnswer: 18", "18", True, True),
    ("**1.** Add 2\n**2.** So 18", "18", True, True),
    ("**Final Answer:** The second train will catch up 4 hours after it departs.", "4", True, True),
    ("### Final Answer\nThe second train will catch up 4 hours after it departs.", "4", True, True),
    ("## Answer\n\n18", "18", True, True),
    ("It is 3 + 15 = 18", "18", True, True),
    ("Answer:", "18", False, False),
    ("Answer: unknown, but 3 + 15 = 18", "18", True, True),
    ("", "18", False, False),
    ("no number at all", "18", False, False),
    ("Answer: 3/0", "3", False, True),
    ("Answer: 0", "0", True, True),
    ("Answer: -0", "0", True, True),
]


@pytest.mark.parametrize(("text", "gold", "solution", "published"), HARD)
def test_hard_answer_is_graded_by_each_rule(text: str, gold: str, *, solution: bool, published: bool) -> None:
    """Each hard answer grades as the table says, under both rules."""
    assert (grade(text, gold, "solution"), grade(text, gold, "published")) == (solution, published)


def test_tail_of_a_cut_number_is_right_only_as_a_whole() -> None:
    """A pivot inside the final number: the completed solution says 18, the continuation alone says 8."""
    trunk, continuation = "3 + 15 is 18.\nAnswer: 1", "8"
    assert grade(trunk + continuation, "18", "solution")
    assert not grade(continuation, "18", "published")
    assert grade(continuation, "8", "published")


def _golds() -> list[tuple[str, str]]:
    """(worked solution, gold number) of every GSM8K test problem."""
    rows = [json.loads(line) for line in shared_path("data/gsm8k/test.jsonl").read_text(encoding="utf-8").splitlines()]
    return [(row["answer"], row["answer"].rpartition("####")[2].strip()) for row in rows]


def test_every_gsm8k_gold_answer_grades_right_and_its_neighbour_wrong() -> None:
    """All 1,319 gold answers, in several spellings, grade right; the number one higher grades wrong."""
    golds = _golds()
    assert len(golds) == 1319
    for worked, gold in golds:
        value = int(gold.replace(",", ""))
        off = f"{value + 1:,}"
        for text in (
            worked,
            f"Answer: {gold}",
            f"so **${value:,}**.",
            rf"\boxed{{{value}}}",
            f"The answer is {value}.00 units",
        ):
            assert grade(text, gold, "solution"), (text, gold)
            assert not grade(text, off, "solution"), (text, off)
        assert grade(f"Answer: {gold}", gold, "published")
        assert not grade(f"Answer: {off}", gold, "published")
        assert not grade(f"{worked}\nAnswer: {off}", gold, "solution")


def test_published_rule_prefers_boxed_then_answer_then_the_last_number() -> None:
    """The order that the published harness looks in, whatever comes later in the text."""
    assert extract(r"\boxed{1} answer 2 then **3**", "published") == "1"
    assert extract("answer 2 then **3**", "published") == "2"
    assert extract("answer is 2 then 3", "published") == "3"
    assert extract(r"\boxed{x} so 4", "published") == "4"


@given(st.integers(-(10**12), 10**12), st.sampled_from(["{}", "{:,}", "{}.0", "${}", "{} apples", "**{}**"]))
def test_any_integer_survives_its_spelling(value: int, form: str) -> None:
    """An integer in a spelling that people use is read back exactly."""
    assert extract(f"Answer: {form.format(value)}", "solution") == str(value)


@given(st.fractions(min_value=-(10**6), max_value=10**6, max_denominator=10**6))
def test_any_fraction_is_compared_exactly(value: Fraction) -> None:
    """A fraction is equal to itself and to nothing near it."""
    text = f"Answer: {value.numerator}/{value.denominator}"
    assert grade(text, str(value), "solution")
    near = value + Fraction(1, 10**9)
    assert not grade(text, f"{near.numerator}/{near.denominator}", "solution")


HOSTILE = ("1", "1,", "111,", "1 ", "1_1", "1/", "1:", "-", "$", ".", " ", "{", r"\boxed{", r"\frac{", "**", "**1**")
HOSTILE_WORDS = ("answer is ", "answer\n", "#### ", "Answer: 1", r"\boxed{1", "the answer to ")


@pytest.mark.parametrize("piece", [*HOSTILE, *HOSTILE_WORDS], ids=repr)
def test_hostile_text_is_graded_in_time_linear_in_its_length(piece: str) -> None:
    """A hundred thousand characters of anything grade within seconds; a quadratic search would take minutes."""
    _grade_within(piece * (100_000 // len(piece)), seconds=3)


@pytest.mark.parametrize("text", ["1" * 10**6, "Answer: " + "1" * 10**6, "{" * 10**6, "answer" + " " * 10**6])
def test_a_megabyte_is_graded_within_seconds(text: str) -> None:
    """A megabyte of digits, braces or blanks does not hang."""
    _grade_within(text, seconds=10)


def _grade_within(text: str, seconds: float) -> None:
    """Grade by both rules and check the processor time that it took."""
    start = time.process_time()
    grade(text, "18", "solution")
    grade(text, "18", "published")
    assert time.process_time() - start < seconds


@given(st.text(alphabet="0123456789.,:/-+$€ _'\n^*xXeEkMa{}½²٣", max_size=60))
def test_skipping_words_finds_every_quantity_that_a_whole_search_finds(text: str) -> None:
    """Looking from digit to digit is the same as looking at every character."""
    whole = [match.span() for match in quantities._QUANTITY.finditer(text)]
    assert [match.span() for match in quantities.find(text)] == whole


@given(st.text(max_size=400))
def test_any_text_has_an_answer_or_none(text: str) -> None:
    """No text makes grading raise."""
    for found in (extract(text, "solution"), extract(text, "published")):
        assert found is None or found


@pytest.mark.parametrize("gold", ["", "many", "3 or 4", "1/0"])
def test_gold_that_is_not_one_number_is_an_error(gold: str) -> None:
    """A gold answer that cannot be compared is refused, not graded wrong."""
    with pytest.raises(RefeedError, match="is not one number"):
        grade("Answer: 3", gold, "solution")


def test_times_compare_as_times() -> None:
    """A time equals itself on either clock, an open half either half, and never a decimal number."""
    read = [quantities.read(next(quantities.find(text))) for text in ("3:30", "3:30 PM", "15:30", "3:30 AM", "3.5")]
    assert None not in read
    open_half, afternoon, full, morning, decimal = (value for value in read if value is not None)
    assert quantities.same(open_half, afternoon)
    assert quantities.same(afternoon, full)
    assert not quantities.same(afternoon, morning)
    assert not quantities.same(afternoon, decimal)


def test_example_rollouts_are_graded_from_their_prose() -> None:
    """The example rollouts that finished say "4 hours" in prose, and grade so."""
    texts = [json.loads(shared_path(f"data/rollouts/rollout-{i}.json").read_text())["text"] for i in (0, 1, 7)]
    assert [extract(text, "solution") for text in texts] == ["4", "4", "4"]
