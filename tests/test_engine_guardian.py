"""The guardian: nothing of a worker is left when it has died, whatever it died of, and nothing else is touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.helpers.cli_sessions import REPO
from tests.helpers.processes import gone, kill_all, processes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A child that was forked and has one itself, and one that is another program, leaves the group and ignores what it can.
WORKER = """
import os, signal, subprocess, sys, time
from engine.worker.guardian import guard
from sessions.errors import RefeedError
assert guard() is True
if os.fork() == 0:
    os.fork()
    time.sleep(600)
IGNORE = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; print(flush=1); time.sleep(600)"
stubborn = subprocess.Popen([sys.executable, "-c", IGNORE], stdout=subprocess.PIPE, process_group=0)
stubborn.stdout.readline()
"""
UP_AND_ASLEEP = "print('up', flush=True); time.sleep(600)"


class Worker(NamedTuple):
    """A stand-in for a worker that has started, its guardian, and what it said at once."""

    process: subprocess.Popen[str]
    log: Path
    said: str

    def guardian(self) -> int:
        """The guardian's process id."""
        command = "-m\0engine.worker.guardian\0"
        (pid,) = [pid for pid in processes_of(self.process.pid) if command in Path(f"/proc/{pid}/cmdline").read_text()]
        return pid


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Worker]]:
    """Start Python code as the leader of a session, and wait for the first line that it prints."""
    begun: list[subprocess.Popen[str]] = []

    def run(code: str) -> Worker:
        log = tmp_path / "worker.log"
        with log.open("a") as file:
            process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,
                text=True,
                env={**os.environ, "PYTHONPATH": str(REPO)},
            )
        begun.append(process)
        assert process.stdout is not None
        return Worker(process, log, process.stdout.readline().strip())

    yield run
    for process in begun:
        kill_all(process.pid)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV], ids=lambda n: n.name
)
def test_nothing_is_left_of_a_worker_that_a_signal_killed(
    start: Callable[[str], Worker], number: signal.Signals
) -> None:
    """Forked children, theirs, and another program in a group of its own go within moments, and then the guardian."""
    worker = start(WORKER + UP_AND_ASLEEP)
    assert worker.said == "up", worker.log.read_text()
    others = set(processes_of(worker.process.pid)) - {worker.process.pid, worker.guardian()}
    assert len(others) == 3
    os.kill(worker.process.pid, number)
    assert gone(worker.process.pid)
    assert worker.process.wait() == -number
    log = worker.log.read_text()
    assert f"worker {worker.process.pid} ended and left processes" in log
    assert all(str(pid) in log for pid in others)


def test_a_kill_of_the_whole_group_does_not_reach_the_guardian(start: Callable[[str], Worker]) -> None:
    """It ends what the group's end left: a process in another group."""
    worker = start(WORKER + UP_AND_ASLEEP)
    os.killpg(worker.process.pid, signal.SIGKILL)
    assert gone(worker.process.pid)


@pytest.mark.parametrize("end", ["sys.exit(7)", "os._exit(7)"])
def test_a_worker_that_ends_by_itself_keeps_its_exit_code_and_leaves_nothing(
    start: Callable[[str], Worker], end: str
) -> None:
    """The guardian acts only once the worker has gone, so what a campaign ended with is what the launcher sees."""
    worker = start(f"{WORKER}print('up', flush=True); {end}")
    assert worker.process.wait() == 7
    assert gone(worker.process.pid)


def test_a_worker_without_children_ends_without_a_word(start: Callable[[str], Worker]) -> None:
    """With nothing left behind there is nothing to say, and the guardian goes too."""
    worker = start("from engine.worker.guardian import guard; assert guard(); print('up', flush=True)")
    assert worker.process.wait() == 0
    assert gone(worker.process.pid)
    assert worker.log.read_text() == ""


def test_signals_that_ask_a_session_to_end_do_not_take_the_guardian_away(start: Callable[[str], Worker]) -> None:
    """It may be told to end together with the worker, and must stay until that has ended."""
    worker = start(WORKER + UP_AND_ASLEEP)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        os.kill(worker.guardian(), number)
    assert worker.guardian()
    os.kill(worker.process.pid, signal.SIGKILL)
    assert gone(worker.process.pid)


def test_what_leads_a_session_of_its_own_is_left_alone(start: Callable[[str], Worker]) -> None:
    """The command of --on-event is a person's; it runs to its own end."""
    away = "subprocess.Popen(['sleep', '600'], start_new_session=True)"
    worker = start(f"{WORKER}print({away}.pid, flush=True); time.sleep(600)")
    stranger = int(worker.said)
    os.kill(worker.process.pid, signal.SIGKILL)
    assert gone(worker.process.pid)
    assert processes_of(stranger) == [stranger]
    kill_all(stranger)


def test_shared_memory_is_unlinked_although_its_users_were_killed(start: Callable[[str], Worker]) -> None:
    """Python's resource tracker is given the time to clean up: an engine shares hundreds of megabytes."""
    share = "from multiprocessing.shared_memory import SharedMemory; m = SharedMemory(create=True, size=4096)\n"
    worker = start(f"{share}{WORKER}print(m.name, flush=True); time.sleep(600)")
    segment = Path("/dev/shm", worker.said)  # noqa: S108 - where the kernel keeps it
    assert segment.exists()
    assert len(processes_of(worker.process.pid)) == 6
    os.kill(worker.process.pid, signal.SIGKILL)
    assert gone(worker.process.pid)
    left = segment.exists()
    segment.unlink(missing_ok=True)
    assert not left


def test_a_child_of_a_child_keeps_a_file_that_took_the_lifeline_s_number(start: Callable[[str], Worker]) -> None:
    """A fork closes the worker's end of the pipe once; afterwards the number may be another file's."""
    code = """
import os
from engine.worker.guardian import guard
before = set(os.listdir('/proc/self/fd')); assert guard(); opened = set(os.listdir('/proc/self/fd')) - before
(number,) = map(int, opened)
if os.fork() == 0:
    while (taken := os.open('/dev/null', os.O_RDONLY)) < number:
        pass
    assert taken == number, 'it was not closed'
    if os.fork() == 0:
        os.fstat(taken); print('open', flush=True); os._exit(0)
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    worker = start(code)
    assert (worker.said, worker.process.wait()) == ("open", 0), worker.log.read_text()


def test_a_process_that_leads_no_session_gets_no_guardian() -> None:
    """It lives among others' processes, a shell's for instance: none of them may be killed with it."""
    code = "import os; from engine.worker.guardian import guard; print(guard(), os.getpid() == os.getsid(0))"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize(
    ("python", "why"), [("/no/such/python", "cannot be started"), ("/bin/false", "died at its start")]
)
def test_a_guardian_that_cannot_start_is_an_error(start: Callable[[str], Worker], python: str, why: str) -> None:
    """A worker does not go on believing that it has one."""
    code = f"import sys; sys.executable = {python!r}\nfrom engine.worker.guardian import guard\ntry:\n    guard()\n"
    worker = start(f"{code}except Exception as error:\n    print(type(error).__name__, error, flush=True)")
    assert worker.said.startswith("RefeedError")
    assert why in worker.said


def test_a_guardian_touches_no_session_but_its_own() -> None:
    """Started by hand with another session's number it refuses."""
    command = [sys.executable, "-P", "-m", "engine.worker.guardian", "1"]
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    done = subprocess.run(command, capture_output=True, text=True, input="", env=environment, check=False)
    assert done.returncode == 2
    assert "in the worker's session" in done.stderr
