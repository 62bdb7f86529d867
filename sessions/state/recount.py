"""Count a session's estimates again from what every arm wrote: do the pivots of a journal follow from its texts?"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

from sessions.disk import texts
from sessions.errors import RefeedError
from sessions.events import Arm, PassName, Pivot, ProblemClosed
from sessions.state.consistent import require_consistent
from stats.words import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from sessions.disk.texts import ContinuationText, ProbeText, ProblemTexts, TrunkText
    from sessions.events import Event, PassResult, Probe

PASSES: Final[tuple[PassName, ...]] = get_args(PassName)
ARMS: Final[tuple[texts.Arm, ...]] = get_args(texts.Arm)
_HINT: Final = "the journal or the texts were edited; if not, the fault is in refeed-tui: please report it"


class Uncounted(NamedTuple):
    """Pivots that nothing here can count again.

    Attributes:
        missing: whose side file is missing.
        textless: whose problem closed without a side file, as imported ones do.
        unclosed: whose problem has not closed, so that they are no evidence.
    """

    missing: int = 0
    textless: int = 0
    unclosed: int = 0


class Recount(NamedTuple):
    """What was counted again, and what was not.

    Attributes:
        files: side files that are there, with the hash that the journal names.
        missing: side files that the journal names and that are not there.
        pivots: that follow from these files.
        continuations: that these pivots rest on.
        probes: that these pivots rest on.
        uncounted: pivots that were not counted again.
        unnamed: what lies beside the side files and is not named by the journal, in the order of names.
    """

    files: tuple[str, ...]
    missing: tuple[str, ...]
    pivots: int
    continuations: int
    probes: int
    uncounted: Uncounted
    unnamed: tuple[str, ...]


def recount(events: Iterable[Event], folder: Path, k: int) -> Recount:
    """Compare every pivot of a session with the side file that its problem closed with.

    Args:
        events: the journal's, from the first on.
        folder: the session's texts folder.
        k: registered continuations an arm.

    Raises:
        RefeedError: kind "integrity" when a pivot contradicts itself or the spec, or does not follow from its texts, or
            a file was changed; kind "failed" when a file cannot be read; what the events raise.
    """
    there = texts.names(folder)  # asked first: a writer names a file in the journal once it is there
    files, missing = [], []
    pivots = continuations = probes = 0
    uncounted = Uncounted()
    for closed, measured in _problems(events, k):
        if closed is None:
            uncounted = uncounted._replace(unclosed=uncounted.unclosed + len(measured))
        elif not closed.texts:
            uncounted = uncounted._replace(textless=uncounted.textless + len(measured))
        elif texts.NAME.fullmatch(closed.texts) is not None and not texts.is_there(folder, closed.texts):
            missing.append(closed.texts)
            uncounted = uncounted._replace(missing=uncounted.missing + len(measured))
        else:
            written = texts.read(folder, closed.texts, closed.texts_sha256)
            compare(closed, measured, written)
            files.append(closed.texts)
            pivots += len(measured)
            continuations += len(written.continuations)
            probes += len(written.probes)
    unnamed = tuple(sorted(there.difference(files)))
    return Recount(tuple(files), tuple(missing), pivots, continuations, probes, uncounted, unnamed)


def _problems(events: Iterable[Event], k: int) -> Iterator[tuple[ProblemClosed | None, list[Pivot]]]:
    """Ends of attempts at problems, and the pivots of each; at last None with those of attempts that have no end."""
    waiting: dict[tuple[int, int], list[Pivot]] = {}
    for event in events:
        if isinstance(event, Pivot):
            require_consistent(event, k)
            waiting.setdefault((event.problem, event.attempt), []).append(event)
        elif isinstance(event, ProblemClosed):
            yield event, waiting.pop((event.problem, event.attempt), [])
    for pivots in waiting.values():
        yield None, pivots


def compare(closed: ProblemClosed, pivots: Sequence[Pivot], written: ProblemTexts) -> None:
    """Count again: right, capped and generated tokens of every arm in every pass, probes to the last bit, the cut.

    Grades are taken as they stand in the texts.

    Args:
        closed: the end of an attempt at a problem.
        pivots: of this attempt.
        written: its side file.

    Raises:
        RefeedError: kind "integrity", naming the place and what differs.
    """
    where = f"problem {closed.problem}, attempt {closed.attempt}"
    _same(where, "problem and attempt", (closed.problem, closed.attempt), (written.problem, written.attempt))
    trunks = {trunk.rollout: trunk for trunk in written.trunks}
    heard = _Heard(written)
    places = {(pivot.rollout, pivot.position) for pivot in pivots}
    for rollout, position in sorted(places ^ heard.places):
        alone = "the journal" if (rollout, position) in places else "its texts"
        raise RefeedError(
            "integrity", f"{where}: the pivot at rollout {rollout}, position {position} is in {alone} alone", _HINT
        )
    for pivot in pivots:
        there = f"{where}, rollout {pivot.rollout}, position {pivot.position}"
        _compare_cut(there, pivot, trunks.get(pivot.rollout), len(written.prompt))
        for name, result in zip(PASSES, (pivot.exact1, pivot.exact2, pivot.refeed), strict=True):
            _compare_pass(f"{there}, {name}", pivot.k, result, [heard.arm(name, pivot, arm) for arm in ARMS])


class _Heard:
    """What was written, by place."""

    def __init__(self, written: ProblemTexts) -> None:
        self.places: set[tuple[int, int]] = set()
        self._continuations: dict[tuple[str, int, int, str], list[ContinuationText]] = {}
        self._probes: dict[tuple[str, int, int, str], list[ProbeText]] = {}
        for one in written.continuations:
            self._continuations.setdefault((one.name, one.rollout, one.position, one.arm), []).append(one)
            self.places.add((one.rollout, one.position))
        for probe in written.probes:
            self._probes.setdefault((probe.name, probe.rollout, probe.position, probe.arm), []).append(probe)
            self.places.add((probe.rollout, probe.position))

    def arm(self, name: PassName, pivot: Pivot, arm: texts.Arm) -> tuple[list[int], Arm]:
        """Numbers of the arm's continuations, and what they count to."""
        place = (name, pivot.rollout, pivot.position, arm)
        mine = self._continuations.get(place, [])
        probes = [_probe(one) for one in self._probes.get(place, [])]
        if len(probes) > 1:
            there = f"rollout {pivot.rollout}, position {pivot.position}, {name}, {arm} arm"
            raise RefeedError("integrity", f"{there}: its texts have {count(len(probes), 'probe')} instead of 1", _HINT)
        return [one.k for one in mine], Arm(
            correct=sum(one.correct for one in mine),
            capped=sum(one.finish == "length" for one in mine),
            tokens=sum(len(one.tokens) for one in mine),
            probe=probes[0] if probes else None,
        )


