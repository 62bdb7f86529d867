from __future__ import annotations

import os
import shutil
import zipfile
from typing import TYPE_CHECKING

import msgspec
import pytest

from sessions.disk.journal import Journal, read
from sessions.disk.texts import read as read_texts
from sessions.disk.texts import write as write_texts
from sessions.errors import RefeedError
from sessions.events import Ended, Event
from sessions.exchange.bundle import is_bundle, pack, unpack
from sessions.exchange.export import export
from sessions.exchange.imports import import_file
from sessions.spec import CampaignSpec, register
from sessions.store import SessionFolder, Store
from tests.helpers.session_events import closed, opened
from tests.helpers.session_texts import example, its_pivot

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home")


@pytest.fixture
def laptop(tmp_path: Path) -> Store:
    return Store(tmp_path / "laptop")


def session(store: Store) -> SessionFolder:
    """A finished session with one problem and its texts."""
    folder = store.create(register(CampaignSpec(k=2), name="night"))
    name, sha256 = write_texts(folder.texts_path, example())
    end = msgspec.structs.replace(closed(7, attempt=2), texts=name, texts_sha256=sha256)
    events: list[Event] = [opened(), its_pivot(), end, Ended(state="finished", exit_code=0, reason="done")]
    with Journal.open(folder.journal_path, folder.registration().digest) as journal:
        for event in events:
            journal.append(event)
    (folder.path / "worker.log").write_text("secret host name")
    return folder


def members(path: Path) -> dict[str, bytes]:
    """Names and contents of a zip."""
    with zipfile.ZipFile(path) as bundle:
        return {info.filename: bundle.read(info) for info in bundle.infolist()}


def rewrite(path: Path, changed: dict[str, bytes]) -> Path:
    """The bundle with some members replaced or added."""
    held = {**members(path), **changed}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in held.items():
            bundle.writestr(name, content)
    return path


def test_a_bundle_opens_elsewhere_as_the_same_session(store: Store, laptop: Store, tmp_path: Path) -> None:
    """Same id, name, spec, events and texts; private files; what belongs to the machine stays behind."""
    folder = session(store)
    (path,) = export(folder, ["bundle"], tmp_path / "out").files
    assert path.name == f"{folder.id}.refeed.zip"
    brought = import_file(path, laptop)
    assert (brought.id, brought.name, brought.state()) == (folder.id, "night", "finished")
    assert brought.journal_path.read_bytes() == folder.journal_path.read_bytes()
    assert brought.spec_path.read_bytes() == folder.spec_path.read_bytes()
    end = list(read(brought.journal_path, brought.registration().digest))[2]
    assert read_texts(brought.texts_path, end.texts, end.texts_sha256) == example()  # type: ignore[union-attr]
    assert sorted(p.name for p in brought.path.iterdir()) == ["events.jsonl", "spec.json", "summary.json", "texts"]
    assert brought.path.stat().st_mode & 0o777 == 0o700
    assert brought.journal_path.stat().st_mode & 0o777 == 0o600
    assert laptop.folders() == (brought,)


def test_packing_twice_gives_the_same_bytes(store: Store, tmp_path: Path) -> None:
    """Nothing of the moment is in a bundle."""
    folder = session(store)
    assert pack(folder, tmp_path / "a").read_bytes() == pack(folder, tmp_path / "b").read_bytes()


def test_a_bundle_can_be_renamed_but_not_brought_in_twice(store: Store, laptop: Store, tmp_path: Path) -> None:
    """The name is outside the digest; the id is the session's own."""
    path = pack(session(store), tmp_path / "x.zip")
    assert unpack(path, laptop, "day").name == "day"
    with pytest.raises(RefeedError, match="is here already"):
        unpack(path, laptop)
    with pytest.raises(RefeedError, match="settings are locked"):
        import_file(path, laptop, None, {"k": 3})
    assert len(laptop.folders()) == 1


