"""Is exact 1 faithful to its trunk? Its first greedy token against the logprobs that the trunk itself recorded there.

Cache bookkeeping says whose blocks a request resumed and cannot see what is in them. The actual arm continues the
trunk, so the trunk's decode step at the next index is what exact 1's probe must predict. Source: protocol, "Verified".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.protocol.passes import CheckFailure
from sessions.events import Fidelity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.backend import Completion
    from engine.protocol.passes import Cut, PassPlan

# A problem's pivots may be off by more than this in up to half of them. Published bf16 replicas pass it about once in
# a hundred pivots, so one pivot alone never fails its problem by this rule.
OFTEN_NATS: Final = 0.25
FEWEST_OFF: Final = 2


def fidelity(cut: Cut, probe: Completion) -> Fidelity:
    """Compare the first token of an actual-arm probe with the trunk at the index after the pivot.

    Args:
        cut: the pivot, with what its trunk recorded at that index.
        probe: at least one token, with its raw logprob.
    """
    if cut.after is None:
        return Fidelity(argmax="beyond")
    token = probe.tokens[0]
    recorded = dict(cut.after.top)
    if token not in recorded:
        return Fidelity(argmax="outside")
    same = token == cut.after.top[0][0]
    return Fidelity(argmax="same" if same else "other", delta=abs(recorded[token] - probe.logprobs[0].sampled))


def actual_probes(plan: PassPlan, cuts: Sequence[Cut], completions: Sequence[Completion]) -> list[Completion]:
    """The actual arm's probe of each pivot, in the order of the cuts."""
    found = {
        slot.cut: completion
        for slot, completion in zip(plan.slots, completions, strict=True)
        if slot.arm == "actual" and slot.k is None
    }
    return [found[number] for number in range(len(cuts))]


def check_fidelity(
    plan: PassPlan, cuts: Sequence[Cut], completions: Sequence[Completion], most: float
) -> list[CheckFailure]:
    """Failures of exact 1 against the trunks that it continues: of single pivots, and of a problem that is often off.

    Args:
        plan: exact 1 of a problem.
        cuts: its pivots, as planned.
        completions: of the plan's requests, in order and whole.
        most: registered `fidelity_nats`.
    """
    probes = actual_probes(plan, cuts, completions)
    rows = [(cut, probe, fidelity(cut, probe)) for cut, probe in zip(cuts, probes, strict=True)]
    failures = [
        CheckFailure(plan.problem, probe.id, cut.rollout, cut.site.position, None, None, reason, "pivot", "fidelity")
        for cut, probe, found in rows
        if (reason := _unlike(found, probe, most)) is not None
    ]
    known = [found for _, _, found in rows if found.argmax != "beyond"]
    off = sum(found.delta is None or found.delta > OFTEN_NATS for found in known)
    if off >= FEWEST_OFF and 2 * off > len(known):
        reason = f"exact 1 is over {OFTEN_NATS} nats from its trunk at {off} of {len(known)} pivots"
        failures.append(CheckFailure(plan.problem, "", None, None, None, None, reason, "problem", "fidelity"))
    return failures


def _unlike(found: Fidelity, probe: Completion, most: float) -> str | None:
    if found.argmax == "outside":
        return f"exact 1 continues with token {probe.tokens[0]}, which is not among the trunk's recorded likeliest"
    if found.delta is not None and not found.delta <= most:
        return f"exact 1 is {found.delta:.3f} nats from its trunk where at most {most} may be (fidelity_nats)"
    return None
