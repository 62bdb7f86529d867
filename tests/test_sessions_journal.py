from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import tempfile
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions.disk.journal import MAX_LINE, Chain, Follower, Journal, read, verify
from sessions.errors import RefeedError
from sessions.events import Notice, Opened, Progress
from tests.helpers.session_events import closed, opened, pivot

if TYPE_CHECKING:
    from collections.abc import Callable

DIGEST = "c0" * 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def write(path: Path, count: int = 3, digest: str = DIGEST) -> list[object]:
    """A journal of an Opened and some pivots."""
    with Journal.open(path, digest) as journal:
        return [journal.append(opened())] + [journal.append(pivot(position=145 + n)) for n in range(count - 1)]


def write_short(path: Path) -> list[object]:
    """A journal of three short lines, for tests that try each of their bytes."""
    with Journal.open(path, DIGEST) as journal:
        return [journal.append(Notice(kind="x", text="y")) for _ in range(3)]


def test_events_come_back_as_they_were_stamped(path: Path) -> None:
    """What append returned is what a reader gets, in order, with seq from 0."""
    written = write(path)
    assert list(read(path, DIGEST)) == written
    assert [event.seq for event in read(path, DIGEST)] == [0, 1, 2]


def test_a_line_carries_the_documented_chain(path: Path) -> None:
    """The chain is BLAKE2b-64 of the previous hex and the body, the digest being the first previous."""
    write(path, 2)
    previous = DIGEST
    for line in path.read_bytes().splitlines():
        body, chain = line[:-28] + b"}", line[-18:-2].decode()
        assert line[-28:-18] == b',"chain":"'
        assert chain == blake2b(previous.encode() + body, digest_size=8).hexdigest()
        previous = chain


def test_reopening_continues_seq_and_chain(path: Path) -> None:
    """A second writer goes on where the first stopped, and time goes its own way."""
    write(path)
    with Journal.open(path, DIGEST) as journal:
        assert journal.recovered is None
        assert journal.events == 3
        assert journal.append(opened()).seq == 3
    assert verify(path, DIGEST).events == 4


def test_a_clock_that_goes_backwards_changes_nothing(path: Path) -> None:
    """Wall times are recorded as they are; order is seq's."""
    times = iter([(100.0, 0.0), (50.0, 1.0)])
    with Journal.open(path, DIGEST, clock=lambda: next(times)) as journal:
        journal.append(opened())
        journal.append(opened())
    assert [(event.seq, event.wall) for event in read(path, DIGEST)] == [(0, 100.0), (1, 50.0)]
    assert verify(path, DIGEST).broken_line is None


def test_a_tail_torn_at_any_byte_is_cut_and_the_rest_stands(path: Path) -> None:
    """Readers skip a partial last line quietly; the next writer cuts it off and reports it."""
    write_short(path)
    whole = path.read_bytes()
    start = whole[:-1].rindex(b"\n") + 1
    for cut in range(start + 1, len(whole) - 1):
        path.write_bytes(whole[:cut])
        reading = read(path, DIGEST)
        assert len(list(reading)) == 2
        assert reading.torn == cut - start
        found = verify(path, DIGEST)
        assert (found.events, found.torn, found.broken_line) == (2, cut - start, None)
        with Journal.open(path, DIGEST) as journal:
            assert journal.recovered == (start, cut - start, False)
        assert path.read_bytes() == whole[:start]


@pytest.mark.parametrize("end", [b"", b"X"])
def test_a_last_line_that_lacks_only_its_newline_is_kept(path: Path, end: bytes) -> None:
    """Recovery completes a whole event whose newline is missing or damaged, instead of losing it."""
    write(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + end)
    with Journal.open(path, DIGEST) as journal:
        assert journal.recovered is not None
        assert journal.recovered.completed
        journal.append(opened())
    assert path.read_bytes().startswith(whole)
    assert verify(path, DIGEST)[:2] == (4, 0)


def test_a_tail_of_zero_bytes_is_cut(path: Path) -> None:
    """A file system that lengthened the file before the power went leaves zeros; they are no event."""
    write(path)
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(5000))
    with Journal.open(path, DIGEST) as journal:
        assert journal.recovered == (len(whole), 5000, False)
    assert path.read_bytes() == whole


