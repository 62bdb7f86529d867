"""Texts of a small problem, and the pivot that follows from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import msgspec

from sessions.disk.texts import Arm as ArmName
from sessions.disk.texts import ContinuationText, ProbeText, ProblemTexts, TrunkText
from sessions.events import Arm, PassName, PassResult, Probe
from tests.helpers.session_events import pivot

if TYPE_CHECKING:
    from sessions.events import Pivot

ARMS: tuple[ArmName, ...] = get_args(ArmName)
PASSES: tuple[PassName, ...] = get_args(PassName)
# BLAKE2b-64 of 9 as int32 and of -0.5 as float32, little endian.
NINE = "443a7341c0a530d2"
HALF = "8099608c9407349f"


def example(logprob: float = -0.5) -> ProblemTexts:
    """One trunk of two tokens, cut before the second; two continuations an arm, of which re-feeding wrongs one."""
    return ProblemTexts(
        problem=7,
        attempt=2,
        prompt=(1, 2, 3),
        question="How many?\n",
        answer="18",
        trunks=(
            TrunkText(
                rollout=0,
                tokens=(5, 6),
                text="é\x1b[2J",
                sampled=(-0.25, -1.5),
                top=(((5, -0.25), (8, -2.0)), ((7, -1.0), (6, -1.5))),
            ),
        ),
        continuations=tuple(
            ContinuationText(
                name=name,
                rollout=0,
                position=4,
                arm=arm,
                k=k,
                tokens=(9, 4)[: k + 1],
                text="8",
                finish="length" if k == 1 else "stop",
                correct=arm == "actual" and (name, k) != ("re-feed", 1),
            )
            for name in PASSES
            for arm in ARMS
            for k in range(2)
        ),
        probes=tuple(
            ProbeText(name=name, rollout=0, position=4, arm=arm, tokens=(9,), logprobs=(logprob,))
            for name in PASSES
            for arm in ARMS
        ),
    )


def its_pivot() -> Pivot:
    """The pivot of `example()`."""
    probe = Probe(first_token=9, first_logprob=-0.5, length=1, tokens=NINE, logprobs=HALF)

    def arm(right: int) -> Arm:
        return Arm(correct=right, capped=1, tokens=3, probe=probe)

    exact, refeed = (PassResult(net=net, actual=arm(net), alternative=arm(0)) for net in (2, 1))
    return msgspec.structs.replace(
        pivot(7, position=4, attempt=2, k=2),
        index=1,
        exact1=exact,
        exact2=exact,
        refeed=refeed,
        actual=6,
        alternative=7,
        actual_logprob=-1.5,
        alternative_logprob=-1.0,
    )
