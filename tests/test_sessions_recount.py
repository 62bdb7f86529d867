from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from sessions.disk.texts import read
from sessions.errors import RefeedError
from sessions.events import Pivot, ProblemClosed
from sessions.state.recount import compare, recount
from tests.helpers.campaigns import SMALL, conduct, registered
from tests.helpers.session_events import closed
from tests.helpers.session_texts import example, its_pivot

if TYPE_CHECKING:
    from pathlib import Path

    from sessions.disk.texts import ProblemTexts

CLOSED = closed(7, attempt=2)


def changed(record: Any, path: str, value: object) -> Any:
    """A record with another value at a path of attributes and places: "probes.0.tokens"."""
    head, _, rest = path.partition(".")
    if head.isdecimal():
        place = int(head)
        new = changed(record[place], rest, value) if rest else value
        return (*record[:place], new, *record[place + 1 :])
    return msgspec.structs.replace(record, **{head: changed(getattr(record, head), rest, value) if rest else value})


def test_a_real_campaign_s_pivots_follow_from_its_texts(tmp_path: Path) -> None:
    """Every pivot that the engine measured is counted again, with 2K continuations and 2 probes a pass."""
    record = conduct(registered(SMALL, problems=3, rollouts=3), tmp_path)
    found = recount(record.events, tmp_path, SMALL.k)
    pivots = len(record.of(Pivot))
    assert pivots > 0
    assert found[2:5] == (pivots, 3 * 2 * SMALL.k * pivots, 3 * 2 * pivots)
    assert (len(found.files), found.missing, found.uncounted, found.unnamed) == (3, (), (0, 0, 0), ())


def test_what_was_not_counted_again_is_told_by_its_cause(tmp_path: Path) -> None:
    """A side file that is missing, a problem without one, one that did not close; and what no event names."""
    record = conduct(registered(SMALL, problems=4, rollouts=3), tmp_path)
    first, second, third, last = record.of(ProblemClosed)
    assert all(end.pivots > 0 for end in (first, second, third, last))
    (tmp_path / first.texts).unlink()
    bare = msgspec.structs.replace(second, texts="", texts_sha256="")
    events = [bare if event is second else event for event in record.events if event is not third]
    (tmp_path / ".half-written").touch()
    found = recount(events, tmp_path, SMALL.k)
    assert found.uncounted == (first.pivots, second.pivots, third.pivots)
    assert found.pivots == last.pivots
    assert found.unnamed == (second.texts, third.texts)


def test_a_real_pivot_with_another_count_is_found(tmp_path: Path) -> None:
    """One continuation more or less, in any arm of any pass, is no longer what the texts say."""
    record = conduct(registered(SMALL, problems=1, rollouts=3), tmp_path)
    (end,) = record.of(ProblemClosed)
    pivots = record.of(Pivot)
    written = read(tmp_path, end.texts, end.texts_sha256)
    compare(end, pivots, written)
    for name in ("exact1", "exact2", "refeed"):
        for arm in ("actual", "alternative"):
            right = getattr(getattr(pivots[0], name), arm).correct
            edited = changed(pivots[0], f"{name}.{arm}.correct", right + 1)
            with pytest.raises(RefeedError, match=f"{arm} arm: correct is {right + 1} in the journal, but {right} by"):
                compare(end, [edited, *pivots[1:]], written)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("exact1.net", 1, "exact-1: net is 1 in the journal, but 2 by its texts"),
        ("exact2.actual.capped", 0, "exact-2, actual arm: capped is 0"),
        ("refeed.alternative.tokens", 4, "re-feed, alternative arm: tokens is 4"),
        ("refeed.actual.probe.logprobs", "0" * 16, "re-feed, actual arm: probe is"),
        ("exact1.actual.probe.tokens", "0" * 16, "exact-1, actual arm: probe is"),
        ("exact1.actual.probe", None, "exact-1, actual arm: probe is None"),
        ("k", 3, "count of continuations is 3 in the journal, but 2 by its texts"),
        ("k", 2**31, "count of continuations is 2147483648 in the journal, but 2 by its texts"),
        ("index", 0, "generated index is 0"),
        ("actual", 5, "sampled token is"),
        ("actual_logprob", -1.25, "sampled token is"),
        ("alternative", 5, "alternative's logprob is"),
        ("alternative_logprob", -1.25, "alternative's logprob is"),
        ("rollout", 1, "the pivot at rollout 0, position 4 is in its texts alone"),
        ("position", 3, "the pivot at rollout 0, position 3 is in the journal alone"),
    ],
)
def test_a_pivot_that_its_texts_do_not_give_is_named(path: str, value: object, said: str) -> None:
    """Each of its numbers is held against what was written."""
    with pytest.raises(RefeedError, match=said) as caught:
        compare(CLOSED, [changed(its_pivot(), path, value)], example())
    assert caught.value.kind == "integrity"
    assert "problem 7, attempt 2" in caught.value.message


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("problem", 8, "problem and attempt is"),
        ("continuations", (), "count of continuations is 2 in the journal, but 0"),
        ("continuations.0.correct", False, "exact-1, actual arm: correct is 2 in the journal, but 1 by its texts"),
        ("continuations.0.k", 1, "numbering of continuations is 0 in the journal, but 1"),
        ("continuations.11.finish", "stop", "re-feed, alternative arm: capped is 1 in the journal, but 0 by its texts"),
        ("probes.0.logprobs", (-0.5000001,), "exact-1, actual arm: probe is"),
        ("probes.0.logprobs", (1e300,), "a probe that no engine gives"),
        ("probes.0.tokens", (2**40,), "a probe that no engine gives"),
        ("probes.0.tokens", (), "a probe that no engine gives"),
        ("probes.0.name", "exact-2", "exact-1, actual arm: probe is"),
        ("probes.1.arm", "actual", "exact-1, actual arm: its texts have 2 probes instead of 1"),
        ("trunks", (), "no trunk that reaches so far"),
        ("trunks.0.sampled", (-0.25,), "no trunk that reaches so far"),
        ("prompt", (1, 2, 3, 4, 5), "no trunk that reaches so far"),
        ("prompt", (1, 2), "no trunk that reaches so far"),
    ],
)
def test_texts_that_are_not_the_pivot_s_are_named(path: str, value: object, said: str) -> None:
    """A stranger's side file ends in one clear error, whatever it holds."""
    written: ProblemTexts = changed(example(), path, value)
    with pytest.raises(RefeedError, match=said) as caught:
        compare(CLOSED, [its_pivot()], written)
    assert caught.value.kind == "integrity"