def test_any_flipped_byte_is_found(path: Path) -> None:
    """Each byte of a journal, flipped, is an integrity error that names its line, or a torn tail; never an event."""
    written = write_short(path)
    whole = path.read_bytes()
    ends = [index for index, byte in enumerate(whole) if byte == ord("\n")]
    for index in range(len(whole)):
        damaged = bytearray(whole)
        damaged[index] ^= 0x04
        path.write_bytes(bytes(damaged))
        line = sum(end < index for end in ends)
        found = verify(path, DIGEST)
        assert found.events == line
        if index == ends[-1]:
            assert found.broken_line is None
            assert found.torn > 0
            continue
        assert found.broken_line == line + 1
        events: list[object] = []
        with pytest.raises(RefeedError, match=f"line {line + 1} ") as caught:
            events.extend(read(path, DIGEST))
        assert caught.value.kind == "integrity"
        assert written[: len(events)] == events
        with pytest.raises(RefeedError, match=f"line {line + 1} "):
            Journal.open(path, DIGEST)
        assert path.read_bytes() == bytes(damaged)


@pytest.mark.parametrize("edit", ["duplicate", "drop", "swap"])
def test_moved_lines_are_found(path: Path, edit: str) -> None:
    """A line that is repeated, taken out or moved breaks the chain at its place."""
    write(path, 4)
    lines = path.read_bytes().splitlines(keepends=True)
    edited = {
        "duplicate": [*lines[:2], lines[1], *lines[2:]],
        "drop": [lines[0], *lines[2:]],
        "swap": [lines[0], lines[2], lines[1], lines[3]],
    }[edit]
    path.write_bytes(b"".join(edited))
    assert verify(path, DIGEST).broken_line == (3 if edit == "duplicate" else 2)


def test_the_chain_of_another_session_does_not_fit(path: Path) -> None:
    """A journal belongs to the spec whose digest it starts from."""
    write(path, digest="ab" * 32)
    assert verify(path, DIGEST).broken_line == 1
    with pytest.raises(RefeedError, match="line 1 "):
        list(read(path, DIGEST))


def test_a_follower_sees_only_whole_lines_and_survives_recovery(path: Path) -> None:
    """A partial line waits; when recovery cuts it and a writer goes on, the follower goes on too."""
    follower = Follower(path, DIGEST)
    assert follower.poll() == []
    written = write(path)
    assert follower.poll(2) == written[:2]
    assert follower.poll() == written[2:]
    with path.open("ab") as file:
        file.write(b'{"event":"noti')
    assert follower.poll() == []
    assert follower.torn == 14
    with Journal.open(path, DIGEST) as journal:
        event = journal.append(Notice(kind="warning", text="resumed"))
    assert follower.poll() == [event]
    assert follower.poll() == []
    follower.close()


def test_a_follower_returns_events_before_a_broken_line_first(path: Path) -> None:
    """What stands is shown; the next poll raises."""
    write(path)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"position":146', b'"position":147'))
    follower = Follower(path, DIGEST)
    assert len(follower.poll()) == 2
    for _ in range(2):
        with pytest.raises(RefeedError, match="line 3 "):
            follower.poll()
    follower.close()


def test_a_journal_that_lost_lines_is_reported(path: Path) -> None:
    """A follower that read more than is there says so."""
    write(path)
    follower = Follower(path, DIGEST)
    follower.poll()
    os.truncate(path, 10)
    with pytest.raises(RefeedError, match="is gone"):
        follower.poll()
    follower.close()


def test_a_reader_sees_an_event_as_soon_as_it_was_appended(path: Path) -> None:
    """Nothing waits in a buffer of the writer's: the very next poll has the event, and nothing else."""
    with Journal.open(path, DIGEST) as journal, Follower(path, DIGEST) as follower:
        for _ in range(20):
            appended = journal.append(opened())
            assert follower.poll() == [appended]
        assert follower.poll() == []


