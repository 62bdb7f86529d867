"""Spawn, find and command a worker."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, BinaryIO, Final

import msgspec

from engine.worker.watchdog import LOADING_GRACE
from sessions.disk.files import failure, open_regular
from sessions.disk.folder import home, process_state
from sessions.disk.requests import ask, remove
from sessions.errors import Kind, RefeedError
from sessions.store import FRESH_SECONDS
from sessions.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sessions.disk.folder import ProcessState
    from sessions.disk.hooks import Change
    from sessions.disk.requests import Command
    from sessions.store import SessionFolder

    Hear = Callable[[str, float], None]

UNREAD: Final = 4096  # bytes of steps that may wait in the pipe, which holds 64 KiB: the last word needs room, too


class Step(msgspec.Struct, frozen=True, tag="step", tag_field="said"):
    """Something before "ready" that takes its time.

    Attributes:
        stage: what is done.
        fraction: of it, 0 to 1.
    """

    stage: str
    fraction: float


class Ready(msgspec.Struct, frozen=True, tag="ready", tag_field="said"):
    """The last word to the launcher.

    Attributes:
        ok: whether it holds the lock and opened the journal.
        kind: of the error otherwise.
        message: of the error.
        hint: of the error.
    """

    ok: bool
    kind: Kind = "failed"
    message: str = ""
    hint: str = ""

    def require(self) -> None:
        """Raise the worker's error, if it had one.

        Raises:
            RefeedError: as in the worker.
        """
        if not self.ok:
            raise RefeedError(self.kind, self.message, self.hint)


class Launcher:
    """The worker's end of the pipe to whoever launched it, who may have gone away: that is no reason to stop."""

    def __init__(self, fd: int | None) -> None:
        """Tell at this descriptor; None when nobody listens."""
        self._fd = fd

    def step(self, stage: str, fraction: float) -> None:
        """Say what is done before "ready"; nothing to a launcher that does not listen, for it may be stopped."""
        if self._fd is not None and _unread(self._fd) < UNREAD:
            self._write(self._fd, Step(stage, fraction))

    def tell(self, ready: Ready) -> None:
        """Say the last word and close the pipe; later ones are not said, for the number may be another file's."""
        fd, self._fd = self._fd, None
        if fd is not None:
            try:
                self._write(fd, ready)
            finally:
                os.close(fd)

    @staticmethod
    def _write(fd: int, word: Step | Ready) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(fd, msgspec.json.encode(word) + b"\n")


def _unread(fd: int) -> int:
    """Bytes that wait in a pipe; its writing end can be asked, too."""
    waiting: int = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * struct.calcsize("i")))[0]
    return waiting


READY_SECONDS: Final = 60.0
LOG_LINES: Final = 5
WAIT_STEP: Final = 0.2
COMING_SECONDS: Final = 10.0
COMING_STEP: Final = 0.05
SHOWN: Final = 60
ANSWER_SECONDS: Final = 10.0  # a worker looks ten times a second
FAR_SECONDS: Final = 60.0  # network disks show a new file on another host after up to a minute
GONE_SECONDS: Final = 1.0
HELD: Final = "the engine stays loaded and the machine billed"
SAID: Final[dict[Command, str]] = {
    "abort": (
        f"aborting within one engine step, or within {LOADING_GRACE:.0f} s while the engine loads; "
        "nothing that is recorded is lost"
    ),
    "pause": f"pausing before the next problem; {HELD}",
    "resume": "going on",
}
STATES: Final[dict[ProcessState, str]] = {
    "running": "runs, and does not come to it",
    "stopped": "is stopped, as by SIGSTOP or a debugger; `kill -CONT` lets it go on",
    "gone": "is gone",
    "elsewhere": "is on host",
    "unknown": "is not known",
}


def log_tail(session: SessionFolder, lines: int = LOG_LINES) -> str:
    """Return the last lines of worker.log, or a note that there are none."""
    try:
        with os.fdopen(open_regular(session.log_path), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 8192))
            text = file.read().decode(errors="replace")
    except (OSError, RefeedError) as error:
        return f"worker.log cannot be read: {error}"
    return "\n".join(text.splitlines()[-lines:]) or "worker.log is empty"


