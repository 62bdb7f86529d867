"""The command that a session's events are told to: kept in its owner's home, never in the session's folder.

A session folder can come from a stranger; a command that stood in it would run the stranger's code at the next resume.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from sessions.disk.files import FOLDER_MODE, failure, read_bounded, write_atomic
from sessions.disk.folder import home
from sessions.errors import RefeedError
from sessions.text import printable

if TYPE_CHECKING:
    from sessions.disk.folder import Folder

_LIMIT: Final = 1 << 16


class OnEvent(msgspec.Struct, frozen=True):
    """What is run, without a shell.

    Attributes:
        argv: the program, as an absolute path, and its arguments.
    """

    argv: tuple[str, ...]

    @classmethod
    def parse(cls, command: str) -> OnEvent:
        """Split a command as a shell would, expanding nothing, and find its program.

        Raises:
            RefeedError: kind "usage" when it cannot be split, is empty, or its program is not there.
        """
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise RefeedError("usage", f"--on-event {command!r} cannot be split: {error}") from None
        if not words:
            raise RefeedError("usage", "--on-event names no command", "for example --on-event 'mail -s audit me'")
        program = shutil.which(words[0])
        if program is None:
            raise RefeedError(
                "usage",
                f"--on-event: no program {words[0]!r} that can be run",
                "pipes and variables need a script, or `sh -c '...'`",
            )
        return cls((str(Path(program).absolute()), *words[1:]))


class Change(msgspec.Struct, frozen=True):
    """Another command from the next run on.

    Attributes:
        to: the command; None for none.
    """

    to: OnEvent | None


def _path(session: Folder) -> Path | None:
    """Where a session's command is kept; None for a folder that is not in this home's store."""
    root, path = home(), session.path.resolve()
    return root / "on-event" / f"{path.name}.json" if path.parent == (root / "sessions").resolve() else None


def require_in_home(session: Folder) -> None:
    """Pass when a command can be kept for a session.

    Raises:
        RefeedError: kind "usage" for a session outside the home.
    """
    if _path(session) is None:
        raise RefeedError(
            "usage", f"--on-event needs a session of {home()}", f"{printable(str(session.path))} is outside"
        )


def keep(session: Folder, on_event: OnEvent | None) -> None:
    """Keep a session's command, so that a later resume has it too; None forgets it.

    Raises:
        RefeedError: kind "usage" for a session outside the home; kind "failed" when it cannot be stored.
    """
    if on_event is not None:
        require_in_home(session)
    path = _path(session)
    if path is None:
        return
    try:
        if on_event is None:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise failure("write", path, error) from error
    write_atomic(path, msgspec.json.encode(on_event))


def kept(session: Folder) -> OnEvent | None:
    """The command kept for a session; None when there is none.

    Raises:
        RefeedError: kind "integrity" when it cannot be understood.
    """
    path = _path(session)
    if path is None:
        return None
    with contextlib.suppress(FileNotFoundError):
        try:
            return msgspec.json.decode(read_bounded(path, _LIMIT), type=OnEvent)
        except msgspec.DecodeError as error:
            raise RefeedError("integrity", f"{path} cannot be understood: {error}", "remove it") from None
    return None
