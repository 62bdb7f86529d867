"""Golds are read whole or refused, and answers are never half read: forms from public data sets and real outputs."""

import json
from fractions import Fraction
from typing import Any

import pytest

from engine.tasks.grading import extract, grade, read_gold
from engine.tasks.values import whole
from sessions.errors import RefeedError
from sessions.spec import from_fields
from tests.helpers.shared import shared_path

READ = {
    "- 5": -5,
    "\u20135": -5,
    "\u2011 5": -5,
    r"-\,7": -7,
    "minus 7": -7,
    "negative 3": -3,
    "Rs.500": 500,
    "Rs. 1,250.50": Fraction(2501, 2),
    "USD 30": 30,
    "$18.90": Fraction(189, 10),
    r"\$18.90": Fraction(189, 10),
    "18€": 18,
    "-$5": -5,
    r"\frac{3}{4}": Fraction(3, 4),
    r"\dfrac{-3}{4}": Fraction(-3, 4),
    r"-\tfrac34": Fraction(-3, 4),
    r"\frac{1.5}{2}": Fraction(3, 4),
    r"\frac{1,000}{3}": Fraction(1000, 3),
    r"1\frac{1}{2}": Fraction(3, 2),
    "2 3/4": Fraction(11, 4),
    "2½": Fraction(5, 2),
    "2^{10}": 1024,
    "2^10": 1024,
    "10^{-3}": Fraction(1, 1000),
    "10³": 1000,
    r"\sqrt{16}": 4,
    r"\sqrt[3]{27}": 3,
    r"2\sqrt{4}": 4,
    r"\frac{\sqrt{16}}{3}": Fraction(4, 3),
    r"8^{1/3}": 2,
    "-2^2": -4,
    r"3 \cdot 10^{8}": 300_000_000,
    "(5)": 5,
    r"\left(\frac{1}{2}\right)": Fraction(1, 2),
    r"10{,}000": 10_000,
    r"11,\! 111,\! 100": 11_111_100,
    "1\u2009300": 1300,
    r"45\%": 45,
    r"90^\circ": 90,
    "90°": 90,
    r"14\text{ cm}^2": 14,
    "14 square feet": 14,
    "18 eggs per day": 18,
    "60 km/h": 60,
    "x = 5": 5,
    "k=-1": -1,
    "5 lakh": 500_000,
    "2 crore": 20_000_000,
    "3 hundred": 300,
    "fourteen": 14,
    "one hundred and five": 105,
    "twenty-five thousand": 25_000,
}

REFUSED = (
    r"\sqrt{51}", r"9\pi", r"-\frac{\pi}{6}", "2k", r"\sqrt{2}", r"2\pi", r"\pi/4", r"\frac{x}{2}", "x^2", "e^2",
    "5!", "C_5", r"\log_2 x", "p - 2", "H2O", "Room 5", "5x", "3xy", "5 m", "n(n-1)", "2^{k}", r"3\sqrt{2}",
    r"288\pi", r"\frac{\sqrt{3}}{2}", "(3, 4)", "(3,4)", "[0,1]", "[0,1)", r"(2,\infty)",
    r"(-\infty, 3] \cup [5, \infty)", r"\{1, 2\}", "1,2", "2,5", "3, 5, 7", "1,-2", "3 or 4", r"3 \text{ or } 4",
    "3 and 5", "5-7", "3 to 5", r"1 \pm \sqrt{5}", r"\pm 3", r"x \in [1,2]", r"x \le 5", "x^2+2x+1", "3x^2",
    "y = 2x + 3", "x = 5, y = 3", "x=1, x=2", r"6 - 5i", "i", r"\infty", r"-\infty", "1011_2", "2516_8", r"10110_{2}",
    r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\begin{bmatrix} 3 & 4 \end{bmatrix}", r"\text{Evelyn}", r"\text{(A)}",
    "A", "(B)", r"\text{even}", "0.\\overline{3}", r"\binom{5}{2}", r"\cos 30^\circ", r"\ln 2", r"2 \text{ and } 3",
    "1/0", "1/2/3", "", "many", "NaN", r"9^{9^{9}}", "6 ft 2 in", "3 hours 20 minutes", r"\frac{1", "5 +", "5 2",
    r"a = b = 5", "1 < 2", "3:2:1", r"\lfloor 5 \rfloor", "|5|", r"5 \pmod{7}", r"5^\pi", "0x10", "5e",
    r"2 + \sqrt{2}", r"7 \sin 3", "two of three", "one or two",
)  # fmt: skip


@pytest.mark.parametrize(("gold", "value"), READ.items())
def test_a_gold_that_is_one_number_has_its_value(gold: str, value: Fraction) -> None:
    """Signs, currencies, units, LaTeX, exact powers and roots, and number words are read."""
    assert read_gold(gold) == value


@pytest.mark.parametrize("gold", REFUSED)
def test_a_gold_that_is_more_than_one_number_is_refused(gold: str) -> None:
    """Nothing is half read: what has anything left over is refused, whatever number stands first in it."""
    with pytest.raises(RefeedError) as caught:
        read_gold(gold)
    assert caught.value.kind == "task"


