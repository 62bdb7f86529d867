"""One pivot in full: the text around it, its tokens, both arms of every pass side by side, probes, cache proof."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Final

from rich.cells import set_cell_size

from sessions.numbers import nats
from sessions.text import lines as safe_lines
from sessions.text import one_line
from tui.dashboard.words import change, heading, signed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sessions.disk.texts import ContinuationText, ProblemTexts, TrunkText
    from sessions.events import Pivot, Probe
    from tui.dashboard.style import Glyphs, Ink, Line

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


CONTEXT: Final = 600


def inspector(pivot: Pivot, texts: ProblemTexts | None, missing: str, width: int, glyphs: Glyphs) -> tuple[Line, ...]:
    """Everything that is known of a pivot.

    Args:
        pivot: its event.
        texts: what its problem wrote; None when there is no side file.
        missing: why there is none.
        width: cells.
        glyphs: marks of this terminal.
    """
    out: list[Line] = []
    out += _head(pivot)
    out += [(), heading("Estimates", width, glyphs), *_estimates(pivot)]
    out += [(), heading("Cache proof", width, glyphs), *_cache(pivot, width)]
    out += [(), heading("Greedy probes", width, glyphs), *_probes(pivot, texts)]
    if texts is None:
        return (*out, (), heading("Texts", width, glyphs), ((missing, "warn"),))
    trunk = next((one for one in texts.trunks if one.rollout == pivot.rollout), None)
    if trunk is not None:
        out += [(), heading("Tokens at this place", width, glyphs), *_tokens(pivot, trunk)]
        out += [(), heading("Text around it", width, glyphs), *_around(texts, pivot, trunk, width)]
    out += [
        (),
        heading("Continuations", width, glyphs, "first differing token marked by |"),
        *arms(pivot, texts, width),
    ]
    return tuple(out)


def _head(pivot: Pivot) -> list[Line]:
    grade = "right" if pivot.correct else "wrong"
    place = f"Pivot: task {pivot.problem}, rollout {pivot.rollout} ({grade}), position {pivot.position}"
    rank = f", sampled token's rank {pivot.rank}" if pivot.rank is not None else ""
    return [
        ((place, "strong"),),
        ((f"generated token {pivot.index}, attempt {pivot.attempt}, event {pivot.seq}", "muted"),),
        _token("actual     ", pivot.actual, pivot.actual_text, pivot.actual_logprob),
        _token("alternative", pivot.alternative, pivot.alternative_text, pivot.alternative_logprob),
        ((f"margin {pivot.margin:.6g} nats{rank}", "plain"),),
    ]


def _token(name: str, token: int | None, text: str, logprob: float | None) -> Line:
    if token is None:
        return ((f"{name} not recorded", "muted"),)
    return (
        (f"{name} ", "muted"),
        (f'"{one_line(text, 60)}"', "strong"),
        (f" (token {token}, logprob {nats(logprob) if logprob is None else f'{logprob:.6g}'})", "muted"),
    )


def _estimates(pivot: Pivot) -> Iterator[Line]:
    yield ((f"{'pass':<9}{'right, actual':>14}{'alternative':>13}{'net':>6}{'credit':>9}  {'sign':<8}", "title"),)
    first = pivot.exact1.net
    for name, result in zip(PASSES, (pivot.exact1, pivot.exact2, pivot.refeed), strict=True):
        actual, other = result.actual.correct, result.alternative.correct
        right = "-" if actual is None else f"{actual}/{pivot.k}"
        wrong = "-" if other is None else f"{other}/{pivot.k}"
        sign = "" if name == "exact-1" else change(first, result.net)
        capped = result.actual.capped + result.alternative.capped
        note = f"{capped} capped" if capped > 0 else ""
        text = f"{name:<9}{right:>14}{wrong:>13}{signed(result.net):>6}{result.net / pivot.k:>+9.3f}  {sign:<9}{note}"
        yield ((text, INKS[name]),)


def _cache(pivot: Pivot, width: int) -> Iterator[Line]:
    cache = pivot.cache
    if cache.state == "not_instrumented":
        yield (("not instrumented: an import carries no cache counts", "warn"),)
        return
    ink: Ink = "good" if cache.state == "verified" else "bad"
    proof = {"ledger": "block ledger", "counts": "cached-token counts"}.get(cache.proof or "", "no proof")
    yield ((f"{'VERIFIED' if cache.state == 'verified' else ' FAILED '}", ink), (f" by {proof}", "plain"))
    if cache.reason:
        for part in textwrap.wrap(one_line(cache.reason, 600), width):
            yield ((part, "strong"),)
    if cache.hit_tokens is not None:
        decode = "decode-time part not known" if cache.decode_tokens is None else f"{cache.decode_tokens} from decode"
        yield ((f"each exact request had to hit {cache.hit_tokens} tokens ({decode})", "plain"),)
    for name, result in zip(PASSES, (pivot.exact1, pivot.exact2, pivot.refeed), strict=True):
        if result.cached is not None:
            low, high = result.cached
            hit = f"{low}" if low == high else f"{low} to {high}"
            twins = f", {result.twins} hit a sibling's decoded block" if result.twins > 0 else ""
            own = ", stored by its own pass" if name == "re-feed" and high > 0 and cache.state == "verified" else ""
            yield ((f"{name:<9} hit {hit} tokens{twins}{own}", INKS[name]),)


def _probes(pivot: Pivot, texts: ProblemTexts | None) -> Iterator[Line]:
    found = False
    for arm in ("actual", "alternative"):
        base = getattr(pivot.exact1, arm).probe
        for name, result in zip(PASSES, (pivot.exact1, pivot.exact2, pivot.refeed), strict=True):
            probe: Probe | None = getattr(result, arm).probe
            if probe is None:
                continue
            found = True
            yield ((f"{arm:<12}{name:<9}", "muted"), (_probe(probe), INKS[name]))
            if name != "exact-1" and base is not None:
                yield ((" " * 21, "plain"), (_against(probe, base), INKS[name]))
        if texts is not None:
            yield from _departure(pivot, texts, arm)
    for name, result in (("exact-2", pivot.exact2), ("re-feed", pivot.refeed)):
        if result.probe_delta is not None:
            left = {True: "left exact-1's tokens", False: "stayed on exact-1's tokens", None: ""}[result.probe_diverged]
            yield ((f"{name}: published delta {result.probe_delta!r} nats {left}", INKS[name]),)
    if not found:
        yield (("no probe is recorded", "muted"),)


def _probe(probe: Probe) -> str:
    """First logprob to the last bit: the shortest decimal, and the exact hexadecimal."""
    return f"token {probe.first_token} {probe.first_logprob!r} {float(probe.first_logprob).hex()}"


def _against(probe: Probe, base: Probe) -> str:
    """A probe against exact-1's."""
    delta = abs(probe.first_logprob - base.first_logprob)
    same = "first logprob bit-exact" if delta == 0 else f"first logprob off by {delta:.3g}"
    if probe.logprobs and base.logprobs:
        same += ", all logprobs equal" if probe.logprobs == base.logprobs else ", logprobs differ"
    if probe.tokens and base.tokens:
        same += ", same tokens" if probe.tokens == base.tokens else ", TOKENS DIFFER"
    return same