def test_a_long_line_is_refused_on_both_sides(path: Path) -> None:
    """No writer stores a line over the limit, and no reader holds more than that of one."""
    with Journal.open(path, DIGEST) as journal:
        with pytest.raises(RefeedError, match="more than"):
            journal.append(Notice(kind="warning", text="x" * MAX_LINE))
        journal.append(opened())
    assert verify(path, DIGEST).events == 1
    with path.open("ab") as file:
        file.write(b"y" * (MAX_LINE + 1))
    for end in (b"", b"\n"):
        with path.open("ab") as file:
            file.write(end)
        assert "longer than" in verify(path, DIGEST).reason
        with pytest.raises(RefeedError, match=r"line 2 .*longer"):
            Journal.open(path, DIGEST)


def test_an_event_that_would_not_read_back_is_refused(path: Path) -> None:
    """NaN is written as null and would make the journal unreadable; it is refused, and nothing of it stays."""
    bad = Progress(
        problem=0,
        stage="trunks",
        done=0,
        total=1,
        verified=0,
        failed=0,
        tokens=0,
        tokens_per_s=float("nan"),
        kv_use=0.0,
    )
    with Journal.open(path, DIGEST) as journal:
        journal.append(opened())
        with pytest.raises(RefeedError, match="Progress would not read back"):
            journal.append(bad)
        journal.append(opened())
    found = verify(path, DIGEST)
    assert (found.events, found.broken_line) == (2, None)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"event":"notice","kind":"x","text":"y","seq":0,"deep":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"event":"martian","seq":0}',
        b'{"event":"notice","kind":7,"text":"y","seq":0}',
        b'{"event":"notice","kind":"x","text":"y","seq":5}',
        b'{"event":"notice","kind":"x","text":"y","seq":1e400}',
        b'{"event":"notice","kind":"\xff\xfe","text":"y","seq":0}',
        b'{"event":"wave-planned","problems":[-1],"attempt":1,"blocks_needed":1,"blocks_allocated":1,"blocks_there":1,"seq":0}',
        b"null",
        b"",
    ],
)
def test_a_hostile_line_with_a_good_chain_is_an_integrity_error(path: Path, body: bytes) -> None:
    """The chain is no signature: deep nesting, wrong types and odd numbers are refused by line, without a crash."""
    line, _ = Chain(DIGEST).extend(body)
    path.write_bytes(line)
    with pytest.raises(RefeedError, match="line 1 ") as caught:
        list(read(path, DIGEST))
    assert caught.value.kind == "integrity"


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_read_without_a_crash(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """Whatever a file holds, reading it ends, with events or with an integrity error."""
    path = tmp_path_factory.mktemp("fuzz") / "events.jsonl"
    path.write_bytes(data)
    assert verify(path, DIGEST).events == 0
    line, _ = Chain(DIGEST).extend(data.replace(b"\n", b" "))
    path.write_bytes(line)
    found = verify(path, DIGEST)
    assert found.events == 0
    assert found.broken_line == 1


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_journal_that_is_no_plain_file_is_refused_at_once(path: Path, kind: str) -> None:
    """A link is not followed and a pipe is not waited for."""
    if kind == "link":
        target = path.with_name("elsewhere")
        target.write_bytes(b"")
        path.symlink_to(target)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(RefeedError, match="not a regular file"):
        list(read(path, DIGEST))
    with pytest.raises(RefeedError, match="not a regular file"):
        Journal.open(path, DIGEST)


FULL = """
import resource, sys
from pathlib import Path
from sessions.errors import RefeedError
from sessions.disk.journal import Journal
from tests.helpers.session_events import pivot
path = Path(sys.argv[1])
with Journal.open(path, sys.argv[2]) as journal:
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
    stored = 0
    try:
        while True:
            journal.append(pivot(position=145 + stored))
            stored += 1
    except RefeedError as error:
        print(error.kind, "|", error)
    print(stored, path.stat().st_size)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(journal.append(pivot(position=150)).seq)
"""


def test_a_full_disk_loses_nothing_recorded(path: Path) -> None:
    """The append that did not fit says so and leaves nothing behind; with space again the same journal goes on."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path), DIGEST], capture_output=True, text=True, check=True, timeout=60
    )
    message, counts, seq = done.stdout.splitlines()
    assert message.startswith(f"failed | cannot append to {path}: File too large")
    stored, size = map(int, counts.split())
    assert stored == int(seq) >= 5
    assert 8_000 < size <= 10_000
    assert verify(path, DIGEST)[:2] == (stored + 1, 0)


def test_a_partial_write_that_could_not_be_undone_is_recovered(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a line and a dead process: the next opening cuts it off."""
    write(path)
    whole = path.read_bytes()
    journal = Journal.open(path, DIGEST)
    real = os.write

    def half(fd: int, data: bytes) -> int:
        if len(data) < 500:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, data[:-450])

    def stuck(*_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        patch.setattr(os, "ftruncate", stuck)
        with pytest.raises(RefeedError, match="No space left on device; free some space"):
            journal.append(pivot())
        assert path.read_bytes() != whole
        with pytest.raises(RefeedError, match="cannot append"):
            journal.append(pivot())
    journal.close()
    assert verify(path, DIGEST).torn > 0
    with Journal.open(path, DIGEST) as again:
        assert again.recovered is not None
        assert again.append(opened()).seq == 3
    assert path.read_bytes().startswith(whole)


WRITER = """
import sys
from pathlib import Path
from sessions.disk.journal import Journal
from tests.helpers.session_events import pivot
with Journal.open(Path(sys.argv[1]), sys.argv[2]) as journal:
    while True:
        print(journal.append(pivot()).seq, flush=True)
"""


def test_nothing_that_append_returned_is_lost_to_kill_9(path: Path) -> None:
    """Five writers in a row are killed in the middle of appending; each goes on where the one before was."""
    promised = -1
    for round_ in range(5):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(path), DIGEST], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            for _ in range(50 + 37 * round_):
                promised = int(writer.stdout.readline())
            writer.kill()
        found = verify(path, DIGEST)
        assert found.broken_line is None
        assert found.events > promised
        with Journal.open(path, DIGEST) as journal:
            assert journal.events >= found.events
    assert promised > 300


