"""Where sessions are, and how they are found by a person's words for them.

This module and what it imports stay free of numpy, so that `refeed-tui list` starts at once.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from sessions.disk.files import FOLDER_MODE, failure, sync_folder, write_atomic
from sessions.disk.folder import NAME_LIMIT, Folder, home, lock
from sessions.errors import RefeedError
from sessions.state.summary import Summary, refresh
from sessions.text import printable

if TYPE_CHECKING:
    from sessions.spec import Registration

SessionState = Literal["running", "paused", "finished", "stopped", "aborted", "failed", "interrupted", "imported"]

ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# No vowels, so that no id spells a word; no digits or letters that look alike.
_LETTERS: Final = "bcdfghjkmnpqrstvwxz23456789"
_TRIES: Final = 100
_NAMING_SECONDS: Final = 10.0  # to look through all sessions and make one takes milliseconds
FRESH_SECONDS: Final = 60.0


class SessionFolder(Folder):
    """One session: its folder, and what its journal says in short."""

    def summary(self) -> Summary:
        """The session in a few integers; reads what the journal gained since the last time, and caches it.

        Raises:
            RefeedError: kind "session" or "integrity" when the spec cannot be read, "failed" when the journal cannot.
        """
        return refresh(self.summary_path, self.journal_path, self.registration().digest, self.spec())

    def elsewhere(self) -> str:
        """Host on which a worker seems to run although its lock is not seen here (some network volumes); else empty.

        That is when its last worker is of another host, has not ended, and wrote moments ago.

        Raises:
            RefeedError: as `run` and `summary`.
        """
        run = self.run()
        if run is None or not run.elsewhere() or self.summary().ended:
            return ""
        try:
            silent = time.time() - self.journal_path.stat().st_mtime
        except OSError:
            return ""
        return printable(run.host, NAME_LIMIT) if silent < FRESH_SECONDS else ""

    def state(self, summary: Summary | None = None) -> SessionState:
        """What the session is doing now.

        Args:
            summary: a fresh one, when the caller has it.

        Raises:
            RefeedError: as `summary` and `live`.
        """
        # Asked first: a worker that comes in between is live, one that ends has written its last event by then.
        live = self.starting() or self.live()
        summary = summary or self.summary()
        if not summary.ended and (live or self.elsewhere()):
            return "paused" if summary.paused else "running"
        if summary.source:
            return "imported"
        return summary.ended or "interrupted"


class Store:
    """The sessions of one home.

    Attributes:
        path: folder that holds the session folders.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Use a home folder; None for `home()`."""
        self.path = (folder or home()) / "sessions"

    def create(self, registration: Registration) -> SessionFolder:
        """Make a session's folder and lock its spec in.

        Raises:
            RefeedError: kind "usage" for a name that cannot be used; kind "failed", with the cause, when the folder
                cannot be made.
        """
        if registration.name is not None:
            check_name(registration.name)
        try:
            self.path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            folder = SessionFolder(self._fresh())
            folder.texts_path.mkdir(mode=FOLDER_MODE)
            write_atomic(folder.spec_path, msgspec.json.encode(registration))
            sync_folder(self.path)
        except OSError as error:
            raise failure("make a session in", self.path, error) from error
        return folder

    def create_named(self, registration: Registration) -> SessionFolder:
        """Make a session's folder as `create` does, if no other session has its name; one launch at a time.

        Raises:
            RefeedError: as `create` and `check_free`.
        """
        if registration.name is None:
            return self.create(registration)
        try:
            self.path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            with lock(self.path / ".naming", patience=_NAMING_SECONDS):
                self.check_free(registration.name)
                return self.create(registration)
        except OSError as error:
            raise failure("make a session in", self.path, error) from error

    def check_free(self, name: str) -> None:
        """Refuse a name that finds another session: two of one name could not be told apart by it.

        Raises:
            RefeedError: kind "usage", for a name that is taken or that no session may have.
        """
        check_name(name)
        for folder in self.folders():
            if name in {_name(folder), folder.path.name}:
                raise RefeedError(
                    "usage", f"the name {printable(name)!r} is taken by session {folder.id}", "choose another"
                )

    def _fresh(self) -> Path:
        """A new folder, named so that names sort by time and can be typed."""
        for _ in range(_TRIES):
            now = dt.datetime.now(dt.UTC)
            letters = "".join(secrets.choice(_LETTERS) for _ in range(4))
            path = self.path / f"{now:%Y%m%d-%H%M%S}-{letters}"
            try:
                path.mkdir(mode=FOLDER_MODE)
            except FileExistsError:
                continue
            return path
        raise RefeedError("failed", f"{_TRIES} ids in {self.path} are taken", "is the clock stuck?")

    def folders(self) -> tuple[SessionFolder, ...]:
        """Sessions, newest first. Links and folders without a spec are no sessions.

        Raises:
            RefeedError: kind "failed" when the home cannot be read.
        """
        try:
            with os.scandir(self.path) as entries:
                found = [e.name for e in entries if ID.fullmatch(e.name) and e.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise failure("read", self.path, error) from error
        folders = (SessionFolder(self.path / name) for name in sorted(found, reverse=True))
        return tuple(folder for folder in folders if folder.spec_path.is_file())

    def newest(self) -> SessionFolder:
        """The session that was made last.

        Raises:
            RefeedError: kind "session" when there is none.
        """
        folders = self.folders()
        if not folders:
            raise RefeedError("session", f"no sessions in {self.path}", "start one with `refeed-tui launch demo`")
        return folders[0]

    def find(self, selector: str) -> SessionFolder:
        """The session that a person means.

        Args:
            selector: an id, a name, a unique prefix of an id, or a folder; the first of these that fits.

        Raises:
            RefeedError: kind "session" when none fits, or several do.
        """
        folders = {folder.path.name: folder for folder in self.folders()}
        if selector in folders:
            return folders[selector]
        found = [folder for folder in folders.values() if _name(folder) == selector]
        found = found or [folder for name, folder in folders.items() if selector and name.startswith(selector)]
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(folder.id for folder in found[:5]) + (", ..." if len(found) > 5 else "")  # noqa: PLR2004
            raise RefeedError("session", f"{printable(selector)!r} fits {len(found)} sessions: {ids}", "name one by id")
        if selector and _holds_spec(Path(selector)):
            return SessionFolder(Path(os.path.normpath(Path(selector).absolute())))
        raise RefeedError(
            "session", f"no session {printable(selector)!r} in {self.path}", "`refeed-tui list` shows them"
        )


def _name(folder: SessionFolder) -> str | None:
    """Name of a session; None also for one whose spec cannot be read, which `find` and `list` must survive."""
    try:
        return folder.name
    except RefeedError:
        return None


def _holds_spec(path: Path) -> bool:
    try:
        return (path / "spec.json").is_file()
    except OSError:  # a selector may be longer than any path
        return False


def check_name(name: str) -> str:
    """Return the name when a session may have it: 1 to 64 printable characters, no slash, no dash or space in front.

    Raises:
        RefeedError: kind "usage", saying what a name may be.
    """
    bad = not name.isprintable() or "/" in name or name != name.strip() or name.startswith("-")
    if bad or not 1 <= len(name) <= NAME_LIMIT:
        raise RefeedError(
            "usage",
            f"name {printable(name)!r} cannot be used",
            f"1 to {NAME_LIMIT} printable characters, no slash, no dash in front",
        )
    return name
