from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from sessions.disk.journal import Follower, Journal, read
from sessions.errors import RefeedError
from sessions.events import CacheProof, Ended, Paused
from sessions.spec import CampaignSpec
from sessions.state import summary as module
from sessions.state.fold import fold_all
from sessions.state.summary import Summary, load
from tests.helpers.session_events import closed, engine_ready, opened, pivot

if TYPE_CHECKING:
    from pathlib import Path

    from sessions.events import AnyEvent

DIGEST = "c0" * 32


SPEC = CampaignSpec()


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def refresh(cache: Path, journal: Path, digest: str = DIGEST) -> Summary:
    return module.refresh(cache, journal, digest, SPEC)


def counted(journal: Path, *events: AnyEvent) -> Summary:
    """Summary of a journal of these events."""
    journal.unlink(missing_ok=True)
    with Journal.open(journal, DIGEST) as writer:
        for event in events:
            writer.append(event)
    return refresh(journal.with_name("none") / "summary.json", journal)


def changes(summary: Summary) -> tuple[int, int, int, int]:
    """Evidence, eligible, re-feed and floor changes."""
    common = summary.evidence.common
    return summary.evidence.pivots, common.n, common.refeed.disagree, common.floor.disagree


def test_only_pivots_of_problems_that_closed_measured_count(journal: Path) -> None:
    """Failed pivots, open problems, earlier attempts, and dropped or screened problems give no evidence."""
    failed = CacheProof(state="failed", proof="counts", reason="too few")
    summary = counted(
        journal,
        opened(),
        pivot(0, nets=(1, 0, -1)),
        opened(),
        pivot(0, nets=(1, 1, 1), attempt=2),
        pivot(0, position=161, nets=(1, 0, -1), attempt=2, cache=failed),
        closed(0, 2, attempt=2),
        pivot(1, nets=(1, 0, -1), attempt=2),
        closed(1, 1, attempt=2, outcome="dropped"),
        closed(2, 0, attempt=2, outcome="screened-out"),
        pivot(3, nets=(1, 0, -1), attempt=2),
    )
    assert changes(summary) == (1, 1, 0, 0)
    assert (summary.closed, summary.measured, summary.evidence.informative) == (3, 1, 1)


def test_a_problem_closes_once(journal: Path) -> None:
    """A second closing of a problem changes nothing."""
    once = counted(journal, opened(), pivot(0, nets=(1, 0, 0)), closed(0))
    twice = counted(journal, opened(), pivot(0, nets=(1, 0, 0)), closed(0), pivot(0, nets=(1, 0, 0)), closed(0))
    assert once.evidence == twice.evidence
    assert twice.closed == 1


def test_the_headline_is_the_excess_with_its_parts(journal: Path) -> None:
    """Re-feed rate minus floor rate over eligible pivots; nothing to say without any."""
    assert counted(journal, opened(), pivot(), closed()).headline() == ""
    nets = ((1, 1, -1), (1, 1, 1), (2, 0, 2), (1, 2, 0))
    found = counted(
        journal, opened(), *(pivot(position=160 + at, nets=three) for at, three in enumerate(nets)), closed(0, 4)
    )
    assert found.headline() == "+25.0pp (50.0% vs 25.0%)"


def test_a_summary_of_every_prefix_goes_on_to_the_same_numbers(journal: Path) -> None:
    """A pivot that comes twice, one that fails, problems side by side: wherever a summary stopped, the end is one."""
    failed = CacheProof(state="failed", proof="counts", reason="too few")
    events: list[AnyEvent] = [
        opened(),
        engine_ready(),
        pivot(0, nets=(1, 0, -1)),
        pivot(1, position=170, nets=(0, 0, 1)),
        pivot(0, nets=(1, 0, -1)),
        closed(0, 2),
        pivot(1, position=171, nets=(1, 1, 1)),
        pivot(1, position=172, nets=(1, 1, 1), cache=failed),
        Paused(),
        closed(1, 3),
        pivot(2, nets=(1, 1, 1)),
        opened(),
        pivot(2, attempt=1, nets=(1, 1, 0)),
        closed(2, 1, attempt=1),
        Ended(state="finished", exit_code=0, reason="done"),
    ]
    whole = counted(journal, *events)
    state = fold_all(SPEC, read(journal, DIGEST))
    assert changes(whole) == (4, 4, 3, 1)
    assert (whole.evidence, state.live.common) == (state.totals, whole.evidence.common)
    cache = journal.with_name("summary.json")
    for stop in range(len(events)):
        journal.unlink()
        cache.unlink(missing_ok=True)
        with Journal.open(journal, DIGEST, clock=lambda: (1.0, 1.0)) as writer:
            for event in events[:stop]:
                writer.append(event)
            refresh(cache, journal)
            for event in events[stop:]:
                writer.append(event)
        told = refresh(cache, journal)
        assert (told.evidence, told.done, told.ended, told.engine) == (
            whole.evidence, whole.done, whole.ended, whole.engine
        )  # fmt: skip
        cache.unlink()
        assert refresh(cache, journal) == told