def test_short_writes_are_completed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write(2) that takes part of a line is followed by the rest."""
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:100]))
    write(path)
    assert verify(path, DIGEST).events == 3


def unprivileged(action: Callable[[], object]) -> str:
    """What an action raises in a process that may not write everywhere, as root may; empty when nothing."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # nothing of pytest may run here: the process leaves by _exit
        said = ""
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            action()
        except RefeedError as error:
            said = str(error)
        except BaseException as error:  # noqa: BLE001 - told to the test, which fails
            said = repr(error)
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as file:
        return file.read().decode()


def test_a_read_only_folder_reads_and_says_why_it_cannot_be_written() -> None:
    """Readers need no permission to write; a writer is told the cause."""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders admit no other user
        path = Path(folder) / "events.jsonl"
        write(path)
        path.chmod(0o444)
        path.parent.chmod(0o555)
        try:
            assert unprivileged(lambda: list(read(path, DIGEST))) == ""
            assert "Permission denied; check the owner" in unprivileged(lambda: Journal.open(path, DIGEST))
        finally:
            path.parent.chmod(0o700)


def test_closing_events_are_synced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal is fsynced at ProblemClosed, and not at each pivot."""
    synced: list[int] = []
    with Journal.open(path, DIGEST) as journal:
        monkeypatch.setattr(os, "fsync", synced.append)
        journal.append(pivot())
        assert synced == []
        journal.append(closed())
        assert len(synced) == 1


def test_files_are_private(path: Path) -> None:
    """Journals are readable by their owner alone, whatever the umask."""
    previous = os.umask(0)
    try:
        write(path)
    finally:
        os.umask(previous)
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_limit_of_open_files_is_a_plain_error(path: Path) -> None:
    """Running out of descriptors names the file and the cause."""
    write(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
    try:
        with pytest.raises(RefeedError, match="Too many open files"):
            Journal.open(path, DIGEST)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_unknown_fields_of_a_newer_version_are_ignored(path: Path) -> None:
    """A field that this version does not know costs nothing."""
    line, _ = Chain(DIGEST).extend(b'{"event":"opened","seq":0,"session":"s","version":"9","mood":"good"}')
    path.write_bytes(line)
    assert list(read(path, DIGEST)) == [Opened(seq=0, session="s", version="9")]