def test_a_running_session_is_packed_up_to_its_last_whole_event(store: Store, laptop: Store, tmp_path: Path) -> None:
    """A torn last line is left out."""
    folder = session(store)
    whole = folder.journal_path.read_bytes()
    folder.journal_path.write_bytes(whole + b'{"event":"pi')
    assert unpack(pack(folder, tmp_path / "x.zip"), laptop).journal_path.read_bytes() == whole


def test_a_broken_session_is_not_packed(store: Store, tmp_path: Path) -> None:
    """A flipped byte in the journal or a text is named, and no file appears."""
    folder = session(store)
    text = next(folder.texts_path.iterdir())
    content = text.read_bytes()
    text.write_bytes(content[:-1] + b"x")
    with pytest.raises(RefeedError, match="hashes to"):
        pack(folder, tmp_path / "x.zip")
    text.write_bytes(content)
    folder.journal_path.write_bytes(folder.journal_path.read_bytes().replace(b" pens", b" pans"))
    with pytest.raises(RefeedError, match="line 2 "):
        pack(folder, tmp_path / "x.zip")
    assert not (tmp_path / "x.zip").exists()
    with pytest.raises(RefeedError, match="cannot be anonymous"):
        export(folder, ["bundle"], tmp_path, anonymous=True)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("../evil", b"x", "does not belong"),
        ("/etc/evil", b"x", "does not belong"),
        ("{id}/texts/../../evil", b"x", "does not belong"),
        ("{id}/worker.log", b"x", "does not belong"),
        ("{id}/run.json", b"{}", "does not belong"),
        ("\x1b[2J/spec.json", b"{}", "does not belong"),
        ("another/spec.json", b"{}", "File exists|one session"),
        ("{id}/texts/problem-9-attempt-9.json.gz", b"x", "does not name"),
        ("{id}/spec.json", b"{}", "cannot be understood"),
        ("{id}/spec.json", b'{"digest":"00","spec":{}}', "hashes to|line 1"),
        ("{id}/events.jsonl", b"nonsense\n", "line 1 "),
        ("{id}/texts/problem-7-attempt-2.json.gz", b"x", "hashes to"),
    ],
)
def test_a_hostile_bundle_leaves_nothing_behind(
    store: Store, laptop: Store, tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    """Path tricks, strangers, and files that do not hold are refused; the store stays empty."""
    folder = session(store)
    path = rewrite(pack(folder, tmp_path / "x.zip"), {name.replace("{id}", folder.id): content})
    before = sorted(tmp_path.rglob("evil*"))
    with pytest.raises(RefeedError, match=says) as caught:
        unpack(path, laptop)
    assert "\x1b" not in str(caught.value)
    assert list(laptop.path.iterdir()) == []
    assert sorted(tmp_path.rglob("evil*")) == before


def test_links_in_a_bundle_become_files(store: Store, laptop: Store, tmp_path: Path) -> None:
    """A member that claims to be a symbolic link is written as plain bytes, and then does not hold."""
    folder = session(store)
    path = pack(folder, tmp_path / "x.zip")
    held = {name: content for name, content in members(path).items() if "texts" not in name}
    with zipfile.ZipFile(path, "w") as bundle:
        for name, content in held.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = 0o120777 << 16 if name.endswith("events.jsonl") else 0o100600 << 16
            bundle.writestr(info, b"/etc/passwd" if name.endswith("events.jsonl") else content)
    brought = unpack(path, laptop)  # eleven bytes without a newline are a torn tail, not a link
    assert not brought.journal_path.is_symlink()
    assert brought.journal_path.read_bytes() == b"/etc/passwd"


def test_a_bundle_that_no_report_could_count_is_refused(store: Store, laptop: Store, tmp_path: Path) -> None:
    """A pivot without texts whose numbers contradict each other: the cause now, not at the first report."""
    folder = store.create(register(CampaignSpec(k=2)))
    one = its_pivot()
    odd = msgspec.structs.replace(one, exact1=msgspec.structs.replace(one.exact1, net=1))
    with Journal.open(folder.journal_path, folder.registration().digest) as journal:
        for event in (opened(), odd, closed(7, attempt=2)):
            journal.append(event)
    with pytest.raises(RefeedError, match="line 2 says net 1 with 2 and 0 of 2 right"):
        pack(folder, tmp_path / "odd.zip")
    assert not (tmp_path / "odd.zip").exists()
    path = pack(session(store), tmp_path / "even.zip")
    with zipfile.ZipFile(path, "w") as bundle:
        for name in ("spec.json", "events.jsonl"):
            bundle.write(folder.path / name, f"{folder.path.name}/{name}")
    with pytest.raises(RefeedError, match="line 2 says net 1 with 2 and 0 of 2 right"):
        import_file(path, laptop)
    assert not laptop.folders()


@pytest.mark.parametrize("data", [b"PK\x03\x04", b"PK\x03\x04" + bytes(500), b"", b"not a zip"])
def test_a_file_that_is_no_zip_is_refused(laptop: Store, tmp_path: Path, data: bytes) -> None:
    """What begins as a bundle is a damaged one; anything else is none."""
    path = tmp_path / "x.zip"
    path.write_bytes(data)
    with pytest.raises(RefeedError, match=r"x\.zip is (damaged|no bundle): ") as caught:
        unpack(path, laptop)
    assert caught.value.kind == ("integrity" if data.startswith(b"PK") else "usage")
    assert list(laptop.path.iterdir()) == []
    assert is_bundle(path) == data.startswith(b"PK")
    assert not is_bundle(tmp_path / "missing")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RefeedError, match="not a regular file"):
        import_file(tmp_path / "pipe", laptop)
    (tmp_path / "pipe").unlink()


