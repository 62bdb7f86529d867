"""What completions say of the engine that made them: was each sampled with its own noise, and under its own arm?

Neither a cached-token count nor a ledger shows a seed that the engine ignored or an arm that it mixed up. These checks
read it from what was generated, where a clean engine is far from what they refuse (docs of each).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from engine.protocol.passes import ARMS, CheckFailure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.backend import Completion
    from engine.protocol.passes import ArmName, CheckName, PassPlan

LONG_ENOUGH: Final = 24  # tokens of a continuation that sampling twice hardly ever repeats
# Arms of which every one repeats one text K times: on the bundled model 0 to 15% of a problem's arms do.
FEWEST_ARMS: Final = 8
# Continuations whose first token differs from exact 1's: none on the embedded engine, 11 to 25% with other seeds.
FEWEST_CHANGED: Final = 8
MOST_CHANGED: Final = 0.1

ByPlace = dict[tuple[int, "ArmName", int | None], "Completion"]


def _by_place(plan: PassPlan, completions: Sequence[Completion]) -> ByPlace:
    slots = zip(plan.slots, completions, strict=True)
    return {(slot.cut, slot.arm, slot.k): completion for slot, completion in slots}


def _failure(plan: PassPlan, reason: str, check: CheckName) -> CheckFailure:
    return CheckFailure(plan.problem, "", None, None, None, None, reason, "problem", check)


def check_alone(plan: PassPlan, completions: Sequence[Completion]) -> list[CheckFailure]:
    """Failures that one pass shows by itself: one noise for all continuations, one token for both arms."""
    rows = _by_place(plan, completions)
    found = (_one_noise(plan, rows), _one_arm(plan, rows))
    return [failure for failure in found if failure is not None]


def check_against(plan: PassPlan, completions: Sequence[Completion], first: Sequence[Completion]) -> list[CheckFailure]:
    """Failures that a later pass shows beside exact 1: other seeds in the replica, or arms that changed places.

    Args:
        plan: of the later pass.
        completions: of its requests, in order and whole.
        first: exact 1's, of the same requests.
    """
    rows, firsts = _by_place(plan, completions), _by_place(plan, first)
    found = (_other_seeds(plan, rows, firsts) if plan.pass_.reads == "trunk" else None, _swapped(plan, rows, firsts))
    return [failure for failure in found if failure is not None]


def _one_noise(plan: PassPlan, rows: ByPlace) -> CheckFailure | None:
    """K continuations of an arm are equal by chance now and then; in every arm of many they had one noise.

    Short ones, as from a cut inside the answer, may well be the only thing to say: they say nothing of seeds.
    """
    seeded = {request.id for request in plan.requests if request.seed is not None}
    texts: dict[tuple[int, str], list[tuple[int, ...]]] = defaultdict(list)
    for (cut, arm, _), done in rows.items():
        if done.id in seeded:
            texts[cut, arm].append(done.tokens)
    several = [of_arm for of_arm in texts.values() if len(of_arm) > 1 and min(map(len, of_arm)) >= LONG_ENOUGH]
    arms = [len(set(of_arm)) == 1 for of_arm in several]
    if len(arms) < FEWEST_ARMS or not all(arms):
        return None
    return _failure(
        plan, f"the continuations of each of {len(arms)} arms are one text: their seeds were not used", "seeds"
    )


def _one_arm(plan: PassPlan, rows: ByPlace) -> CheckFailure | None:
    """Contexts that differ in their last token never give equal logprobs to the last bit, but where all are 0."""
    for cut in {slot.cut for slot in plan.slots}:
        one, other = (rows[cut, arm, None] for arm in ARMS)
        numbers = [[entry.sampled for entry in done.logprobs] for done in (one, other)]
        if one.tokens == other.tokens and numbers[0] == numbers[1] and any(number != 0 for number in numbers[0]):
            return _failure(plan, f"{one.id} and {other.id} are equal to the last bit: both arms had one token", "arms")
    return None


def _other_seeds(plan: PassPlan, rows: ByPlace, firsts: ByPlace) -> CheckFailure | None:
    """One seed gives one first token but where numerics move the sampled number's neighbourhood, which is rare."""
    pairs = [(done.tokens[:1], firsts[place].tokens[:1]) for place, done in rows.items() if place[2] is not None]
    changed = sum(one != other for one, other in pairs)
    if changed < FEWEST_CHANGED or changed <= MOST_CHANGED * len(pairs):
        return None
    reason = f"{changed} of {len(pairs)} continuations begin with another token than in exact 1: other seeds were used"
    return _failure(plan, reason, "seeds")


def _swapped(plan: PassPlan, rows: ByPlace, firsts: ByPlace) -> CheckFailure | None:
    """Probes say, word for word, what exact 1's said under the other arm, more often than under their own."""
    straight = crossed = 0
    for cut in {slot.cut for slot in plan.slots}:
        now = tuple(rows[cut, arm, None].tokens for arm in ARMS)
        before = tuple(firsts[cut, arm, None].tokens for arm in ARMS)
        if before[0] != before[1]:
            straight += now == before
            crossed += now == before[::-1]
    if crossed <= straight:
        return None
    return _failure(plan, f"the probes of {crossed} pivots are those of exact 1's other arm: arms were swapped", "arms")
