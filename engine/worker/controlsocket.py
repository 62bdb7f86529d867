"""The worker's Unix socket: one JSON line in, one JSON line out.

The folder is private to the user (0700), so whoever can connect may command; both ends look at who the other is all
the same, for a session folder can come from a stranger and name any socket of the machine.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Callable

Command = Literal["status", "abort", "pause", "resume"]

LONGEST_PATH: Final = 107
LONGEST_LINE: Final = 4096
ANSWER_SECONDS: Final = 10.0


class Ask(msgspec.Struct, frozen=True):
    """A command to the worker.

    Attributes:
        command: what to do.
    """

    command: Command


class Answer(msgspec.Struct, frozen=True):
    """The worker's answer.

    Attributes:
        ok: whether the command was taken.
        session: id of the session that answered; guards against a socket that was reused.
        text: one sentence.
    """

    ok: bool
    session: str
    text: str = ""


def _candidates() -> list[Path]:
    """Folders for sockets, best first: $XDG_RUNTIME_DIR, the temporary folder, /tmp."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    private = f"refeed-tui-{os.getuid()}"
    folders = [Path(tempfile.gettempdir()) / private, Path("/tmp") / private]  # noqa: S108 - made 0700 and checked
    return [Path(runtime) / "refeed-tui", *folders] if runtime and Path(runtime).is_dir() else folders


def peer_uid(connection: socket.socket) -> int:
    """User id of the process at the other end of a Unix socket, as the kernel says it."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid: int = struct.unpack("3i", credentials)[1]
    return uid


def _make_private(folder: Path) -> None:
    """Make a socket folder, or check that the one there is ours alone.

    Raises:
        RefeedError: as `check_private`.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    check_private(folder)


def check_private(folder: Path) -> None:
    """Pass when a folder is ours alone.

    Raises:
        RefeedError: kind "session" when it is another user's, open to others, no folder, or not there.
    """
    try:
        facts = folder.lstat()
    except OSError as error:
        raise RefeedError("session", f"the worker's socket folder {folder}: {error.strerror}") from None
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise RefeedError(
            "session",
            f"{folder} is not a folder that only you can use",
            "remove it, or set XDG_RUNTIME_DIR to a private folder",
        )


def socket_path(session: str) -> Path:
    """Return where a session's worker listens: in the first private folder whose path a Unix socket can have.

    Raises:
        RefeedError: kind "session" when the folder is not private, or every path is longer than a socket's may be.
    """
    paths = [folder / f"{session}.sock" for folder in _candidates()]
    for path in paths:
        if len(os.fsencode(path)) <= LONGEST_PATH:
            _make_private(path.parent)
            return path
    raise RefeedError(
        "session", f"socket path {paths[-1]} is over {LONGEST_PATH} bytes", "give the session a shorter folder name"
    )


def _read_line(connection: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n") and len(line) < LONGEST_LINE:
        part = connection.recv(LONGEST_LINE)
        if not part:
            break
        line += part
    return line


class Server:
    """Answers commands in a thread of its own until closed."""

    def __init__(self, path: Path, session: str, handle: Callable[[Command], str]) -> None:
        """Listen at `path`; a stale socket file there is replaced (the caller holds the session's lock).

        Args:
            path: where to listen.
            session: id, for answers.
            handle: takes a command and returns the sentence to answer; called in the server's thread.
        """
        self._path = path
        self._session = session
        self._handle = handle
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        path.chmod(0o600)
        self._socket.listen(8)
        self._thread = threading.Thread(target=self._serve, name="control-socket", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return  # closed
            with connection:
                connection.settimeout(ANSWER_SECONDS)
                if peer_uid(connection) in {os.getuid(), 0}:
                    self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        try:
            ask = msgspec.json.decode(_read_line(connection), type=Ask)
            answer = Answer(ok=True, session=self._session, text=self._handle(ask.command))
        except msgspec.DecodeError as error:
            answer = Answer(ok=False, session=self._session, text=f"not a command: {error}")
        except OSError:
            return  # the asker went away; nothing was asked
        try:
            connection.sendall(msgspec.json.encode(answer) + b"\n")
        except OSError:
            return  # the command stands; the asker went away before the answer

    def close(self) -> None:
        """Stop listening and remove the socket file."""
        self._socket.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread; closing alone does not
        self._socket.close()
        self._path.unlink(missing_ok=True)


def ask(path: Path, session: str, command: Command) -> Answer:
    """Send one command to a session's worker and return its answer.

    Raises:
        RefeedError: kind "session" when nobody listens, or another session's worker does.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with connection:
        connection.settimeout(ANSWER_SECONDS)
        try:
            connection.connect(str(path))
            uid = peer_uid(connection)
            if uid != os.getuid():
                raise RefeedError("session", f"{path} is a socket of user {uid}, not of your worker", "see `doctor`")
            connection.sendall(msgspec.json.encode(Ask(command)) + b"\n")
            answer = msgspec.json.decode(_read_line(connection), type=Answer)
        except (OSError, msgspec.DecodeError) as error:
            raise RefeedError(
                "session", f"the worker of {session} does not answer at {path}: {error}", "see its worker.log"
            ) from None
    if answer.session != session:
        raise RefeedError("session", f"{path} belongs to session {answer.session}, not {session}", "see `list`")
    return answer