def test_a_damaged_bundle_is_an_integrity_error_that_names_it(store: Store, laptop: Store, tmp_path: Path) -> None:
    """Half a download, and a changed byte in any member: the bundle and the member, and nothing of where it was."""
    folder = session(store)
    path = pack(folder, tmp_path / "x.zip")
    whole = path.read_bytes()
    cut = [(whole[:length], "") for length in (len(whole) - 1, len(whole) - 100, len(whole) // 2, 40)]
    with zipfile.ZipFile(path) as bundle:
        ends = [(info.filename, info.header_offset + info.compress_size) for info in bundle.infolist()]
    flipped = [(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :], name) for name, at in ends]
    assert len(flipped) == 3
    for data, member in [*cut, *flipped]:
        path.write_bytes(data)
        with pytest.raises(RefeedError) as caught:
            unpack(path, laptop)
        assert caught.value.kind == "integrity"
        assert caught.value.message.startswith(f"{path} is damaged")
        assert member in caught.value.message
        assert not list(laptop.path.iterdir())


@pytest.mark.parametrize(
    ("member", "content"),
    [
        ("spec.json", b"{}"),
        ("spec.json", b'{"digest":"00","spec":{}}'),
        ("events.jsonl", b"nonsense\n"),
        ("texts/problem-7-attempt-2.json.gz", b"x"),
    ],
)
def test_what_is_wrong_inside_is_told_by_bundle_and_member(
    store: Store, laptop: Store, tmp_path: Path, member: str, content: bytes
) -> None:
    """Not by the folder that it was unpacked into, which is gone."""
    folder = session(store)
    path = rewrite(pack(folder, tmp_path / "x.zip"), {f"{folder.id}/{member}": content})
    with pytest.raises(RefeedError) as caught:
        unpack(path, laptop)
    assert caught.value.kind == "integrity"
    assert ".incoming" not in str(caught.value)
    assert caught.value.message.startswith(f"{path}: ")
    assert member in caught.value.message


def test_a_bundle_larger_than_the_disk_is_refused_before_it_is_written(
    store: Store, laptop: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claimed size is compared with the free space first."""
    path = pack(session(store), tmp_path / "x.zip")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 90, 10))
    with pytest.raises(RefeedError, match="unpacks to"):
        unpack(path, laptop)
