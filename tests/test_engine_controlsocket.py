"""The worker's socket, over a real Unix socket."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.worker.controlsocket import Command, Server, ask, socket_path
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A private runtime folder, short as such folders are."""
    short = Path(tempfile.mkdtemp(prefix="rt-"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    yield short
    shutil.rmtree(short)


def test_a_command_reaches_the_worker_and_its_answer_comes_back(runtime: Path) -> None:
    """One line in, one line out."""
    heard: list[str] = []

    def handle(command: str) -> str:
        heard.append(command)
        return f"did {command}"

    path = socket_path("s1")
    assert path.is_relative_to(runtime)
    server = Server(path, "s1", handle)
    try:
        answer = ask(path, "s1", "pause")
    finally:
        server.close()
    assert (answer.ok, answer.text, heard) == (True, "did pause", ["pause"])
    assert not path.exists()


def test_nobody_listening_is_said_plainly(runtime: Path) -> None:
    """A stale socket file refuses, and the error names the session."""
    path = socket_path("gone")
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    dead.bind(str(path))
    dead.close()
    with pytest.raises(RefeedError, match="worker of gone does not answer"):
        ask(path, "gone", "abort")
    server = Server(path, "gone", lambda _: "back")
    assert ask(path, "gone", "status").text == "back"
    server.close()
    assert runtime.exists()


@pytest.mark.usefixtures("runtime")
def test_another_sessions_worker_is_not_obeyed() -> None:
    """A socket that was reused by another session answers with its own id."""
    path = socket_path("a")
    server = Server(path, "b", lambda _: "ok")
    try:
        with pytest.raises(RefeedError, match="belongs to session b"):
            ask(path, "a", "status")
    finally:
        server.close()


@pytest.mark.usefixtures("runtime")
def test_garbage_is_answered_and_the_server_goes_on() -> None:
    """Hostile lines neither stop the server nor run anything."""
    path = socket_path("s2")
    server = Server(path, "s2", lambda _: "fine")
    try:
        for line in (b"\xff\x00\n", b"{" * 5000, b'{"command":"rm"}\n', b""):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(5)
                connection.connect(str(path))
                connection.sendall(line)
                connection.shutdown(socket.SHUT_WR)
                assert b'"ok":false' in connection.recv(8192)
        assert ask(path, "s2", "status").text == "fine"
    finally:
        server.close()


def test_an_open_folder_is_refused(runtime: Path) -> None:
    """A socket folder that others can enter would let them command the worker."""
    socket_path("s").parent.chmod(0o755)
    with pytest.raises(RefeedError, match="only you can use"):
        socket_path("s")
    assert runtime.exists()


def test_a_runtime_folder_that_is_too_deep_gives_way_to_the_temporary_one(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unix sockets end at 107 bytes; the next private folder that fits is taken."""
    deep = runtime / ("x" * 120)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    path = socket_path("s3")
    assert not path.is_relative_to(deep)
    assert path.parent.stat().st_mode & 0o077 == 0


@pytest.mark.usefixtures("runtime")
def test_a_path_that_no_socket_can_have_is_refused() -> None:
    """A session folder with an endless name is an error, not a crash in bind."""
    with pytest.raises(RefeedError, match="shorter folder name"):
        socket_path("y" * 120)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be two users")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the child only makes system calls
@pytest.mark.usefixtures("runtime")
def test_another_user_is_not_obeyed() -> None:
    """The kernel says who the other end is: another user's command gets no answer."""
    path = socket_path("s4")
    obeyed: list[Command] = []

    def obey(command: Command) -> str:
        obeyed.append(command)
        return "fine"

    server = Server(path, "s4", obey)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.chmod(path.parent.parent, 0o755)  # noqa: PTH101, S103 - what a careless user would have done
            os.chmod(path.parent, 0o755)  # noqa: PTH101, S103 - the same
            os.chmod(path, 0o666)  # noqa: PTH101, S103 - the same
            os.setuid(65534)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(5)
                connection.connect(str(path))
                os.write(writer, b"connected;")
                with contextlib.suppress(OSError):
                    connection.sendall(b'{"command":"abort"}\n')
                    os.write(writer, connection.recv(100))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    assert os.read(reader, 100) == b"connected;"
    os.close(reader)
    server.close()
    assert obeyed == []


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be two users")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the child only makes system calls
def test_a_socket_of_another_user_is_not_asked(runtime: Path) -> None:
    """The kernel says who the other end is: another user's socket gets no command."""
    theirs = runtime / "theirs.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
        stranger.bind(str(theirs))
        theirs.chmod(0o666)
        reader, writer = os.pipe()
        listener = os.fork()
        if listener == 0:
            os.setuid(65534)
            stranger.listen()  # the peer's credentials are those of whoever listens
            os.write(writer, b"listening")
            signal.pause()
        os.close(writer)
        try:
            assert os.read(reader, 9) == b"listening"
            with pytest.raises(RefeedError, match="socket of user 65534"):
                ask(theirs, "s4", "abort")
        finally:
            os.kill(listener, signal.SIGKILL)
            os.waitpid(listener, 0)
            os.close(reader)
