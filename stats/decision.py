"""The registered decision rule: two thresholds on the point estimate of the pooled excess."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

from stats.words import beyond

INCLUDES_0: Final = "interval includes 0"

Verdict = Literal["load-bearing", "negligible", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Decision:
    """The rule and its verdict; None, with `why`, where there is no pooled excess.

    Attributes:
        rule: in words.
        negligible, load_bearing: its thresholds.
    """

    rule: str
    negligible: float
    load_bearing: float
    verdict: Verdict | None
    why: str | None = None


def decide(excess: int, n: int, *, negligible: float = 0.02, load_bearing: float = 0.05) -> Decision:
    """Apply the rule to `excess` / `n`; the interval stands beside it and takes no part.

    Args:
        excess: re-feed minus floor disagreements over the common eligible set.
        n: eligible pivots.
        negligible: strictly below it the effect is "negligible".
        load_bearing: strictly above it the effect is "load-bearing".

    Raises:
        ValueError: the thresholds are out of order.
    """
    if not negligible <= load_bearing:
        message = f"decision thresholds out of order: negligible below {negligible}, load-bearing above {load_bearing}"
        raise ValueError(message)
    rule = f"pooled excess above {load_bearing:.6g} load-bearing, below {negligible:.6g} negligible"
    if n == 0:
        return Decision(rule, negligible, load_bearing, None, "no eligible pivots")
    # the shortest decimal of a float is what was registered: 0.05 means 5/100, not the float nearest to it
    value = Fraction(excess, n)
    verdict: Verdict = "inconclusive"
    if value > Fraction(repr(float(load_bearing))):
        verdict = "load-bearing"
    elif value < Fraction(repr(float(negligible))):
        verdict = "negligible"
    return Decision(rule, negligible, load_bearing, verdict)


def unsettled(decision: Decision, ci95: tuple[float, float] | None) -> str:
    """What must stand beside a verdict that the point estimate alone gives; empty where the interval agrees.

    The registered rule looks at the point estimate (protocol, "Decision"); a reader looks at the interval too, and at
    whether it stays on the verdict's side of the registered threshold.

    Args:
        decision: by the rule.
        ci95: of the pooled excess; None where there is none.
    """
    short = doubt(decision, ci95)
    if not short:
        return ""
    if ci95 is None:
        return "by the point estimate alone: it has no interval"
    where = short if short == INCLUDES_0 else f"interval reaches {short}"
    return f"by the point estimate; its {where}"


def doubt(decision: Decision, ci95: tuple[float, float] | None) -> str:
    """The same as `unsettled` in a few characters, to stand beside the interval."""
    if decision.verdict is None:
        return ""
    if ci95 is None:
        return "no interval"
    low, high = ci95
    if decision.verdict == "load-bearing" and low <= decision.load_bearing:
        return INCLUDES_0 if low <= 0 <= high else f"down to {beyond(low, decision.load_bearing)}"
    if decision.verdict == "negligible" and high >= decision.negligible:
        return f"up to {beyond(high, decision.negligible)}"
    return ""
