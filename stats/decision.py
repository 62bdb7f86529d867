"""The registered decision rule: two thresholds on the point estimate of the pooled excess."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

NO_INTERVAL: Final = "no interval"
INCLUDES_0: Final = "interval includes 0"

Verdict = Literal["load-bearing", "negligible", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Decision:
    """The rule in words and its verdict; None, with `why`, where there is no pooled excess."""

    rule: str
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
        return Decision(rule, None, "no eligible pivots")
    # the shortest decimal of a float is what was registered: 0.05 means 5/100, not the float nearest to it
    value = Fraction(excess, n)
    if value > Fraction(repr(float(load_bearing))):
        return Decision(rule, "load-bearing")
    if value < Fraction(repr(float(negligible))):
        return Decision(rule, "negligible")
    return Decision(rule, "inconclusive")


def unsettled(verdict: Verdict | None, ci95: tuple[float, float] | None) -> str:
    """What must stand beside a verdict that the point estimate alone gives; empty where the interval agrees.

    The registered rule looks at the point estimate (protocol, "Decision"); a reader looks at the interval too.

    Args:
        verdict: by the rule.
        ci95: of the pooled excess; None where there is none.
    """
    short = doubt(verdict, ci95)
    if short == NO_INTERVAL:
        return "by the point estimate alone: it has no interval"
    return "by the point estimate; its interval includes 0" if short == INCLUDES_0 else ""


def doubt(
    verdict: Verdict | None, ci95: tuple[float, float] | None
) -> Literal["", "no interval", "interval includes 0"]:
    """The same as `unsettled` in a few characters."""
    if verdict is None:
        return ""
    if ci95 is None:
        return NO_INTERVAL
    return INCLUDES_0 if verdict == "load-bearing" and ci95[0] <= 0 else ""
