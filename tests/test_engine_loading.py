"""A stop that is asked for while an engine loads, the closing of one, and reasons that are too long for a line."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from engine.backends.load import BUNDLED_PATH
from engine.worker.lifecycle import LONGEST_REASON, reason_of
from engine.worker.supervisor import launch, log_tail, send
from sessions.disk.hooks import OnEvent, keep
from sessions.disk.journal import verify
from sessions.disk.requests import look
from sessions.events import Ended, Notice
from sessions.spec import register
from sessions.state.fold import fold_all
from sessions.store import Store
from tests.helpers.campaigns import SMALL, registered
from tests.helpers.cli_sessions import worker_home
from tests.helpers.session_events import engine_ready, opened
from tests.helpers.workers import events_of, wait_for
from tui import cli, errors
from tui.viewer.session import LiveSession

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sessions.store import SessionFolder

PATIENCE = 60.0
# A library that is busy for minutes, which no signal and no error of ours could get out of it in a good way.
STUCK = """
import sys, time
from engine.worker import lifecycle as run
from engine.worker import __main__ as worker
def load(spec, hear):
    hear("loading weights", 0.25)
    while True:
        try:
            time.sleep(600)
        except BaseException:
            pass
run.load = load
sys.exit(worker.main(sys.argv[1:]))
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home; workers that a test leaves behind are killed."""
    yield from worker_home(tmp_path, monkeypatch)


def session_of(**changes: object) -> SessionFolder:
    """A registered campaign."""
    return Store().create(register(registered(SMALL, **changes)))


@pytest.fixture
def stuck() -> Iterator[tuple[SessionFolder, subprocess.Popen[bytes]]]:
    """A real worker whose engine loads for ever."""
    session = session_of()
    with session.log_path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", STUCK, str(session.path)], stderr=log, start_new_session=True
        )
    wait_for(lambda: bool(loading(session)), session, PATIENCE)
    yield session, process
    process.kill()
    process.wait()


def loading(session: SessionFolder) -> list[str]:
    """What a session's engine was heard to load."""
    if not session.journal_path.exists():
        return []
    return [event.text for event in events_of(session) if isinstance(event, Notice) and event.kind == "loading"]


def ended(session: SessionFolder) -> Ended:
    """The last event, which is an end, on an unbroken chain."""
    assert verify(session.journal_path, session.registration().digest).torn == 0
    last = events_of(session)[-1]
    assert isinstance(last, Ended), log_tail(session)
    return last


def test_an_abort_does_not_wait_for_weights_that_are_read(
    stuck: tuple[SessionFolder, subprocess.Popen[bytes]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Asked as a user would: said what happens, recorded, and gone within seconds, with nothing left behind."""
    session, process = stuck
    assert cli.run(["abort", session.id]) == errors.DONE
    assert "within 3 s while the engine loads" in capsys.readouterr().out
    assert process.wait(PATIENCE) == 1
    end = ended(session)
    assert (end.state, end.exit_code, end.reason) == ("aborted", 1, "aborted by the user")
    assert session.state() == "aborted"
    assert not session.live()
    assert not (session.path / ".reserve").exists()
    assert look(session.requests_path).requests == ()
    launch(session)
    wait_for(lambda: not session.live(), session, PATIENCE)
    assert session.state() == "finished", "what was left at once goes on"


def test_a_signal_does_not_wait_for_weights_either(stuck: tuple[SessionFolder, subprocess.Popen[bytes]]) -> None:
    """A machine that is taken back gives half a minute; the journal is closed in time."""
    session, process = stuck
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 128 + signal.SIGTERM
    assert (ended(session).state, ended(session).exit_code) == ("interrupted", 128 + signal.SIGTERM)


def test_a_command_hears_of_an_end_while_loading(tmp_path: Path) -> None:
    """The process stays until it was told."""
    session = session_of()
    code = "import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())"
    keep(session, OnEvent.parse(f'{sys.executable} -c "{code}" {tmp_path / "told"}'))
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", STUCK, str(session.path)], stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        wait_for(lambda: bool(loading(session)), session, PATIENCE)
        send(session, "abort")
        assert process.wait(PATIENCE) == 1
    finally:
        process.kill()
    assert json.loads((tmp_path / "told").read_text())["state"] == "aborted"


def test_an_engine_that_closes_is_said_to_close() -> None:
    """After an abort, or any end, a viewer does not say "between problems" until the engine is gone."""
    session = session_of(problems=40)
    launch(session)
    wait_for(lambda: session.summary().events > 5, session, PATIENCE)
    send(session, "abort")
    wait_for(lambda: not session.live(), session, PATIENCE)
    *before, notice, end = events_of(session)
    assert isinstance(end, Ended)
    assert isinstance(notice, Notice)
    assert (notice.kind, notice.text) == ("closing", "closing the engine")
    reading = LiveSession.of(session, "attach")
    for event in before:
        reading.add(event)
    assert reading.add(notice) == []
    assert reading.narrator.current(0.0).endswith("closing the engine")
    state = fold_all(session.spec(), [opened(), engine_ready(), notice])
    assert (state.current.stage, state.current.problem) == ("closing", None)


def test_a_reason_of_any_length_ends_with_where_all_of_it_is() -> None:
    """What fits is left as it was said."""
    assert reason_of("x" * LONGEST_REASON) == "x" * LONGEST_REASON
    cut = reason_of("y" * (LONGEST_REASON + 1))
    assert cut.startswith("y" * LONGEST_REASON)
    assert cut.endswith("... (worker.log has all of it)")


def test_nothing_of_a_long_cause_is_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """More than a line holds: viewers show what the journal has, which says where the rest is, and there it is."""
    model = tmp_path / "model"
    shutil.copytree(BUNDLED_PATH, model)
    name = "Mamba" + "ForVeryLong" * 1000 + "CausalLM"
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"architectures": [name]}))
    session = session_of(model=str(model))
    launch(session)
    assert cli.run(["attach", session.id, "--plain"]) == errors.FAILED
    said = capsys.readouterr()
    reason = ended(session).reason
    assert reason.endswith("(worker.log has all of it)")
    assert name[:1000] in reason
    assert reason in said.err
    assert reason in said.out
    assert name in session.log_path.read_text()
