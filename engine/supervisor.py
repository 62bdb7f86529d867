"""Spawn, find and command a worker."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec

from engine.controlsocket import ask, check_private
from engine.ready import Ready
from sessions.errors import RefeedError
from sessions.files import failure, open_regular
from sessions.printable import printable
from sessions.store import FRESH_SECONDS, home

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.controlsocket import Answer, Command
    from sessions.store import SessionFolder

READY_SECONDS: Final = 60.0
LOG_LINES: Final = 5
WAIT_STEP: Final = 0.2
SHOWN: Final = 60


def log_tail(session: SessionFolder, lines: int = LOG_LINES) -> str:
    """Return the last lines of worker.log, or a note that there are none."""
    try:
        with os.fdopen(open_regular(session.log_path), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 8192))
            text = file.read().decode(errors="replace")
    except (OSError, RefeedError) as error:
        return f"worker.log cannot be read: {error}"
    return "\n".join(text.splitlines()[-lines:]) or "worker.log is empty"


def worker_command(session: SessionFolder, ready_fd: int, *, past_stop: bool, allow_changed_engine: bool) -> list[str]:
    """Return the worker's command line; -P keeps folders called `engine` in the working directory out."""
    command = [sys.executable, "-P", "-m", "engine.worker", str(session.path), "--ready-fd", str(ready_fd)]
    if past_stop:
        command.append("--past-stop")
    if allow_changed_engine:
        command.append("--allow-changed-engine")
    return command


def _read_ready(fd: int, process: subprocess.Popen[bytes], on_wait: Callable[[], None] | None) -> bytes:
    deadline = time.monotonic() + READY_SECONDS
    line = b""
    while not line.endswith(b"\n"):
        if time.monotonic() > deadline:
            process.kill()
            raise RefeedError("failed", f"the worker was not ready within {READY_SECONDS:.0f} s", "see its worker.log")
        readable, _, _ = select.select([fd], [], [], WAIT_STEP)
        if on_wait is not None:
            on_wait()
        if readable:
            part = os.read(fd, 65536)
            if not part:
                break
            line += part
    return line


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


def launch(
    session: SessionFolder,
    *,
    past_stop: bool = False,
    allow_changed_engine: bool = False,
    on_wait: Callable[[], None] | None = None,
) -> None:
    """Start a session's worker, detached, and return once it is ready: lock held, socket bound, journal open.

    There is no third state: it is ready, or this raises with the cause.

    Args:
        session: registered, and not running.
        past_stop: let it continue past the sequential stop.
        allow_changed_engine: let it continue on changed numerics.
        on_wait: called a few times a second while waiting.

    Raises:
        RefeedError: the worker's own error, or its death with the end of worker.log.
    """
    check_not_elsewhere(session)
    read_fd, write_fd = os.pipe()
    try:
        with _open_log(session) as log:
            process = subprocess.Popen(
                worker_command(session, write_fd, past_stop=past_stop, allow_changed_engine=allow_changed_engine),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(write_fd,),
                cwd=session.path,
                env={**os.environ, "REFEED_TUI_HOME": str(home())},  # a relative one would mean another place there
            )
        os.close(write_fd)
        write_fd = -1
        line = _read_ready(read_fd, process, on_wait)
    finally:
        os.close(read_fd)
        if write_fd >= 0:
            os.close(write_fd)
    if not line:
        code = process.wait()
        raise RefeedError(
            "failed",
            f"the worker died with exit code {code} before it was ready; worker.log ends:\n{log_tail(session)}",
        )
    # Nobody waits for the worker; should the launcher outlive it, this reaps it.
    threading.Thread(target=process.wait, name="reaper", daemon=True).start()
    msgspec.json.decode(line, type=Ready).require()


def send(session: SessionFolder, command: Command) -> Answer:
    """Send a command to a session's worker.

    Raises:
        RefeedError: kind "session" when it is not running here or does not answer.
    """
    run = session.run()
    if run is None or not session.live():
        check_not_elsewhere(session)
        raise RefeedError("session", f"session {session.id} is not running", f"its state is {session.state()}")
    if run.elsewhere():
        host = printable(run.host, SHOWN)
        raise RefeedError("session", f"session {session.id} runs on host {host}", f"send `{command}` from there")
    path = Path(run.socket)
    if path.name != f"{session.path.name}.sock":  # run.json may be a stranger's, and name somebody else's socket
        raise RefeedError("session", f"run.json of {session.id} names a socket that is not its own", "see `doctor`")
    check_private(path.parent)
    return ask(path, session.id, command)
