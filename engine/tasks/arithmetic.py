"""Generated word problems of 3 to 6 steps, with worked solutions: the bundled model's task.

A problem is a skeleton (a chain of operations and their numbers) told in words. The skeletons are divided in two by a
hash of their content: one class in sixteen is for audits, the others are for training. A training problem can so never
have the chain of an audit problem, whatever its wording and whoever drew it.
"""

from __future__ import annotations

import hashlib
import random
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeVar

from engine.tasks import arithmetic_words as words
from engine.tasks.task import INSTRUCTION, Problem, check_index

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

VERSION: Final = "arithmetic-1"
AUDIT_PROBLEMS: Final = 100_000
AUDIT_SHARE: Final = 16
DIGEST_PROBLEMS: Final = 64
SMALLEST: Final = 2
LARGEST: Final = 9_999
LARGEST_PRICE: Final = 99_999
MAX_FACTOR: Final = 79
MIN_STEPS: Final = 3
MAX_STEPS: Final = 6
SPLIT_SHARE: Final = 0.35
SPLIT_PRICE_SHARE: Final = 0.6
LINK_SHARE: Final = 0.5
BARE_SHARE: Final = 0.5

_T = TypeVar("_T")

Op = Literal["start", "add", "sub", "add_product", "sub_product", "times", "price", "share"]
_FEW: Final = 10
_FEW_FOR_PRODUCT: Final = 40
_TWO_CALCULATIONS: Final = ("add_product", "sub_product")


class Step(NamedTuple):
    """One link of a skeleton: an operation on the running value and its numbers; `b` is 1 where unused."""

    op: Op
    a: int
    b: int


class Worked(NamedTuple):
    """A problem with its solution, as a model is trained on it.

    Attributes:
        question: without the instruction.
        solution: one sentence a step, and a last line "Answer: N".
        answer: the right number.
        skeleton: the chain that decides whether this is a training or an audit problem.
    """

    question: str
    solution: str
    answer: int
    skeleton: tuple[Step, ...]


class _Draw:
    """Choices out of `random.Random.random`, the one method that Python promises to keep for a seed."""

    def __init__(self, key: str) -> None:
        """Seed from all of `key`."""
        self._random = random.Random(int.from_bytes(hashlib.sha256(key.encode()).digest(), "big")).random

    def below(self, n: int) -> int:
        """An integer of 0..n-1."""
        return int(self._random() * n)

    def between(self, low: int, high: int) -> int:
        """An integer of low..high."""
        return low + int(self._random() * (high - low + 1))

    def pick(self, items: Sequence[_T]) -> _T:
        """One of `items`."""
        return items[int(self._random() * len(items))]

    def chance(self, share: float) -> bool:
        """True in that share of the draws."""
        return self._random() < share


def evaluate(skeleton: Sequence[Step]) -> int:
    """The running value after all steps of a skeleton."""
    value = 0
    for step in skeleton:
        value = _apply(value, step)
    return value


def _apply(value: int, step: Step) -> int:
    """The running value after one more step."""
    match step.op:
        case "start" | "add" | "add_product":
            return value + step.a * step.b
        case "sub" | "sub_product":
            return value - step.a * step.b
        case "times" | "price":
            return value * step.a
        case "share":
            return value // step.a


def is_audit(skeleton: Sequence[Step]) -> bool:
    """Whether a chain belongs to the audits: decided by its content alone, so the two ranges are disjoint."""
    text = ";".join(f"{op} {a} {b}" for op, a, b in skeleton)
    return hashlib.blake2b(text.encode(), digest_size=8).digest()[0] % AUDIT_SHARE == 0


def _draw_skeleton(draw: _Draw) -> tuple[Step, ...]:
    """A chain of MIN_STEPS to MAX_STEPS calculations whose values all lie in 2..LARGEST; products count as two."""
    while True:
        left = draw.between(MIN_STEPS, MAX_STEPS) - 2
        last = draw.pick(("price", "price", "price", "share"))
        steps = [Step("start", draw.between(3, MAX_FACTOR), draw.between(3, MAX_FACTOR))]
        value = steps[0].a * steps[0].b
        while left > 0:
            step = _draw_event(draw, value, left)
            left -= 2 if step.op in _TWO_CALCULATIONS else 1
            steps.append(step)
            value = _apply(value, step)
        if last == "price":
            steps.append(Step("price", draw.between(11, MAX_FACTOR), 1))
        else:
            steps = _make_divisible(steps, draw.between(2, 19))
        if _fits(steps):
            return tuple(steps)