def test_a_stale_summary_reads_only_what_is_new(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache names the byte to go on from; the result is that of a full reading."""
    cache = journal.with_name("summary.json")
    with Journal.open(journal, DIGEST) as writer:
        for event in (opened(), engine_ready(), pivot(0, nets=(1, 0, -1))):
            writer.append(event)
        refresh(cache, journal)
        writer.append(closed(0))
        writer.append(Ended(state="stopped", exit_code=0, reason="crossed"))
    offsets: list[int] = []

    def spy(path: Path, digest: str, *, offset: int, chain: object) -> object:
        offsets.append(offset)
        return Follower(path, digest, offset=offset, chain=chain)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "Follower", spy)
    found = refresh(cache, journal)
    assert len(offsets) == 1, "the cached part was read again"
    assert offsets[0] > 0
    written = cache.stat().st_ino
    assert refresh(cache, journal) == found
    assert cache.stat().st_ino == written, "nothing new, nothing to write"
    cache.unlink()
    assert refresh(cache, journal) == found
    assert (changes(found), found.ended, found.events) == ((1, 1, 1, 1), "stopped", 5)
    assert load(cache, DIGEST) == found


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"{}",
        b"[" * 100_000,
        b'{"digest":"c0"}',
        *(b'{"digest":"%b",%b}' % (DIGEST.encode(), bad) for bad in (b'"offset":-1', b'"events":-1', b'"version":0')),
    ],
)
def test_a_spoiled_cache_is_rebuilt(journal: Path, stored: bytes) -> None:
    """The cache is never trusted over the journal."""
    with Journal.open(journal, DIGEST) as writer:
        writer.append(opened())
    cache = journal.with_name("summary.json")
    cache.write_bytes(stored)
    assert refresh(cache, journal).events == 1
    assert load(cache, DIGEST).events == 1


def test_a_cache_of_another_journal_is_rebuilt(journal: Path) -> None:
    """A cached place that the journal does not continue is not held against the journal."""
    with Journal.open(journal, DIGEST) as writer:
        for _ in range(3):
            writer.append(opened())
    cache = journal.with_name("summary.json")
    cache.write_bytes(msgspec.json.encode(Summary(digest=DIGEST, offset=40, link="ab" * 8, events=1)))
    found = refresh(cache, journal)
    assert (found.events, found.broken) == (3, "")


def test_a_cache_outlives_no_journal(journal: Path) -> None:
    """A list must not show a headline that the report of the same session has no event for."""
    cache = journal.with_name("summary.json")
    with Journal.open(journal, DIGEST) as writer:
        for event in (opened(), pivot(0, nets=(1, 0, -1)), closed(0)):
            writer.append(event)
    assert refresh(cache, journal).measured == 1
    journal.unlink()
    assert refresh(cache, journal) == Summary(digest=DIGEST)


def test_a_broken_journal_is_summarised_up_to_its_fault(journal: Path) -> None:
    """`list` goes on, says what is broken, and caches nothing."""
    with Journal.open(journal, DIGEST) as writer:
        writer.append(opened())
        writer.append(pivot())
    journal.write_bytes(journal.read_bytes().replace(b" crayons", b" crayonz"))
    cache = journal.with_name("summary.json")
    found = refresh(cache, journal)
    assert found.events == 1
    assert "line 2" in found.broken
    assert not cache.exists()


def test_a_read_only_folder_needs_no_cache(journal: Path) -> None:
    """When the cache cannot be written the summary is still told."""
    with Journal.open(journal, DIGEST) as writer:
        writer.append(opened())
    missing = journal.parent / "gone" / "summary.json"
    assert refresh(missing, journal).events == 1


def test_a_journal_that_cannot_be_read_is_no_broken_one(tmp_path: Path) -> None:
    """What the file system refuses is an error of its own; `broken` is what the chain says."""
    with pytest.raises(RefeedError) as caught:
        refresh(tmp_path / "summary.json", tmp_path / ("x" * 300))
    assert caught.value.kind == "failed"
