"""Durations and amounts in words."""

from __future__ import annotations


def clock(seconds: float) -> str:
    """Seconds as mm:ss, or h:mm:ss from an hour on."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours > 0 else f"{minutes:02d}:{rest:02d}"


def count(amount: int, noun: str) -> str:
    """A number and its noun: "1 pivot", "2,000 pivots"."""
    return f"{amount:,} {noun}" if amount == 1 else f"{amount:,} {noun}s"