def _fits(steps: Sequence[Step]) -> bool:
    """Whether a chain has a permitted length and no number or value outside its range."""
    count = sum(2 if step.op in _TWO_CALCULATIONS else 1 for step in steps)
    value = 0
    for step in steps:
        value = _apply(value, step)
        largest = LARGEST_PRICE if step.op == "price" else LARGEST
        if not SMALLEST <= value <= largest or step.a < SMALLEST:
            return False
        if step.op in _TWO_CALCULATIONS and step.b < SMALLEST:
            return False
    return MIN_STEPS <= count <= MAX_STEPS


def _draw_event(draw: _Draw, value: int, left: int) -> Step:
    """One step in the middle of a chain, of at most `left` calculations, that leaves the value at 2 or more."""
    kind: Op = draw.pick(("add", "sub", "add_product", "sub_product", "times") if left > 1 else ("add", "sub", "times"))
    if kind == "times" and 3 * value > LARGEST:
        kind = "sub"
    if kind == "sub_product" and value < _FEW_FOR_PRODUCT:
        kind = "add_product"
    if kind == "sub" and value < _FEW:
        kind = "add"
    match kind:
        case "sub":
            return Step(kind, draw.between(2, min(value - 2, 399)), 1)
        case "add_product":
            return Step(kind, draw.between(2, 19), draw.between(3, MAX_FACTOR))
        case "sub_product":
            a = draw.between(2, 19)
            return Step(kind, a, draw.between(1, max(1, min(MAX_FACTOR, (value - 2) // a))))
        case "times":
            return Step(kind, draw.between(2, 3), 1)
        case _:
            return Step("add", draw.between(2, 399), 1)


def _make_divisible(steps: list[Step], parts: int) -> list[Step]:
    """The chain with a last step that shares equally, after one that makes the value divisible where it is not."""
    rest = evaluate(steps) % parts
    if rest:
        op, a, b = steps[-1]
        if op == "add":
            steps = [*steps[:-1], Step("add", a - rest + parts, b)]
        elif op == "sub":
            steps = [*steps[:-1], Step("sub", a + rest, b)]
        else:
            steps = [*steps, Step("add", parts - rest + parts, 1)]
    return [*steps, Step("share", parts, 1)]


class _Teller:
    """Puts one skeleton into words: the question and its worked solution, from one scene and one person."""

    def __init__(self, draw: _Draw) -> None:
        """Choose the scene and the person."""
        self._draw = draw
        self._scene = draw.pick(words.SCENES)
        self._name, self._pron = draw.pick(words.PEOPLE)

    def tell(self, skeleton: Sequence[Step]) -> tuple[str, str]:
        """The question and the solution."""
        asked: list[str] = []
        told: list[str] = []
        value = 0
        for step in skeleton:
            asked.append(self._ask(step))
            told.extend(self._solve(value, step))
            value = _apply(value, step)
        return " ".join(asked), "\n".join((*self._link(told), f"Answer: {value}"))

    def _frame(self, frame: str, **slots: object) -> str:
        """A frame with its slots filled."""
        scene = self._scene
        return frame.format(
            name=self._name,
            pron=self._pron,
            pron_low=self._pron.lower(),
            units=scene.units,
            one=scene.one,
            boxes=scene.boxes,
            coins=scene.coins,
            **slots,
        )

    def _ask(self, step: Step) -> str:
        """The sentence or sentences of the question that state one step."""
        scene, draw = self._scene, self._draw
        frame = draw.pick(scene.starts if step.op == "start" else words.ASK[step.op])
        gain, lose = draw.pick(scene.gains), draw.pick(scene.losses)
        times = "doubles" if step.a == 2 else "triples"  # noqa: PLR2004 - the meaning of the words
        return self._frame(frame, a=step.a, b=step.b, n=step.a, p=step.a, d=step.a, gain=gain, lose=lose, times=times)

    def _solve(self, value: int, step: Step) -> Iterator[str]:
        """The sentences of the solution for one step on the running value."""
        after = _apply(value, step)
        a, b = step.a, step.b
        match step.op:
            case "start":
                yield self._tell("start", self._product(a, b), step)
            case "add" | "sub":
                sign = "+" if step.op == "add" else "-"
                yield self._tell(step.op, f"{value} {sign} {a} = {after}", step)
            case "add_product" | "sub_product":
                kind, sign = ("add", "+") if step.op == "add_product" else ("sub", "-")
                yield self._tell("product", self._product(a, b), step)
                yield self._tell(kind, f"{value} {sign} {a * b} = {after}", Step("add", a * b, 1))
            case "times":
                yield self._tell("times", f"{value} * {a} = {after}", step)
            case "price":
                yield self._tell("price", self._product(value, a, SPLIT_PRICE_SHARE), step)
            case "share":
                yield self._tell("share", f"{value} / {a} = {after}", step)

    def _tell(self, kind: str, calc: str, step: Step) -> str:
        """One sentence of the solution."""
        frame = self._draw.pick(words.TELL[kind])
        if self._draw.chance(BARE_SHARE):
            frame = frame.replace("{calc} {units}", "{calc}").replace("{calc} {coins}", "{calc}")
        return self._frame(frame, calc=calc, a=step.a, b=step.b, n=step.a, p=step.a, d=step.a)

    def _product(self, a: int, b: int, split_share: float = SPLIT_SHARE) -> str:
        """The calculation a * b, by the tens and ones of b in that share of the harder cases.

        The short way is harder for a small model than the long one: a choice between words that matters.
        """
        ones = b % 10
        if min(a, b) > 10 and ones and self._draw.chance(split_share):  # noqa: PLR2004 - two digits each
            tens = b - ones
            return f"{a} * {b} = ({a} * {tens}) + ({a} * {ones}) = {a * tens} + {a * ones} = {a * b}"
        return f"{a} * {b} = {a * b}"

    def _link(self, told: Sequence[str]) -> Iterator[str]:
        """The sentences with words like "Next, " before some of them."""
        for i, sentence in enumerate(told):
            choices = words.OPENERS if i == 0 else words.CLOSERS if i == len(told) - 1 else words.LINKS
            if self._draw.chance(LINK_SHARE):
                named = sentence.startswith(self._name)
                yield self._draw.pick(choices) + (sentence if named else sentence[0].lower() + sentence[1:])
            else:
                yield sentence


def _work(draw: _Draw, *, audit: bool) -> Worked:
    """The next problem of one of the two classes."""
    skeleton = _draw_skeleton(draw)
    while is_audit(skeleton) != audit:
        skeleton = _draw_skeleton(draw)
    question, solution = _Teller(draw).tell(skeleton)
    return Worked(question, solution, evaluate(skeleton), skeleton)


def audit_problem(index: int) -> Worked:
    """Audit problem `index` with a worked solution; the same for ever within one VERSION."""
    return _work(_Draw(f"{VERSION}|audit|{index}"), audit=True)


def training_stream(seed: int, shard: int) -> Iterator[Worked]:
    """Training problems without end, another stream for each (seed, shard); none has the chain of an audit problem."""
    draw = _Draw(f"{VERSION}|training|{seed}|{shard}")
    while True:
        yield _work(draw, audit=False)


class Arithmetic:
    """The generated task, as campaigns see it: the audit problems."""

    name: Final = "arithmetic"
    instruction: Final = INSTRUCTION

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the version, the instruction-free first problems and their answers.

        Any change of words, numbers or drawing shows in the first DIGEST_PROBLEMS problems.
        """
        problems = (self.problem(index) for index in range(DIGEST_PROBLEMS))
        text = "\0".join((VERSION, *(f"{problem.question}\0{problem.gold}" for problem in problems)))
        return hashlib.sha256(text.encode()).hexdigest()

    def __len__(self) -> int:
        """How many audit problems are numbered."""
        return AUDIT_PROBLEMS

    def problem(self, index: int) -> Problem:
        """Audit problem `index`.

        Raises:
            RefeedError: kind "task" when the index is out of range.
        """
        check_index(self.name, index, AUDIT_PROBLEMS)
        worked = audit_problem(index)
        return Problem(index, worked.question, str(worked.answer))