# In an answer these mean what most writers mean by them, and a sentence may stand around its number.
LENIENT = {"2k": "2000", "1,2": "6/5", "2,5": "5/2", "Room 5": "5", "a = b = 5": "5"}


@pytest.mark.parametrize("gold", REFUSED)
def test_a_boxed_expression_is_never_its_first_operand(gold: str) -> None:
    """What is refused as a gold is no number in a box either, but for the spellings listed."""
    assert extract(rf"So it is \boxed{{{gold}}}", "solution") == LENIENT.get(gold)


def _cases() -> list[dict[str, Any]]:
    """The grading cases that once failed."""
    return [json.loads(line) for line in shared_path("data/cases/grading_cases.jsonl").read_text("utf-8").splitlines()]


def test_every_case_that_once_failed_is_graded_as_expected() -> None:
    """Each recorded case has its expected grade."""
    cases = _cases()
    wrong = [case for case in cases if grade(case["text"], case["gold"], "solution") != case["expected"]]
    assert (len(cases), wrong) == (26, [])


def test_the_golds_that_were_silently_wrong_are_read_rightly_or_refused() -> None:
    """Signs and currencies are read; roots, multiples of pi and variables are refused."""
    lines = shared_path("data/cases/gold_silently_wrong.jsonl").read_text("utf-8").splitlines()
    assert [whole(json.loads(line)["answer"]) for line in lines] == [-5, -5, None, None, None, 500, None]


ANSWERS = [
    ("total is **14 eggs** (7 * 2).", "14"),
    ("She has **9**. Later she has 14.", "14"),
    (r"\boxed{2\pi}", None),
    (r"\boxed{\sqrt{2}}", None),
    (r"\boxed{2^3}", "8"),
    (r"The area is $9\pi$.", None),
    ("Answer: 5x", None),
    ("Answer: 5-7", None),
    ("Answer: 5 to 10 minutes", None),
    ("Answer: 3 or 4", None),
    ("Answer: 1,2,3", None),
    ("Answer: $x = 3, y = 4$", None),
    ("Answer: 2.5,", "5/2"),
    ("Answer: 1.250,50", "2501/2"),
    ("Answer: 3 and 1/2", "7/2"),
    ("x **3** so\nFinal numerical answer: #### 14", "14"),
    ("#### 2) Add\nso 5", "5"),
    ("### 12\nso 5", "5"),
    ("<answer>\\boxed{14}</answer>\nThat took 3 steps.", "14"),
    ("<answer> 14 eggs </answer> in 3 days", "14"),
    ("Question: What is 2+2?\nAnswer: 4", "4"),
    ("Problem: a\nSolution: b\nAnswer: 4\n\nProblem: c\nAnswer: 9", "4"),
    ("Answer: 14<|im_end|>\n<|im_start|>user\nmore: 3?", "14"),
    ("Answer: 14\n\n**Question 2:** more\n\\boxed{3}", "14"),
    ("Answer: In 3 days she eats 14 eggs", "14"),
    ("Answer: Of the 20 students, 14 passed", "14"),
    ("Answer: He spent 20 - 6 = 14", "14"),
    ("Answer: 14 = 20 - 6", "14"),
    ("Answer: 14, which is twice 7", "14"),
    ("Answer: five hundred and twelve", "512"),
    ("Answer: one of them has 5", "5"),
    ("Answer: 24 (4!)", "24"),
    ("What fun, 18!", "18"),
    ("That is 10 m^2", "10"),
    ("- 5 apples\n- 6 oranges", "6"),
    ("a range of 5\u20137", "7"),
    ("정답: 14입니다. 3일", "14"),
    ("Total: USD500", "500"),
]


@pytest.mark.parametrize(("text", "answer"), ANSWERS)
def test_a_text_has_the_answer_that_a_reader_finds(text: str, answer: str | None) -> None:
    """Ranks of statements, run-ons, sentences, ranges and expressions."""
    assert extract(text, "solution") == answer


@pytest.mark.parametrize(
    ("text", "gold", "right"),
    [
        ("Answer: (B)", "(B)", True),
        ("so **(B)**\nAnswer: **(B)**.", "(B)", True),
        (r"\boxed{\text{Evelyn}}", r"\text{Evelyn}", True),
        ("Answer: B", "A", False),
        ("Answer: 18.0", "18", False),
        ("I think\nParis", "Paris", True),
        ("The answer is Paris.\n\nQuestion: b?\nAnswer: Rome", "Paris", True),
    ],
)
def test_exact_compares_what_is_stated_as_strings(text: str, gold: str, *, right: bool) -> None:
    """Markup, blanks and a full stop around an answer are no part of it; all else is."""
    assert grade(text, gold, "solution", "exact") is right


def test_the_published_rule_grades_numbers_alone() -> None:
    """The published rule with another grader is refused, as a spec is."""
    with pytest.raises(RefeedError) as caught:
        grade("Answer: 3", "3", "published", "exact")
    assert caught.value.kind == "spec"


def test_a_spec_with_the_published_rule_and_another_grader_names_the_field() -> None:
    """The combination is refused where specs are checked, before anything is registered."""
    with pytest.raises(RefeedError, match="grader") as caught:
        from_fields({"grading": "published", "grader": "math"})
    assert caught.value.kind == "spec"
    assert from_fields({"grader": "exact"}).grader == "exact"
