"""A folder from a stranger: whatever its files hold, reading it ends with records or with one plain error."""

from __future__ import annotations

import json
import os
import stat
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessions.disk.journal import Chain, read, verify
from sessions.disk.texts import read as read_texts
from sessions.errors import RefeedError
from sessions.exchange.export import FORMATS, export
from sessions.spec import CampaignSpec, register
from sessions.state.fold import fold_all
from sessions.store import SessionFolder, Store
from tests.helpers.session_events import closed, engine_ready, opened, pass_started, pivot, trunks_done
from tests.test_sessions_state import failure

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SAMPLES = [
    json.loads(msgspec.json.encode(event))
    for event in (
        opened(),
        engine_ready(),
        trunks_done(),
        pass_started(),
        pivot(nets=(1, 0, -1)),
        pivot(position=161),
        failure(),
        closed(pivots=2),
        closed(1, 0, outcome="dropped"),
    )
]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.lists(st.integers(), max_size=3),
    st.sampled_from(["../../etc/passwd", "\x1b[2J", "measured", "verified", "re-feed", -1, 0, 1, 2**53, 2**63, 1e308]),
)


@st.composite
def spoiled_events(draw: Callable[..., Any]) -> list[dict[str, Any]]:
    """Events of a campaign with some values anywhere in them replaced."""
    events = json.loads(json.dumps(draw(st.lists(st.sampled_from(SAMPLES), min_size=1, max_size=12))))
    for _ in range(draw(st.integers(0, 3))):
        target: Any = draw(st.sampled_from(events))
        while True:
            key = draw(st.sampled_from(sorted(target)))
            if not isinstance(target[key], dict) or not target[key] or draw(st.booleans()):
                target[key] = draw(VALUES)
                break
            target = target[key]
    return events  # type: ignore[no-any-return]


def write_chained(folder: SessionFolder, events: list[dict[str, Any]]) -> None:
    """A journal whose chain holds, as a stranger can make one."""
    chain = Chain(folder.registration().digest)
    with folder.journal_path.open("wb") as file:
        for seq, event in enumerate(events):
            line, link = chain.extend(json.dumps({**event, "seq": seq}).encode())
            file.write(line)
            chain.advance(link)


def use(folder: SessionFolder, out: Path) -> None:
    """Everything that a reader does with a session; each step may fail with a plain error only."""
    steps: list[Callable[[], object]] = [
        lambda: folder.name,
        folder.spec,
        folder.summary,
        folder.state,
        folder.run,
        lambda: verify(folder.journal_path, folder.registration().digest),
        lambda: fold_of(folder),
        lambda: export(folder, FORMATS, out),
    ]
    for step in steps:
        said = outcome(step)
        assert "\x1b" not in said
        assert "\n" not in said


def outcome(step: Callable[[], object]) -> str:
    """The plain error that a step ends with; empty when with none. Any other exception fails the test."""
    try:
        step()
    except RefeedError as error:
        return str(error)
    return ""


def fold_of(folder: SessionFolder) -> None:
    """Fold and ask for everything that is computed from the fold."""
    state = fold_all(folder.spec(), read(folder.journal_path, folder.registration().digest))
    table = state.table()
    assert len(table.group) == state.live.pivots
    state.cache_tally()
    state.gaps()
    for row in state.problems.values():
        if row.texts[0]:
            read_texts(folder.texts_path, *row.texts)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(spoiled_events())
def test_any_spoiled_journal_with_a_good_chain_ends_plainly(
    tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, Any]]
) -> None:
    """Wrong types, absurd numbers, odd orders: records or one plain error, for every reader."""
    base = tmp_path_factory.mktemp("hostile")
    folder = Store(base).create(register(CampaignSpec()))
    write_chained(folder, events)
    use(folder, base / "out")


JSON = st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["spec.json", "events.jsonl", "run.json", "summary.json"]),
    st.one_of(st.binary(max_size=300), JSON.map(lambda value: json.dumps(value).encode())),
)
def test_any_content_of_any_file_ends_plainly(
    tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes
) -> None:
    """Each file of a session, replaced by anything."""
    base = tmp_path_factory.mktemp("hostile")
    folder = Store(base).create(register(CampaignSpec()))
    write_chained(folder, SAMPLES[:3])
    (folder.path / name).write_bytes(content)
    use(SessionFolder(folder.path), base / "out")
    for found in Store(base).folders():
        assert found.path == folder.path


@pytest.mark.parametrize(
    "spec", [{"alpha": 5.0}, {"problems": -1}, {"k": 2**80}, {"rollouts": 0}, {"decision": [9, 1]}]
)
def test_a_spec_out_of_range_is_refused_even_with_its_digest(tmp_path: Path, spec: dict[str, Any]) -> None:
    """A stranger can hash what he likes; its numbers are checked before anything is computed."""
    folder = Store(tmp_path).create(register(CampaignSpec()))
    stored = json.dumps(spec)
    folder.spec_path.write_text(f'{{"digest":"{sha256(stored.encode()).hexdigest()}","spec":{stored}}}')
    with pytest.raises(RefeedError) as caught:
        SessionFolder(folder.path).spec()
    assert caught.value.kind in {"spec", "integrity"}


@pytest.mark.parametrize("name", ["spec.json", "events.jsonl", "run.json", "summary.json", "lock", "texts"])
@pytest.mark.parametrize(
    "kind", ["link to a file", "link to nothing", "link to itself", "pipe", "folder", "socket-like device"]
)
def test_nothing_outside_the_folder_is_read_or_changed(tmp_path: Path, name: str, kind: str) -> None:
    """Links are not followed, pipes and devices not waited for, and the file that a link names keeps its bytes."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder = Store(tmp_path / "home").create(register(CampaignSpec()))
    write_chained(folder, SAMPLES)
    target = folder.path / name
    if target.is_dir():
        target.rmdir()
    target.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(target)
    elif kind == "folder":
        target.mkdir()
    elif kind == "socket-like device":
        os.mknod(target, stat.S_IFSOCK | 0o600)
    else:
        target.symlink_to({"link to a file": victim, "link to nothing": tmp_path / "new"}.get(kind, target))
    use(SessionFolder(folder.path), tmp_path / "out")
    assert victim.read_text() == "precious"
    assert not (tmp_path / "new").exists()