def _probe(one: ProbeText) -> Probe:
    try:
        return texts.probe_of(one.tokens, one.logprobs)
    except (IndexError, OverflowError, struct.error) as error:
        where = f"rollout {one.rollout}, position {one.position}, {one.name}"
        raise RefeedError(
            "integrity", f"{where}: its texts have a probe that no engine gives: {error}", _HINT
        ) from None


def _compare_cut(there: str, pivot: Pivot, trunk: TrunkText | None, prompt: int) -> None:
    index = pivot.position - prompt
    if trunk is None or not 0 <= index < min(len(trunk.tokens), len(trunk.sampled), len(trunk.top)):
        raise RefeedError("integrity", f"{there}: its texts have no trunk that reaches so far", _HINT)
    _same(there, "generated index", pivot.index, index)
    _same(there, "sampled token", (pivot.actual, pivot.actual_logprob), (trunk.tokens[index], trunk.sampled[index]))
    others = {token: logprob for token, logprob in trunk.top[index] if token != pivot.actual}
    given = None if pivot.alternative is None else others.get(pivot.alternative)
    _same(there, "alternative's logprob", pivot.alternative_logprob, given)


def _compare_pass(there: str, k: int, result: PassResult, counted: list[tuple[list[int], Arm]]) -> None:
    for name, said, (numbers, found) in zip(ARMS, (result.actual, result.alternative), counted, strict=True):
        _same(f"{there}, {name} arm", "count of continuations", k, len(numbers))
        for at, number in enumerate(numbers):
            _same(f"{there}, {name} arm", "numbering of continuations", at, number)
        for field in Arm.__struct_fields__:
            _same(f"{there}, {name} arm", field, getattr(said, field), getattr(found, field))
    one, other = (0 if found.correct is None else found.correct for _, found in counted)
    _same(there, "net", result.net, one - other)


def _same(where: str, what: str, journal: object, written: object) -> None:
    if journal != written:
        raise RefeedError(
            "integrity", f"{where}: {what} is {journal!r} in the journal, but {written!r} by its texts", _HINT
        )