@dataclass(frozen=True, slots=True)
class How:
    """What a run is started with, beside its session.

    Attributes:
        past_stop: let it continue past the sequential stop.
        allow_changed_engine: let it continue on changed numerics.
        change: to the command that hears of events; kept by the worker once nothing speaks against the run. None leaves
            the one that is kept.
    """

    past_stop: bool = False
    allow_changed_engine: bool = False
    change: Change | None = None


_PLAIN: Final = How()


def _command(session: SessionFolder, how: How, ready_fd: int) -> list[str]:
    """The worker's command line; -P keeps folders called `engine` in the working directory out."""
    command = [sys.executable, "-P", "-m", "engine.worker", str(session.path), "--ready-fd", str(ready_fd)]
    flags = {
        "--past-stop": how.past_stop,
        "--allow-changed-engine": how.allow_changed_engine,
        "--change-on-stdin": how.change is not None,
    }
    return command + [flag for flag, wanted in flags.items() if wanted]


def check_not_elsewhere(session: SessionFolder) -> None:
    """Pass unless the session seems to be running on another host whose lock is not seen here.

    Raises:
        RefeedError: kind "session", naming the host.
    """
    host = session.elsewhere()
    if host:
        raise RefeedError(
            "session",
            f"session {session.id} seems to be running on host {host}: it wrote moments ago",
            f"go there; if that worker is dead, try again in {FRESH_SECONDS:.0f} s",
        )


