from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, get_args

import msgspec
import pytest

from sessions.disk.folder import STARTING_SECONDS, RunInfo, held, home, lock, start_time
from sessions.disk.journal import Journal
from sessions.errors import RefeedError
from sessions.events import AnyEvent, Ended, EndState, Opened, Paused, Resumed
from sessions.spec import CampaignSpec, register
from sessions.state.summary import load
from sessions.store import SessionFolder, Store, check_name
from tests.helpers.session_events import engine_ready, opened

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home")


def make(store: Store, name: str | None = None, events: tuple[AnyEvent, ...] = ()) -> SessionFolder:
    """A session with these events."""
    folder = store.create(register(CampaignSpec(problems=3), name=name))
    if events:
        with Journal.open(folder.journal_path, folder.registration().digest) as journal:
            for event in events:
                journal.append(event)
    return folder


def ended(state: str = "finished") -> Ended:
    """The end of a run."""
    return Ended(state=state, exit_code=0, reason="done")  # type: ignore[arg-type]


def test_home_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """$REFEED_TUI_HOME decides; without it the platform's state folder does."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path))
    assert home() == tmp_path
    monkeypatch.delenv("REFEED_TUI_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert home() == tmp_path / "state" / "refeed-tui"


def test_a_session_is_private_and_locks_its_spec_in(store: Store) -> None:
    """Folders are 0700, files 0600, and the spec reads back with its digest."""
    previous = os.umask(0)
    try:
        folder = make(store, "first", (opened(),))
        folder.summary()
    finally:
        os.umask(previous)
    assert folder.spec() == CampaignSpec(problems=3, group=1), "before there were groups it was 1"
    assert folder.name == "first"
    for path in (store.path, folder.path, folder.texts_path):
        assert path.stat().st_mode & 0o777 == 0o700
    for path in (folder.spec_path, folder.journal_path, folder.summary_path):
        assert path.stat().st_mode & 0o777 == 0o600


def test_sessions_are_listed_newest_first(store: Store) -> None:
    """Ids sort by the time they were made."""
    made = [make(store).path for _ in range(3)]
    names = [folder.path.name for folder in store.folders()]
    assert names == sorted((path.name for path in made), reverse=True)
    assert store.newest().path.name == names[0]
    assert all(len(name) == 20 for name in names)
    assert Store(store.path / "nowhere").folders() == ()
    with pytest.raises(RefeedError, match="no sessions in"):
        Store(store.path / "nowhere").newest()


def test_a_session_is_found_by_id_prefix_name_and_folder(store: Store) -> None:
    """The first of id, name, unique prefix and folder that fits is meant."""
    one, two = make(store, "alpha"), make(store, "beta")
    assert store.find(one.id) == one
    assert store.find("beta") == two
    assert store.find(str(one.path)) == one
    assert store.find(f"{one.path}/texts/..") == one
    unique = next(size for size in range(20) if one.id[:size] != two.id[:size])
    assert store.find(one.id[:unique]) == one


@pytest.mark.parametrize(
    "selector", ["", "2", "gamma", "../..", "\x1b[2J", "/", "twin", "/etc/passwd", "~nobody\0", "n" * 5000]
)
def test_what_fits_no_or_several_sessions_is_an_error(store: Store, selector: str) -> None:
    """The error is of kind `session`, on one printable line."""
    make(store, "twin")
    make(store, "twin")
    with pytest.raises(RefeedError) as caught:
        store.find(selector)
    assert caught.value.kind == "session"
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["", " x", "-x", "a/b", "a\nb", "\x1b[2J", "a\u202eb", "n" * 65])
def test_names_that_could_fool_a_person_or_a_shell_are_refused(store: Store, name: str) -> None:
    """A name is a short printable line that looks like no flag and no path."""
    with pytest.raises(RefeedError, match="cannot be used") as caught:
        make(store, name)
    assert caught.value.kind == "usage"
    assert check_name("run of Tuesday, K = 8 (ä)") == "run of Tuesday, K = 8 (ä)"


def test_a_strangers_name_is_shown_harmlessly(store: Store) -> None:
    """Control characters in a stored name come out as escapes."""
    folder = make(store)
    stored = register(CampaignSpec(), name="\x1b]0;owned\x07\nsecond")
    folder.spec_path.write_bytes(msgspec.json.encode(stored))
    assert folder.name == r"\x1b]0;owned\x07\nsecond"


def test_links_and_strays_are_no_sessions(store: Store, tmp_path: Path) -> None:
    """A link to a folder, a file, a hidden folder and a folder without a spec are not listed."""
    real = make(store)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "spec.json").write_bytes(real.spec_path.read_bytes())
    (store.path / "20990101-000000-link").symlink_to(outside)
    (store.path / ".hidden").mkdir()
    (store.path / "empty").mkdir()
    (store.path / "file").write_text("x")
    assert store.folders() == (real,)


@pytest.mark.parametrize(
    "stored", [b"", b"{}", b"[" * 100_000, b'{"digest":"x","spec":{}}', b'{"digest":7,"spec":{}}', b"x" * (1 << 21)]
)
def test_a_spoiled_spec_is_an_integrity_error(store: Store, stored: bytes) -> None:
    """Whatever spec.json holds, reading it ends with a plain error, and other sessions are still found."""
    bad, good = make(store), make(store, "good")
    bad.spec_path.write_bytes(stored)
    with pytest.raises(RefeedError) as caught:
        bad.spec()
    assert caught.value.kind == "integrity"
    assert store.find("good") == good


def test_states_follow_lock_and_last_event(store: Store) -> None:
    """A lock that is held says running or paused; otherwise the last end does, and none means interrupted."""
    folder = make(store, events=(opened(), engine_ready()))
    assert folder.state() == "interrupted"
    with lock(folder.lock_path):
        assert folder.state() == "running"
        with Journal.open(folder.journal_path, folder.registration().digest) as journal:
            journal.append(Paused())
            assert folder.state() == "paused"
            journal.append(Resumed())
            assert folder.state() == "running"
            journal.append(ended("aborted"))
            assert folder.state() == "aborted"
    assert folder.state() == "aborted"
    with Journal.open(folder.journal_path, folder.registration().digest) as journal:
        journal.append(opened())
    assert folder.state() == "interrupted"
    imported = make(store, events=(Opened(session="s", version="1", source="primary.json"), ended()))
    assert imported.state() == "imported"


def test_a_session_runs_from_its_registration_on(store: Store) -> None:
    """Its worker takes the lock a moment later; where none came, or one came and went, nothing runs."""
    folder, left = make(store), make(store, "left")
    assert folder.state() == "running"
    with lock(folder.lock_path):
        assert folder.state() == "running"
    assert folder.state() == "interrupted"
    registered = time.time() - STARTING_SECONDS - 1
    os.utime(left.spec_path, (registered, registered))
    assert left.state() == "interrupted"


@pytest.mark.parametrize("end", get_args(EndState))
def test_every_way_to_end_is_a_state_and_is_cached(store: Store, end: str) -> None:
    """What Ended can say is what `list` shows, and the summary that says so is read back."""
    folder = make(store, events=(opened(), ended(end)))
    assert folder.state() == end
    assert load(folder.summary_path, folder.registration().digest).ended == end


def test_a_second_holder_of_the_lock_is_refused(store: Store) -> None:
    """One worker a session; the kernel frees the lock of a dead one."""
    folder = make(store)
    assert not held(folder.lock_path)
    code = (
        "import sys, pathlib, sessions.disk.folder as l\n"
        "with l.lock(pathlib.Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder.lock_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        assert held(folder.lock_path)
        with pytest.raises(RefeedError, match="running elsewhere") as caught, lock(folder.lock_path, patience=0.1):
            pass
        assert caught.value.kind == "session"
        worker.kill()
    assert not held(folder.lock_path)
    with lock(folder.lock_path):
        assert held(folder.lock_path)


def test_a_lock_that_is_a_link_is_refused(store: Store, tmp_path: Path) -> None:
    """A stranger's lock cannot make us create or lock a file outside the session."""
    folder = make(store)
    folder.lock_path.symlink_to(tmp_path / "victim")
    with pytest.raises(RefeedError, match="not a regular file"), lock(folder.lock_path):
        pass
    assert not (tmp_path / "victim").exists()


