from __future__ import annotations

import contextlib
import itertools
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from sessions.disk.journal import read
from sessions.events import CacheFailure, Ended, Notice, PassStarted, Paused, Progress
from sessions.spec import register
from sessions.state.fold import fold, new_state
from sessions.store import SessionFolder, Store
from tests.helpers.cli_sessions import CROSSED, MIXED, SAME, SPEC, campaign, measured, write
from tests.helpers.session_events import closed, engine_ready, opened, trunks_done
from tui import cli, errors
from tui.viewer.narrator import EventNarrator
from tui.viewer.plain import last_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions.events import Event

REPO = Path(__file__).resolve().parent.parent

# A worker as far as a viewer can tell: it holds the lock and appends to the journal. Commands come on stdin.
WORKER = """
import sys
from pathlib import Path
from sessions.events import Ended
from sessions.disk.journal import Journal
from sessions.disk.folder import lock
from sessions.store import SessionFolder
from tests.helpers.cli_sessions import MIXED, measured
from tests.helpers.session_events import engine_ready, opened
folder = SessionFolder(Path(sys.argv[1]))
with lock(folder.lock_path), Journal.open(folder.journal_path, folder.registration().digest) as journal:
    journal.append(opened())
    journal.append(engine_ready())
    print("ready", flush=True)
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        if word == "problem":
            for event in measured(int(rest), MIXED[int(rest)]):
                journal.append(event)
        elif word == "end":
            state, code = rest.split()
            journal.append(Ended(state=state, exit_code=int(code), reason=f"{state} by the test"))
            break
        print("done", flush=True)
"""