def test_probes_that_the_journal_does_not_have_are_found() -> None:
    """Two of them are not none: what is reported as counted again has its place in a pivot."""
    bare = its_pivot()
    for path in (f"{name}.{arm}.probe" for name in ("exact1", "exact2", "refeed") for arm in ("actual", "alternative")):
        bare = changed(bare, path, None)
    for times in (1, 2):
        written = changed(example(), "probes", example().probes * times)
        with pytest.raises(RefeedError, match="probe"):
            compare(CLOSED, [bare], written)
    compare(CLOSED, [bare], changed(example(), "probes", ()))


def test_what_no_pivot_stands_for_is_an_error_too() -> None:
    """Texts of a pivot that the journal leaves out would mean that a measured pivot was dropped in silence."""
    compare(CLOSED, [its_pivot()], example())
    with pytest.raises(RefeedError, match="the pivot at rollout 0, position 4 is in its texts alone"):
        compare(CLOSED, [], example())


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("k", 3, "line 1 says k = 3, but 2 was registered"),
        ("exact1.net", 1, "line 1 says net 1 with 2 and 0 of 2 right"),
        ("refeed.net", -3, "line 1 says net -3 of 2 continuations an arm"),
    ],
)
def test_a_pivot_that_contradicts_itself_is_found_without_texts(
    path: str, value: object, said: str, tmp_path: Path
) -> None:
    """What no report can count is not intact, whether or not its texts were copied along."""
    with pytest.raises(RefeedError, match=said):
        recount([changed(changed(its_pivot(), "seq", 0), path, value), CLOSED], tmp_path, 2)


def test_a_link_is_no_missing_text(tmp_path: Path) -> None:
    """A copy may leave texts out; a link to nowhere, or in place of their folder, is nothing that a copy leaves."""
    end = msgspec.structs.replace(CLOSED, texts="problem-7-attempt-2.json.gz", texts_sha256="0" * 64)
    folder = tmp_path / "texts"
    assert recount([its_pivot(), end], folder, 2).missing == (end.texts,)
    folder.symlink_to(tmp_path / "nowhere")
    with pytest.raises(RefeedError, match="is not a plain folder"):
        recount([its_pivot(), end], folder, 2)
    folder.unlink()
    folder.mkdir()
    (folder / end.texts).symlink_to(tmp_path / "nowhere")
    with pytest.raises(RefeedError, match="is not a regular file"):
        recount([its_pivot(), end], folder, 2)


def test_pivots_of_an_attempt_that_did_not_close_are_left_out(tmp_path: Path) -> None:
    """Only what is evidence has texts; a missing file is counted and compared with nothing."""
    end = msgspec.structs.replace(CLOSED, texts="problem-7-attempt-2.json.gz", texts_sha256="0" * 64)
    reopened = msgspec.structs.replace(its_pivot(), attempt=1)
    found = recount([reopened, its_pivot(), end], tmp_path, 2)
    assert found == ((), ("problem-7-attempt-2.json.gz",), 0, 0, 0, (1, 0, 1), ())
