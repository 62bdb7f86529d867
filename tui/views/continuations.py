"""What both arms of a pivot wrote, its three passes side by side."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from rich.cells import set_cell_size

from tui.plaintext import lines as safe_lines
from tui.plaintext import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sessions.events import Pivot
    from sessions.texts import ContinuationText, ProblemTexts
    from tui.widgets.ink import Ink, Line


PASSES: Final = ("exact-1", "exact-2", "re-feed")
INKS: Final[dict[str, Ink]] = {"exact-1": "plain", "exact-2": "floor", "re-feed": "refeed"}
SHOWN: Final = 12


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """First place at which two sequences differ, one ending included; None when they are equal."""
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return None if len(one) == len(other) else min(len(one), len(other))


def arms(pivot: Pivot, texts: ProblemTexts, width: int) -> Iterator[Line]:
    """Every graded continuation of a pivot, by arm."""
    mine = [one for one in texts.continuations if (one.rollout, one.position) == (pivot.rollout, pivot.position)]
    if not mine:
        yield (("no continuation is recorded", "muted"),)
        return
    for arm in ("actual", "alternative"):
        text = pivot.actual_text if arm == "actual" else pivot.alternative_text
        yield ((f'{arm} arm: "{one_line(text, 60)}"', "strong"),)
        for k in range(pivot.k):
            yield from _side_by_side([one for one in mine if one.arm == arm and one.k == k], k, width)


def _side_by_side(passes: Iterable[ContinuationText], k: int, width: int) -> Iterator[Line]:
    """One continuation in its three passes; a bar stands before the first token that differs from exact-1's."""
    by_name = {one.name: one for one in passes}
    base = by_name.get("exact-1")
    cells = max(16, (width - 6) // 3 - 1)
    blocks: list[list[str]] = []
    heads: list[str] = []
    for name in PASSES:
        one = by_name.get(name)
        if one is None:
            heads.append(f"{name}: not recorded")
            blocks.append([])
            continue
        grade = "right" if one.correct else "wrong"
        tail = ", capped" if one.finish == "length" else ""
        text, said = one.text, ""
        if base is not None and name != "exact-1":
            place = first_difference(base.tokens, one.tokens)
            said = ", same tokens" if place is None else f", differs at token {place + 1}"
            if place is not None:
                common = _common(base.text, one.text)
                text = f"{text[:common]}|{text[common:]}"
        heads.append(f"{name}: {grade}{tail}{said}")
        blocks.append(broken(text, cells)[:SHOWN])
    yield ()
    yield _row(f"  k{k:<3} ", heads, cells)
    for row in range(max((len(block) for block in blocks), default=0)):
        yield _row(" " * 6, [block[row] if row < len(block) else "" for block in blocks], cells)


def _row(lead: str, parts: Sequence[str], cells: int) -> Line:
    """Three cells of a pass each."""
    padded = (set_cell_size(part, cells) + " " for part in parts)
    return ((lead, "muted"), *((part, INKS[name]) for name, part in zip(PASSES, padded, strict=True)))


def _common(one: str, other: str) -> int:
    """Length of the common beginning of two texts."""
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return min(len(one), len(other))


def broken(text: str, width: int) -> list[str]:
    """Text of a model or a task as safe lines of at most `width` characters."""
    out: list[str] = []
    for one in safe_lines(text):
        out += textwrap.wrap(one, max(8, width), drop_whitespace=False, replace_whitespace=False) or [""]
    return out
