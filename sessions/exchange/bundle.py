"""A whole session in one file, to carry it to another machine: packed, and unpacked only when everything in it holds.

The file is a zip with the session's spec, journal and the texts that the journal names, under the session's id. What
belongs to a machine (lock, log, run.json) and caches stay behind.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import zipfile
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from sessions.disk import texts
from sessions.disk.files import FILE_MODE, FOLDER_MODE, failure, open_regular, sync_folder, write_all, write_atomic
from sessions.disk.journal import Follower
from sessions.errors import RefeedError
from sessions.state.recount import recount
from sessions.store import ID, SessionFolder, check_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sessions.store import Store

SUFFIX: Final = ".refeed.zip"
_MAGIC: Final = b"PK\x03\x04"
_CHUNK: Final = 1 << 20
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
# Bytes of one unpacked file at most; a journal of a million pivots takes 1.5 GB.
_LIMITS: Final = {"spec.json": 1 << 20, "events.jsonl": 8 << 30}
_MEMBER: Final = re.compile(rf"(?P<id>{ID.pattern})/(?P<file>spec\.json|events\.jsonl|texts/{texts.NAME.pattern})")
_BAD_ZIP: Final = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)


def is_bundle(path: Path) -> bool:
    """Whether a file starts as a bundle does; False when it cannot be read."""
    try:
        with os.fdopen(open_regular(path.resolve()), "rb") as file:  # a link that a person names is fine, a pipe is not
            return file.read(len(_MAGIC)) == _MAGIC
    except (OSError, RefeedError):
        return False


def pack(folder: SessionFolder, path: Path) -> Path:
    """Write a session into one file; the same session gives the same bytes.

    Args:
        folder: the session; its journal and texts are verified first.
        path: the file; replaced if it exists.

    Raises:
        RefeedError: kind "integrity" when spec, journal or a text does not hold; kind "failed" when writing does.
    """
    held = _check(folder)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with zipfile.ZipFile(temporary, "x", compresslevel=1) as bundle:
            stem = folder.path.name
            _add(bundle, folder.spec_path, f"{stem}/spec.json")
            _add(bundle, folder.journal_path, f"{stem}/events.jsonl", held.journal)
            for name in held.texts:
                _add(bundle, folder.texts_path / name, f"{stem}/texts/{name}")
        temporary.replace(path)
    except OSError as error:
        raise failure("write", path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    return path


def _add(bundle: zipfile.ZipFile, source: Path, name: str, size: int | None = None) -> None:
    """Add a file, or its first `size` bytes: a journal may grow meanwhile."""
    info = zipfile.ZipInfo(name, _EPOCH)
    info.external_attr = FILE_MODE << 16
    info.compress_type = zipfile.ZIP_STORED if name.endswith(".gz") else zipfile.ZIP_DEFLATED
    with os.fdopen(open_regular(source), "rb") as file, bundle.open(info, "w", force_zip64=True) as member:
        left = os.fstat(file.fileno()).st_size if size is None else size
        while left > 0 and (chunk := file.read(min(_CHUNK, left))):
            member.write(chunk)
            left -= len(chunk)


class _Held(NamedTuple):
    """What of a session holds: bytes of its journal, and the names of its texts."""

    journal: int
    texts: tuple[str, ...]


def _check(folder: SessionFolder) -> _Held:
    """Verify spec, journal and every text that the journal names, and that the pivots follow from these.

    Raises:
        RefeedError: kind "integrity" when one of them does not hold.
    """
    digest = folder.registration().digest
    k = folder.spec().k
    with Follower(folder.journal_path, digest) as journal:
        found = recount(journal, folder.texts_path, k)
        if found.missing:
            raise RefeedError(
                "integrity",
                f"{folder.texts_path / found.missing[0]} is missing",
                "texts may be left out of a copied session",
            )
        return _Held(journal.offset, found.files)


def unpack(path: Path, store: Store, name: str | None = None) -> SessionFolder:
    """Bring a bundled session in, under its own id.

    Args:
        path: the bundle.
        store: where it goes.
        name: for the session; None keeps the bundled one.

    Raises:
        RefeedError: kind "usage" when the file is no bundle, or the session is here already; kind "integrity" when
            the bundle is damaged, or its spec, journal or a text does not hold; kind "failed" when it cannot be read or
            written. Nothing stays then. What is wrong inside is told with the bundle and the member.
    """
    if name is not None:
        check_name(name)
    incoming = store.path / f".incoming-{secrets.token_hex(6)}"
    try:
        incoming.mkdir(mode=FOLDER_MODE, parents=True)
        (incoming / "texts").mkdir(mode=FOLDER_MODE)
        session = _extract(path, incoming)
        brought = SessionFolder(incoming)
        with _told_of(path, session, incoming):
            held = _check(brought)
        named = {brought.texts_path / text for text in held.texts}
        for stray in set(brought.texts_path.iterdir()) - named:
            raise RefeedError("integrity", f"{path} holds {stray.name}, which its journal does not name")
        if name is not None:
            write_atomic(brought.spec_path, msgspec.json.encode(_renamed(brought, name)))
        target = store.path / session
        if os.path.lexists(target):
            raise RefeedError(
                "usage", f"session {session} is here already", "`refeed-tui report` it, or remove it first"
            )
        incoming.rename(target)
        sync_folder(store.path)
    except OSError as error:
        raise failure("unpack", path, error) from error
    finally:
        shutil.rmtree(incoming, ignore_errors=True)
    return SessionFolder(target)


@contextlib.contextmanager
def _told_of(path: Path, session: str, incoming: Path) -> Iterator[None]:
    """Tell an error by the bundle's members: the folder that it was unpacked into is gone when anybody looks."""
    try:
        yield
    except RefeedError as error:
        message = error.message.replace(f"{incoming}{os.sep}", f"{session}/")
        raise RefeedError(error.kind, f"{path}: {message}", error.hint) from None