def _departure(pivot: Pivot, texts: ProblemTexts, arm: str) -> Iterator[Line]:
    """Where the re-fed probe leaves exact-1's."""
    mine = {
        probe.name: probe
        for probe in texts.probes
        if (probe.rollout, probe.position, probe.arm) == (pivot.rollout, pivot.position, arm)
    }
    base = mine.get("exact-1")
    for name in ("exact-2", "re-feed"):
        other = mine.get(name)
        if base is None or other is None:
            continue
        place = first_difference(base.tokens, other.tokens)
        if place is not None:
            yield ((f"{'':21}{name} leaves exact-1 at probed token {place + 1} of {len(base.tokens)}", INKS[name]),)


def _tokens(pivot: Pivot, trunk: TrunkText) -> Iterator[Line]:
    if pivot.index >= len(trunk.top):
        yield (("no top-k is recorded here", "muted"),)
        return
    yield (("rank    token       logprob    probability", "title"),)
    for rank, (token, logprob) in enumerate(trunk.top[pivot.index], start=1):
        yield _ranked(pivot, rank, token, logprob)
    listed = any(token == pivot.actual for token, _ in trunk.top[pivot.index])
    if not listed and pivot.actual is not None and pivot.actual_logprob is not None and pivot.rank is not None:
        yield _ranked(pivot, pivot.rank, pivot.actual, pivot.actual_logprob)


def _ranked(pivot: Pivot, rank: int, token: int, logprob: float) -> Line:
    """One token with its rank, and whether it is one of the pivot's arms."""
    mark = ""
    if token == pivot.actual:
        mark = f' <- actual (sampled) "{one_line(pivot.actual_text, 40)}"'
    elif token == pivot.alternative:
        mark = f' <- alternative (forced) "{one_line(pivot.alternative_text, 40)}"'
    text = f"{rank:>4}  {token:>8}  {logprob:>12.6f}  {math.exp(min(0.0, logprob)):>10.4%}{mark}"
    return ((text, "strong" if mark else "plain"),)


def _around(texts: ProblemTexts, pivot: Pivot, trunk: TrunkText, width: int) -> Iterator[Line]:
    if texts.question:
        for part in broken(texts.question[:CONTEXT], width - 2):
            yield (("  ", "plain"), (part, "muted"))
        yield ((f"  right answer: {one_line(texts.answer, 80)}", "muted"),)
    yield (
        (f"rollout {trunk.rollout}, {len(trunk.tokens)} tokens; the pivot is generated token {pivot.index}:", "title"),
    )
    share = pivot.index / max(1, len(trunk.tokens))
    middle = round(share * len(trunk.text))
    place = _place(trunk.text, pivot.actual_text, middle)
    before, after = trunk.text[:place], trunk.text[place + len(pivot.actual_text) :]
    marked = f"{before[-CONTEXT:]}>>{pivot.actual_text}<<{after[:CONTEXT]}"
    for part in broken(marked, width - 2):
        yield (("  ", "plain"), (part, "plain"))


def _place(text: str, token: str, near: int) -> int:
    """Where the pivot's token most likely stands in its trunk's text: the occurrence nearest to its share of tokens."""
    if not token:
        return near
    places = []
    start = text.find(token)
    while start >= 0:
        places.append(start)
        start = text.find(token, start + 1)
    return min(places, key=lambda place: abs(place - near), default=near)
