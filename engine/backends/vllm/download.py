"""Fetching a model's missing files from the hub, told by the bytes that have reached the disk."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from engine.backends.vllm.hub import on_disk
from engine.backends.vllm.preflight import gibibytes
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.backends.vllm.hub import Piece, Snapshot

    Progress = Callable[[str, float], None]

STAGE: Final = "downloading"
LOOK_SECONDS: Final = 0.5
END_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Source:
    """A model's files.

    Attributes:
        path: local folder.
        commit: hub commit; empty for a local folder, which the spec's digest pins.
    """

    path: str
    commit: str


def fetch(snapshot: Snapshot, progress: Progress) -> Source:
    """Download what the local cache lacks of a snapshot.

    The bytes are read off the disk, since the hub's client tells them in some of its versions only (from 1.12 on).

    Args:
        snapshot: looked up before.
        progress: told the stage with its size, and the share of the missing bytes that is on the disk.

    Raises:
        RefeedError: kind "engine", when a file could not be had; and what `progress` raises, which ends the download.
    """
    if snapshot.unreached:
        return Source(str(snapshot.folder), snapshot.commit)
    stage = f"{STAGE} {gibibytes(snapshot.size)}"
    before = frozenset(_partials(snapshot))
    with _fetcher(snapshot) as child:
        while not _ended(child):
            if snapshot.missing:
                progress(stage, arrived(snapshot, before))
        path = _result(child, snapshot.model)
    if snapshot.missing:
        progress(stage, 1.0)
    if path.name != snapshot.commit:  # the hub's cache names a snapshot's folder by its commit
        raise RefeedError(
            "engine",
            f"{snapshot.model} was looked up at commit {snapshot.commit}, but came at {path.name}",
            "start again: its branch moved, or the hub went away, meanwhile",
        )
    lacking = [name for name in snapshot.names if not (path / name).exists()]
    if lacking:
        raise RefeedError(
            "engine",
            f"the download of {snapshot.model} ended without {len(lacking)} of {len(snapshot.names)} files, "
            f"among them {lacking[0]}",
            "start again: what arrived is kept",
        )
    return Source(str(path), path.name)


@contextmanager
def _fetcher(snapshot: Snapshot) -> Iterator[subprocess.Popen[str]]:
    """The process that downloads; it ends with the block, however that is left."""
    revision = () if snapshot.revision is None else (snapshot.revision,)
    command = (sys.executable, "-P", "-m", "engine.backends.vllm.fetcher", snapshot.model, *revision)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            if child.stdin is not None:
                child.stdin.close()  # the sign that it is not wanted any more
            try:
                child.wait(timeout=END_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()


def _ended(child: subprocess.Popen[str]) -> bool:
    """Wait a moment; whether the process ended."""
    try:
        child.wait(timeout=LOOK_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _result(child: subprocess.Popen[str], model: str) -> Path:
    """The folder that an ended process downloaded to.

    Raises:
        RefeedError: kind "engine": the process's own error, or its death.
    """
    lines = child.stdout.read().splitlines() if child.stdout is not None else []
    if child.returncode != 0 or not lines:
        raise RefeedError(
            "engine",
            f"the download of {model} died with exit code {child.returncode}",
            "the whole log is in worker.log; start again: whole files are kept",
        )
    said = json.loads(lines[-1])
    if "path" not in said:
        raise RefeedError("engine", said["message"], said["hint"])
    return Path(said["path"])


def arrived(snapshot: Snapshot, stale: frozenset[Path] = frozenset()) -> float:
    """Return the share of a snapshot's missing bytes that is on the disk, 0 to 1.

    Args:
        snapshot: as it was before the download.
        stale: unfinished files that nobody continues.
    """
    there = sum(_bytes_of(piece, snapshot, stale) for piece in snapshot.missing)
    return min(there / snapshot.size, 1.0) if snapshot.size > 0 else 0.0


def _bytes_of(piece: Piece, snapshot: Snapshot, stale: frozenset[Path]) -> int:
    size = piece.size or 0
    blobs = snapshot.cache / "blobs"
    if (snapshot.folder / piece.name).exists() or (piece.blob and (blobs / piece.blob).exists()):
        return size
    partials = blobs.glob(f"{piece.blob}*.incomplete") if piece.blob else ()
    return min(max((on_disk(path) for path in partials if path not in stale), default=0), size)


def _partials(snapshot: Snapshot) -> set[Path]:
    """Unfinished files of earlier downloads under names of their own, which are not continued."""
    continued = {f"{piece.blob}.incomplete" for piece in snapshot.missing}
    return {path for path in (snapshot.cache / "blobs").glob("*.incomplete") if path.name not in continued}
