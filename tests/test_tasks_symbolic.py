"""The grader `math`: math-verify on what a solution states last, within bounded time."""

import pytest

from engine.tasks import symbolic
from engine.tasks.grading import check_gold, grade
from sessions.errors import RefeedError

pytest.importorskip("math_verify", reason="the extra `math` is not installed")

EQUAL = [
    (r"\sqrt{51}", r"so \boxed{\sqrt{51}}", r"\boxed{51}"),
    (r"9\pi", r"The answer is $9\pi$.", r"Answer: 9"),
    (r"\frac{\sqrt{2}}{2}", r"\boxed{\frac{1}{\sqrt{2}}}", r"\boxed{\frac{1}{2}}"),
    (r"(3,4)", r"\boxed{(3, 4)}", r"\boxed{(4, 3)}"),
    (r"[0,1)", r"\boxed{[0,1)}", r"\boxed{(0,1)}"),
    (r"(2,\infty)", r"\boxed{(2,\infty)}", r"\boxed{[2,\infty)}"),
    (r"\{1,2\}", r"\boxed{\{2,1\}}", r"\boxed{\{1,3\}}"),
    ("3, 5, 7", "Answer: 3, 5, 7", "Answer: 3, 5"),
    ("x^2+2x+1", r"\boxed{(x+1)^2}", r"\boxed{(x-1)^2}"),
    ("2k", r"\boxed{2k}", r"\boxed{2000}"),
    (r"1 \pm \sqrt{5}", r"\boxed{1 \pm \sqrt{5}}", r"\boxed{1 + \sqrt{5}}"),
    (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\boxed{\begin{pmatrix} 1 \\ 2 \end{pmatrix}}", r"\boxed{3}"),
    (r"\text{Evelyn}", r"\boxed{\text{Evelyn}}", r"\boxed{\text{Briana}}"),
    (r"90^\circ", r"\boxed{90}", r"\boxed{60^\circ}"),
    ("18", "Answer: 18.00", "Answer: 180"),
    ("14", "Answer: 14\n\nQuestion: b?\nAnswer: 11", "Answer: 11\n\nQuestion: b?\nAnswer: 14"),
    ("14", r"\boxed{7} then <answer>14</answer>", r"\boxed{14} no, \boxed{7}"),
]


@pytest.mark.parametrize(("gold", "right", "wrong"), EQUAL)
def test_math_tells_equal_answers_from_others(gold: str, right: str, wrong: str) -> None:
    """Each gold is accepted, one text is right and another wrong."""
    check_gold(gold, "math")
    assert grade(right, gold, "solution", "math")
    assert not grade(wrong, gold, "solution", "math")


@pytest.mark.parametrize("gold", ["", r"\frac{1", "?!", "9^{9^{9}}"])
def test_a_gold_that_math_cannot_read_is_refused(gold: str) -> None:
    """A gold that cannot be compared with anything is refused."""
    with pytest.raises(RefeedError) as caught:
        check_gold(gold, "math")
    assert caught.value.kind == "task"


@pytest.mark.parametrize(
    "answer", ["9^{9^{9}}", "9**9**9", "99999999!", "9^{99999}", "1" * 299, r"\frac{" * 50, "(" * 10_000]
)
def test_hostile_answers_are_wrong_and_not_computed(answer: str) -> None:
    """Towers, huge factorials and unclosed braces grade as wrong; the test's own time limit bounds them."""
    assert not grade(f"Answer: {answer}", "5", "solution", "math")


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where math-verify is absent, the error says how to install it."""
    monkeypatch.setitem(__import__("sys").modules, "math_verify", None)
    symbolic._parsed.cache_clear()
    with pytest.raises(RefeedError, match=r"\[math\]") as caught:
        check_gold("17", "math")
    assert caught.value.kind == "task"
