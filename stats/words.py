"""Amounts in words, for the reasons that statistics give and for everything above them."""

from __future__ import annotations


def count(amount: int, noun: str) -> str:
    """A number and its noun: "1 pivot", "2,000 pivots"."""
    return f"{amount:,} {noun}" if amount == 1 else f"{amount:,} {noun}s"