class Worker:
    """A process that holds a session's lock and writes what the test says."""

    def __init__(self, folder: SessionFolder) -> None:
        """Start it and wait until it holds the lock."""
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(folder.path)],
            cwd=REPO,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.answer()

    def answer(self) -> None:
        """Wait for its next line."""
        assert self.process.stdout is not None
        self.process.stdout.readline()

    def tell(self, command: str) -> None:
        """Have it do something, and wait until it is done."""
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        self.answer()

    def stop(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty home for every test."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path / "home"))


@pytest.fixture
def worker() -> Iterator[Worker]:
    """A running worker on a session named "live"."""
    started = Worker(Store().create(register(SPEC, name="live")))
    yield started
    started.stop()


def attach(*args: str) -> subprocess.Popen[str]:
    """`refeed-tui attach` in a process of its own."""
    command = [sys.executable, "-m", "tui.cli", "attach", *args]
    return subprocess.Popen(command, cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def read_until(process: subprocess.Popen[str], text: str) -> list[str]:
    """Lines of a process up to the first that holds some text."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return lines
    pytest.fail(f"{text!r} never came; got {lines}")


def test_a_finished_session_is_told_and_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """Attach to what is over: a line a problem, the report, exit 0."""
    write(campaign())
    assert cli.run(["attach"]) == errors.DONE
    shown = capsys.readouterr().out
    assert "problem 1/3 (task 0) closed: 3 pivots; of 2 eligible 1 changed sign when re-fed, 0 in the replica" in shown
    assert shown.index("finished: all problems measured") < shown.index("Table 1")


@pytest.mark.parametrize(
    ("state", "code"), [("finished", 0), ("stopped", 0), ("aborted", 4), ("aborted", 1), ("failed", 1)]
)
def test_the_exit_code_is_the_campaigns(state: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever watches gets the worker's exit code, and one line on stderr when it is not 0."""
    events = [*campaign()[:-1], Ended(state=state, exit_code=code, reason="because")]  # type: ignore[arg-type]
    folder = write(events)
    assert cli.run(["attach", folder.id]) == code
    err = capsys.readouterr().err
    assert err == ("" if code == 0 else f"refeed-tui: session {folder.id} {state}: because\n")


def test_a_dead_worker_is_reported_as_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    """A freed lock without an end: exit 1, the last log lines, and how to continue."""
    folder = write(campaign()[:-3])
    folder.log_path.write_text("loading\nKilled by \x1b[31mthe kernel\n")
    assert cli.run(["attach", folder.id]) == errors.FAILED
    out, err = capsys.readouterr()
    assert "Killed by \\x1b[31mthe kernel" in out
    assert "was interrupted" in err
    assert f"refeed-tui resume {folder.id}" in err
    assert err.count("\n") == 1


def test_a_live_session_is_followed_to_its_end(worker: Worker) -> None:
    """Lines come as problems close, and the viewer ends with the run."""
    viewer = attach("live")
    read_until(viewer, "engine ready")
    worker.tell("problem 0")
    read_until(viewer, "problem 1/3 (task 0) closed")
    worker.tell("end finished 0")
    out, err = viewer.communicate(timeout=30)
    assert "Table 1" in out
    assert (viewer.returncode, err) == (0, "")


def test_silence_is_filled_at_least_every_two_seconds(worker: Worker) -> None:
    """While nothing happens, lines come about 2 s apart; a busy machine may stretch one interval, not the shortest."""
    assert worker.process.poll() is None
    viewer = attach("live")
    read_until(viewer, "engine ready")
    assert viewer.stdout is not None
    seconds = []
    for _ in range(4):
        clock, _, doing = viewer.stdout.readline().partition("] ")
        assert doing == "between problems\n"
        seconds.append(int(clock.rpartition(":")[2]))
    assert min(after - before for before, after in itertools.pairwise(seconds)) <= 3  # whole seconds
    viewer.kill()
    viewer.communicate()


def test_a_killed_worker_ends_the_viewer(worker: Worker) -> None:
    """Kill -9 frees the lock; the viewer reports what was measured and exits 1."""
    worker.tell("problem 0")
    viewer = attach("live")
    read_until(viewer, "closed")
    worker.stop()
    out, err = viewer.communicate(timeout=30)
    assert viewer.returncode == errors.FAILED
    assert "was interrupted" in err
    assert "Table 1" in out


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_end_the_viewer_and_leave_the_campaign(worker: Worker, number: signal.Signals, code: int) -> None:
    """Ctrl-C detaches and says how to come back and how to abort; the worker goes on."""
    viewer = attach("live")
    read_until(viewer, "engine ready")
    os.kill(viewer.pid, number)
    out, err = viewer.communicate(timeout=30)
    assert viewer.returncode == code
    assert err == ""
    if number == signal.SIGINT:
        assert "refeed-tui attach" in out
        assert "refeed-tui abort" in out
    assert worker.process.poll() is None


def test_a_resumed_session_does_not_end_at_its_old_end(capsys: pytest.CaptureFixture[str]) -> None:
    """An end of an earlier run is history."""
    first = [opened(), engine_ready(), *measured(0, MIXED[0]), Ended(state="aborted", exit_code=4, reason="a miss")]
    folder = write([*first, opened(), engine_ready(), *measured(1, MIXED[1]), *measured(2, MIXED[2]),
                    Ended(state="finished", exit_code=0, reason="all problems measured")])  # fmt: skip
    assert cli.run(["attach", folder.id]) == errors.DONE
    shown = capsys.readouterr().out
    assert "resumed 00:00 after the run before on" in shown
    assert "aborted: a miss" in shown


class Told:
    """A narrator beside the state that it reads."""

    def __init__(self) -> None:
        self.state = new_state(SPEC)
        self.narrator = EventNarrator(self.state)

    def hear(self, event: Event) -> list[str]:
        """Fold an event, and return its lines."""
        fold(self.state, event)
        return self.narrator.lines(event)

    def now(self, waited: float) -> str:
        """What is running."""
        return self.narrator.current(waited)


def told(*events: Event) -> list[str]:
    """Lines that these events deserve, without their clocks."""
    teller = Told()
    return [line.partition("] ")[2] for event in events for line in teller.hear(event)]


def test_cache_failures_are_told_in_words() -> None:
    """Where, which request, what was expected, what came, and what it ends."""
    failure = CacheFailure(problem=5, attempt=1, stage="exact-2", request="p5-r2-x", rollout=2, position=113,
                           expected=112, found=96, reason="a block was evicted", policy="abort")  # fmt: skip
    (line,) = told(failure)
    assert line == (
        "CACHE CHECK FAILED: task 5, exact-2, request p5-r2-x (rollout 2, position 113) had to hit 112 cached tokens "
        "and reported 96; a block was evicted; the campaign ends here"
    )


def test_a_missing_count_is_told_as_missing() -> None:
    """No count is not zero."""
    failure = CacheFailure(problem=5, attempt=1, stage="exact-1", request="r", rollout=None, position=None,
                           expected=112, found=None, reason="not reported", policy="drop-problem")  # fmt: skip
    assert "reported no count at all" in told(failure)[0]


def test_what_runs_is_told_from_the_last_progress() -> None:
    """The line between events names problem, pass, requests, checks and speed."""
    teller = Told()
    running = Progress(problem=4, stage="re-feed", done=12, total=80, verified=12, failed=0, tokens=900,
                       tokens_per_s=4321.0, kv_use=0.25, preemptions=1, mono=61.0)  # fmt: skip
    for event in (opened(), engine_ready(), PassStarted(problem=4, attempt=1, name="re-feed", requests=80), running):
        teller.hear(event)
    assert teller.now(3.0) == (
        "[01:04] problem 1/3 (task 4) re-feed: 12/80 done, 12 verified, 0 failed, 4,321 tokens/s, KV 25%, 1 preemption"
    )


def test_the_clock_of_the_lines_goes_on_after_a_resume() -> None:
    """Lines are stamped with the time that workers ran; how long nothing ran is said where it ends."""
    teller = Told()
    ended = Ended(state="interrupted", exit_code=143, reason="the worker got SIGTERM")
    events = ((opened(), 0, 0), (ended, 95, 95), (opened(), 3695, 0), (Paused(), 3705, 10))
    lines = [
        line for event, wall, mono in events for line in teller.hear(replace(event, wall=float(wall), mono=float(mono)))
    ]
    assert [line[:7] for line in lines] == ["[00:00]", "[01:35]", "[01:35]", "[01:45]"]
    assert lines[2].startswith("[01:35] resumed 1:00:00 after the run before on ")
    assert teller.now(5.0).startswith("[01:50] ")


def test_loading_pausing_and_screening_are_told() -> None:
    """What a person waits for has words; loading steps only fill silence."""
    teller = Told()
    assert teller.hear(opened()) != []
    assert teller.hear(Notice(kind="loading", text="reading weights", fraction=0.5)) == []
    assert teller.now(0.0).endswith("reading weights (50%)")
    assert teller.hear(Notice(kind="loading", text="warming up", fraction=0.0)) == []
    assert teller.now(0.0).endswith("] warming up"), "a stage that only began has no share to tell"
    assert "stay held (and billed)" in teller.hear(Paused())[0]
    assert told(opened(), trunks_done(3), closed(3, 0, outcome="screened-out"))[-1] == "task 3 screened out"
    assert told(Notice(kind="warning", text="odd \x1b[1m")) == ["WARNING: odd \\x1b[1m"]


def test_time_left_is_told_once_there_is_a_pace() -> None:
    """Two measured problems give a pace; one does not."""
    teller = Told()
    lines = []
    for event in [opened(), engine_ready(), *measured(0, (SAME,)), *measured(1, (CROSSED,))]:
        lines += teller.hear(event)
    assert "left" not in lines[-2]
    assert "about 00:00 left" in lines[-1]


def test_after_the_last_problem_the_engine_is_being_closed() -> None:
    """To give its memory back takes seconds, in which nothing is measured any more."""
    teller = Told()
    for event in [opened(), engine_ready(), *measured(0, (SAME,)), *measured(1, (CROSSED,))]:
        teller.hear(event)
    assert teller.now(0.0).endswith("] between problems")
    for event in measured(2, (SAME,)):
        teller.hear(event)
    assert teller.now(0.0).endswith("] closing the engine")


def test_last_lines_of_a_log_are_few_and_safe(tmp_path: Path) -> None:
    """Only the tail of a long log is read, carriage-return bars included, and none of it acts."""
    log = tmp_path / "worker.log"
    log.write_bytes(b"x" * 100_000 + b"\nbar 10%\rbar 20%\n\xff\x1b]0;t\x07\n\n")
    assert last_lines(log, 2) == ["bar 10%\\rbar 20%", "\ufffd\\x1b]0;t\\x07"]
    assert last_lines(tmp_path / "absent") == []


def test_replay_in_plain_lines_waits_only_when_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --speed the recorded lines come at once; with it, on the recorded clock divided by it."""
    folder = write(campaign())
    waits: list[float] = []
    monkeypatch.setattr("tui.commands.display.time.sleep", waits.append)
    assert cli.run(["replay", folder.id]) == errors.DONE
    at_once = capsys.readouterr().out
    assert waits == []
    assert at_once.index("problem 3/3") < at_once.index("Table 1")
    assert cli.run(["replay", folder.id, "--speed", "0.5"]) == errors.DONE
    assert capsys.readouterr().out == at_once
    last = Told()
    for event in read(folder.journal_path, folder.registration().digest):
        last.hear(event)
    assert sum(waits) == pytest.approx(last.state.mono / 0.5)


def test_a_dumb_terminal_gets_plain_lines() -> None:
    """On a real terminal with TERM=dumb no dashboard is tried."""
    write(campaign(), name="over")
    program = [sys.executable, "-m", "tui.cli", "attach", "over"]
    parent, child = pty.openpty()
    done = subprocess.Popen(
        program, cwd=REPO, stdin=child, stdout=child, stderr=child, env={**os.environ, "TERM": "dumb"}
    )
    os.close(child)
    shown = b""
    with contextlib.suppress(OSError):  # a pty's end reads as an error
        while part := os.read(parent, 65536):
            shown += part
    os.close(parent)
    assert done.wait(timeout=30) == errors.DONE
    assert b"Table 1" in shown
    assert b"\x1b[" not in shown