def _renamed(folder: SessionFolder, name: str) -> object:
    """The registration under another name; the spec's bytes stay, and so does the digest."""
    return msgspec.structs.replace(folder.registration(), name=name)


def _extract(path: Path, incoming: Path) -> str:
    """Write the members of a bundle that may be there, and nothing else; returns the session's id."""
    at, ids = "", set()
    try:
        with zipfile.ZipFile(path) as bundle:
            members = bundle.infolist()
            _check_space(sum(member.file_size for member in members), incoming)
            for member in members:
                at = member.filename
                ids.add(_extract_one(bundle, member, incoming))
    except _BAD_ZIP as error:
        raise _unzippable(path, at, str(error)) from None
    if len(ids) != 1 or not all((incoming / name).is_file() for name in _LIMITS):
        raise RefeedError("usage", f"{path} is no bundle: it must hold one session with its spec and journal")
    return next(iter(ids))


def _unzippable(path: Path, member: str, reason: str) -> RefeedError:
    """What is wrong with a file that cannot be unzipped: it is damaged where it begins as a zip, else no bundle."""
    if not is_bundle(path):
        return RefeedError("usage", f"{path} is no bundle: {reason[:200]!a}")
    where = f" at {member[:120]!a}" if member else ""
    return RefeedError("integrity", f"{path} is damaged{where}: {reason[:200]!a}", "copy or export it again")


def _check_space(needed: int, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise RefeedError("failed", f"the bundle unpacks to {needed} bytes, but {folder.parent} has {free}")


def _extract_one(bundle: zipfile.ZipFile, member: zipfile.ZipInfo, incoming: Path) -> str:
    place = _MEMBER.fullmatch(member.filename)
    if place is None:
        said = f"{bundle.filename}: {member.filename[:120]!a} does not belong in a bundle"
        raise RefeedError("usage", said, "it was not packed by us")
    limit = _LIMITS.get(place["file"], texts.MAX_FILE)
    if member.file_size > limit:
        raise RefeedError(
            "usage", f"{bundle.filename}: {place['file']} claims {member.file_size} bytes, more than {limit}"
        )
    fd = os.open(incoming / place["file"], os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        with bundle.open(member) as source:
            while chunk := source.read(_CHUNK):  # zipfile stops at the size that the member claims
                write_all(fd, chunk)
        os.fsync(fd)
    finally:
        os.close(fd)
    return place["id"]
