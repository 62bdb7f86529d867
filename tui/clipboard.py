"""Copying out of the dashboard: OSC 52, which never answers, and a file that is always there."""

from __future__ import annotations

import tempfile
from pathlib import Path

from sessions.files import write_atomic
from sessions.store import home


def save(text: str) -> Path:
    """Store the copied text and return its path.

    Raises:
        RefeedError: the file can be written neither in the state folder nor among temporary files.
    """
    folder = home()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="refeed-tui-"))
    path = folder / "clipboard.txt"
    write_atomic(path, text.encode())
    return path