def _open_log(session: SessionFolder) -> BinaryIO:
    """The worker's log, for appending; a stranger's folder may hold a link or a pipe of that name.

    Raises:
        RefeedError: kind "integrity" when it is no plain file; kind "failed" when it cannot be written.
    """
    try:
        return os.fdopen(open_regular(session.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab")
    except OSError as error:
        raise failure("write", session.log_path, error) from error


@contextlib.contextmanager
def _input(how: How) -> Iterator[int | IO[bytes]]:
    """What the worker reads: a change of its command, which no list of processes shows; else nothing."""
    if how.change is None:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(msgspec.json.encode(how.change))
        file.seek(0)
        yield file


def _start(session: SessionFolder, how: How, ready_fd: int) -> subprocess.Popen[bytes]:
    """Start a worker in a session of processes of its own, so that it outlives its launcher and the terminal."""
    with _open_log(session) as log, _input(how) as given:
        return subprocess.Popen(
            _command(session, how, ready_fd),
            stdin=given,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(ready_fd,),
            cwd=session.path,
            env={**os.environ, "REFEED_TUI_HOME": str(home())},  # a relative one would mean another place there
        )


def _words(fd: int) -> Iterator[Step | Ready | None]:
    """What a worker tells, as it comes, and None for each moment without a word; ends when the worker does."""
    rest = b""
    while True:
        readable, _, _ = select.select([fd], [], [], WAIT_STEP)
        if not readable:
            yield None
            continue
        part = os.read(fd, 65536)
        if not part:
            return
        *lines, rest = (rest + part).split(b"\n")
        yield from (msgspec.json.decode(line, type=Step | Ready) for line in lines)


def _await_ready(fd: int, hear: Hear | None) -> Ready | None:
    """The worker's last word; None when it died without one.

    Raises:
        RefeedError: kind "failed" when it says nothing for too long.
    """
    heard = time.monotonic()
    for word in _words(fd):
        if isinstance(word, Ready):
            return word
        if word is None and time.monotonic() - heard > READY_SECONDS:
            raise RefeedError("failed", f"the worker said nothing for {READY_SECONDS:.0f} s", "see its worker.log")
        if word is not None:
            heard = time.monotonic()
            if hear is not None:
                hear(word.stage, word.fraction)
    return None


def launch(session: SessionFolder, how: How = _PLAIN, *, hear: Hear | None = None) -> None:
    """Start a session's worker, detached, and return once it is ready: lock held, journal open.

    A session that ran before has its data and weights checked first, as long as that takes. There is no third state: it
    is ready, or this raises with the cause, and then the session is what it was.

    Args:
        session: registered, and not running.
        how: what the run is started with.
        hear: told what the worker does before it is ready, and how far it is, 0 to 1.

    Raises:
        RefeedError: the worker's own error, or its death with the end of worker.log.
    """
    try:
        check_not_elsewhere(session)
        _launch(session, how, hear)
    except (RefeedError, OSError):
        session.give_up()
        raise


def _launch(session: SessionFolder, how: How, hear: Hear | None) -> None:
    read_fd, write_fd = os.pipe()
    with os.fdopen(read_fd, "rb", buffering=0):
        with os.fdopen(write_fd, "wb", buffering=0):
            process = _start(session, how, write_fd)
        try:
            ready = _await_ready(read_fd, hear)
        except RefeedError:
            process.kill()
            raise
    if ready is None:
        code = process.wait()
        raise RefeedError(
            "failed",
            f"the worker died with exit code {code} before it was ready; worker.log ends:\n{log_tail(session)}",
        )
    # Nobody waits for the worker; should the launcher outlive it, this reaps it.
    threading.Thread(target=process.wait, name="reaper", daemon=True).start()
    ready.require()


def _await_worker(session: SessionFolder) -> None:
    """Let a worker that was started moments ago come so far that it can be asked: a fraction of a second."""
    deadline = time.monotonic() + COMING_SECONDS
    while _coming(session) and time.monotonic() < deadline:
        time.sleep(COMING_STEP)


def _coming(session: SessionFolder) -> bool:
    """Whether a session waits for its first worker, or one has its lock and does not read requests yet."""
    if session.starting():
        return True
    if not session.live():
        return False
    run = session.run()
    return run is None or not (run.elsewhere() or run.alive())


def _there(session: SessionFolder) -> bool:
    """Whether a worker may read what is asked: its lock is held, or it is of another host and has not ended."""
    if session.live():
        return True
    run = session.run()
    return run is not None and run.elsewhere() and not session.summary().ended


def send(session: SessionFolder, command: Command) -> str:
    """Ask something of a session's worker, and wait until it has taken it; one that is just starting is waited for.

    Returns:
        what the worker does now, a sentence.

    Raises:
        RefeedError: kind "session" when no worker runs; kind "failed" when it does not answer. Then the request
            stays, and is obeyed when the worker comes to it.
    """
    _await_worker(session)
    if not _there(session):
        raise RefeedError("session", f"session {session.id} is not running", f"its state is {session.state()}")
    paused = session.summary().paused
    path = ask(session.requests_path, command)
    state = _await_taken(session, path)
    if not path.exists():
        return f"paused already; {HELD}" if command == "pause" and paused else SAID[command]
    if not _there(session) and session.summary().ended:
        remove(path.parent, path.name)  # nobody is left to take it
        raise RefeedError("session", f"session {session.id} has just ended", f"its state is {session.state()}")
    raise RefeedError(
        "failed",
        f"asked; it has not answered: the worker of {session.id} {STATES[state]}{_host(session, state)}",
        f"the request stays and will be obeyed when the worker comes to it; remove {path} to take it back",
    )


def _host(session: SessionFolder, state: ProcessState) -> str:
    run = session.run()
    return f" {printable(run.host, SHOWN)}" if run is not None and state == "elsewhere" else ""


def _await_taken(session: SessionFolder, path: Path) -> ProcessState:
    """Wait until a request was taken, as long as that is worth it; return the state of the worker's process."""
    began = time.monotonic()
    while True:
        state = process_state(session.run())
        waited = time.monotonic() - began
        hopeless = waited > GONE_SECONDS and (state in {"stopped", "gone"} or not _there(session))
        if not path.exists() or hopeless or waited > (FAR_SECONDS if state == "elsewhere" else ANSWER_SECONDS):
            return state
        time.sleep(COMING_STEP)
