"""From an error to its exit code, its one line and its traceback file."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sessions.errors import RefeedError
from sessions.text import lines, one_line

if TYPE_CHECKING:
    from sessions.errors import Kind

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NO_SESSION: Final = 3
CACHE: Final = 4
INTEGRITY: Final = 5
SIGNAL_BASE: Final = 128

EXIT_CODES: Final[dict[Kind, int]] = {
    "failed": FAILED,
    "engine": FAILED,
    "usage": USAGE,
    "spec": USAGE,
    "task": USAGE,  # the task is a field of the spec; the line names the file and line at fault
    "session": NO_SESSION,
    "cache": CACHE,
    "integrity": INTEGRITY,
}

# These say what the person typed or has; where in the program they arose helps nobody.
SELF_EXPLAINING: Final[frozenset[Kind]] = frozenset({"usage", "spec", "session"})

KEPT_TRACEBACKS: Final = 20


def needs_traceback(error: BaseException) -> bool:
    """Whether a traceback file belongs to this error: all but those that only answer what was typed."""
    return not (isinstance(error, RefeedError) and error.kind in SELF_EXPLAINING)


def sentence(error: BaseException) -> str:
    """One safe line for an error: its message and hint, or the type and text of one that nobody foresaw."""
    if isinstance(error, RefeedError):
        return " | ".join(lines(str(error)))  # a worker's last log lines come on lines of their own
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return one_line(f"{error.strerror}{where}")
    return one_line(
        f"unexpected {type(error).__name__}: {error}" if str(error) else f"unexpected {type(error).__name__}"
    )


def traceback_text(error: BaseException) -> str:
    """An error's traceback, with that of its cause."""
    import traceback  # noqa: PLC0415 - only an error needs it

    return "".join(traceback.format_exception(error))


def print_traceback(error: BaseException) -> None:
    """Print an error's traceback on stderr, each line made safe."""
    for line in lines(traceback_text(error).rstrip()):
        print(line, file=sys.stderr)  # noqa: T201 - --debug asks for it


def write_traceback(error: BaseException) -> Path:
    """Write an error's traceback to a private file in the state folder (or the temporary folder) and return its path.

    Old ones beyond `KEPT_TRACEBACKS` are removed.
    """
    text = traceback_text(error)
    name = f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.txt"
    with contextlib.suppress(OSError):
        folder = _folder()
        for old in sorted(folder.glob("*.txt"))[: -KEPT_TRACEBACKS + 1]:
            old.unlink(missing_ok=True)
        return _write(folder / name, text)
    import tempfile  # noqa: PLC0415 - only where the home cannot be written

    handle, path = tempfile.mkstemp(prefix="refeed-tui-", suffix=f"-{name}")
    os.close(handle)
    return _write(Path(path), text)


def _folder() -> Path:
    from sessions.disk.folder import home  # noqa: PLC0415 - an error may come before anything of the store is needed

    folder = home() / "errors"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _write(path: Path, text: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8", errors="backslashreplace")
    return path