def test_run_info_tells_a_living_worker_from_a_reused_pid(store: Store) -> None:
    """Boot, pid and start time must all agree."""
    folder = make(store)
    assert folder.run() is None
    info = RunInfo.here("0.1.0")
    info.write(folder.run_path)
    assert folder.run() == info
    assert info.alive()
    assert not info.elsewhere()
    assert not msgspec.structs.replace(info, started=(info.started or 0) - 1).alive()
    assert not msgspec.structs.replace(info, boot="another").alive()
    assert not msgspec.structs.replace(info, pid=0).alive()
    assert msgspec.structs.replace(info, host="another").elsewhere()
    assert start_time(2**22 + 1) is None


def test_a_dead_worker_that_nobody_waits_for_is_not_alive() -> None:
    """In a container whose first process reaps none, the kernel lists it for ever."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert start_time(child.pid) is not None
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and left unreaped
        assert start_time(child.pid) is None


@pytest.mark.parametrize("stored", [b"", b"[]", b'{"pid":"x"}', b"[" * 100_000, b"x" * (1 << 17)])
def test_a_spoiled_run_file_is_an_integrity_error(store: Store, stored: bytes) -> None:
    """Whatever run.json holds, reading it ends with a plain error."""
    folder = make(store)
    folder.run_path.write_bytes(stored)
    with pytest.raises(RefeedError) as caught:
        folder.run()
    assert caught.value.kind == "integrity"


def test_listing_needs_no_heavy_import(store: Store) -> None:
    """Finding sessions and their states loads neither numpy nor anything that draws or computes."""
    make(store, events=(opened(), ended()))
    code = (
        "import sys, pathlib\n"
        "from sessions.store import Store\n"
        "folder = Store(pathlib.Path(sys.argv[1])).newest()\n"
        "assert folder.state() == 'finished' and folder.spec().problems == 3 and folder.summary().events == 2\n"
        "heavy = {'numpy', 'scipy', 'torch', 'textual', 'rich', 'click', 'plotext', 'vllm'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(store.path.parent)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
