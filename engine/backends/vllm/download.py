"""Fetching a model's missing files from the hub, told by the bytes that have reached the disk."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from engine.backends.vllm.hub import FILES, Piece, Snapshot, on_disk
from engine.backends.vllm.preflight import gibibytes
from engine.backends.vllm.refusals import refusal
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Callable

    Progress = Callable[[str, float], None]

STAGE: Final = "downloading"
LOOK_SECONDS: Final = 0.5


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
        RefeedError: kind "engine", when a file could not be had.
    """
    if snapshot.unreached:
        return Source(str(snapshot.folder), snapshot.commit)
    stage = f"{STAGE} {gibibytes(snapshot.size)}"
    before = frozenset(_partials(snapshot))
    with ThreadPoolExecutor(max_workers=1) as pool:
        download = pool.submit(_download, snapshot)
        while snapshot.missing and not wait((download,), timeout=LOOK_SECONDS).done:
            progress(stage, arrived(snapshot, before))
    path = download.result()
    if snapshot.missing:
        progress(stage, 1.0)
    lacking = [name for name in snapshot.names if not (path / name).exists()]
    if lacking and path == snapshot.folder:
        raise RefeedError(
            "engine",
            f"the download of {snapshot.model} ended without {len(lacking)} of {len(snapshot.names)} files, "
            f"among them {lacking[0]}",
            "start again: what arrived is kept",
        )
    # The hub's cache names a snapshot's folder by its commit.
    return Source(str(path), path.name)


def _download(snapshot: Snapshot) -> Path:
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - only for models of the hub

    # By the revision that was asked for, which the cache then knows when the hub cannot be reached.
    try:
        found = snapshot_download(
            snapshot.model, revision=snapshot.revision, allow_patterns=list(FILES), tqdm_class=_silent()
        )
    except Exception as error:
        raise refusal(error, snapshot.model, snapshot.revision) from error
    return Path(found)


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


def _silent() -> Any:
    from tqdm.std import tqdm  # noqa: PLC0415 - comes with huggingface_hub

    class Silent(tqdm):  # type: ignore[misc]
        """A progress bar that counts and draws nothing."""

        def __init__(self, *rest: Any, **more: Any) -> None:
            more.pop("name", None)
            super().__init__(*rest, **more)

        def display(self, *_rest: Any, **_more: Any) -> bool:
            return True

    return Silent
