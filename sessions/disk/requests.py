"""What people ask of a session's worker: one file for each request, in the session's folder.

The name of a file is the whole request, `0001-abort.json`; its content only tells a person who asked, and no worker
reads it. A worker obeys a request and then removes the file, so a file that is gone was taken; what came of it is in
the journal. Whoever may write the folder may command the worker, from any host that shares the disk.
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
import re
import socket
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, cast

import msgspec

from sessions.disk.files import FOLDER_MODE, failure, open_folder, write_atomic
from sessions.text import printable

if TYPE_CHECKING:
    from pathlib import Path

Command = Literal["abort", "pause", "resume"]

NAME: Final = re.compile(r"([0-9]{4,9})-(abort|pause|resume)\.json")
MOST: Final = 1_000  # names that one look reads; people never leave so many


class Found(NamedTuple):
    """One look into a requests folder.

    Attributes:
        requests: file names with their commands, in the order in which they were asked.
        strange: printable names of what is no request.
    """

    requests: tuple[tuple[str, Command], ...] = ()
    strange: tuple[str, ...] = ()


def look(folder: Path) -> Found:
    """What waits in a requests folder. Names that begin with a dot are files that are still being written.

    Raises:
        RefeedError: kind "integrity" when it is no plain folder; kind "failed" when it cannot be read.
    """
    try:
        with open_folder(folder) as fd, os.scandir(fd) as entries:
            names = {
                entry.name: entry.is_file(follow_symlinks=False)
                for entry in itertools.islice(entries, MOST)
                if not entry.name.startswith(".")
            }
    except FileNotFoundError:
        return Found()
    except OSError as error:
        raise failure("read", folder, error) from error
    asked, strange = [], []
    for name, regular in names.items():
        match = NAME.fullmatch(name)
        if match is not None and regular:
            asked.append((int(match[1]), name, cast("Command", match[2])))
        else:
            strange.append(printable(name, 60))
    return Found(tuple((name, command) for _, name, command in sorted(asked)), tuple(sorted(strange)))


def ask(folder: Path, command: Command) -> Path:
    """Leave a request for a session's worker and return its file, which is gone once the worker has taken it.

    Two people who ask for the same at the same moment share one file.

    Raises:
        RefeedError: kind "failed" or "integrity" when it cannot be written.
    """
    try:
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
    except OSError as error:
        raise failure("make", folder, error) from error
    waiting = look(folder).requests
    number = 1 + max((int(name.partition("-")[0]) for name, _ in waiting), default=0)
    path = folder / f"{number:04d}-{command}.json"
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    write_atomic(path, msgspec.json.encode({"asked": now, "host": socket.gethostname(), "pid": os.getpid()}) + b"\n")
    return path


def remove(folder: Path, name: str) -> None:
    """Say that a request was taken, or was taken back; one that is gone already is no error.

    Raises:
        RefeedError: kind "failed" when it cannot be removed.
    """
    try:
        with open_folder(folder) as fd:
            os.unlink(name, dir_fd=fd)
    except FileNotFoundError:
        return
    except OSError as error:
        raise failure("remove", folder / name, error) from error


def clear(folder: Path) -> tuple[str, ...]:
    """Remove every request, and return the names of those that were there.

    Raises:
        RefeedError: as `look` and `remove`.
    """
    names = tuple(name for name, _ in look(folder).requests)
    for name in names:
        remove(folder, name)
    return names
