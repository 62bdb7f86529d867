"""Amounts in words, for the reasons that statistics give and for everything above them."""

from __future__ import annotations


def count(amount: int, noun: str) -> str:
    """A number and its noun: "1 pivot", "2,000 pivots"."""
    return f"{amount:,} {noun}" if amount == 1 else f"{amount:,} {noun}s"


def beyond(value: float, cut: float) -> str:
    """A difference of fractions in points, e.g. "+1.5pp", with as many digits as keep it on its side of a cut.

    Args:
        value: the difference.
        cut: what it is compared with; +4.98pp beside a cut of 5 is not "+5.0pp".
    """
    texts = [f"{100 * value:+.{digits}f}pp" for digits in range(1, 7)]
    apart = (
        text for text in texts if (float(text[:-2]) < 100 * cut) == (value < cut) and float(text[:-2]) != 100 * cut
    )
    return next(apart, texts[0])
