"""What the hub has of a model at a revision, and what this machine has of it already, before anything is fetched."""

from __future__ import annotations

import fnmatch
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from engine.backends.vllm.refusals import refusal, unreachable
from engine.network import network_errors, reason
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FILES: Final = ("*.json", "*.safetensors", "*.jinja", "*.model", "*.txt", "*.tiktoken")
COMMIT: Final = re.compile("[0-9a-f]{40}")
INDEX: Final = "model.safetensors.index.json"
# Asked of the disk when sizes are not told, which some mirrors of the hub do not: below this no model worth a GPU fits.
LEAST_ROOM: Final = 2 << 30
# Unit of a file's block count (POSIX, st_blocks).
SECTOR: Final = 512


@dataclass(frozen=True, slots=True)
class Piece:
    """A file that is wanted and not here.

    Attributes:
        name: path within the repository.
        size: bytes; None where the hub does not tell.
        blob: name of its content in the local cache; empty where the hub does not tell.
    """

    name: str
    size: int | None
    blob: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A model's files at one commit, as the hub lists them.

    Attributes:
        model: hub id.
        revision: as asked for; None is the hub's default branch.
        commit: that it stands for.
        names: of all wanted files; empty when the hub was not reached.
        missing: those that are not in the local cache.
        cache: the local cache's folder of this repository.
        unreached: why the hub was not reached, when a whole copy in the cache serves instead; else empty.
    """

    model: str
    revision: str | None
    commit: str
    names: tuple[str, ...]
    missing: tuple[Piece, ...]
    cache: Path
    unreached: str = ""

    @property
    def folder(self) -> Path:
        """Where its files are, or will be."""
        return self.cache / "snapshots" / self.commit

    @property
    def size(self) -> int:
        """Bytes of the missing files, of those whose size is told."""
        return sum(piece.size or 0 for piece in self.missing)

    @property
    def needed(self) -> int:
        """Bytes that the disk must have free.

        An interrupted download leaves files under this name only in versions of the hub's client that continue them.
        """
        partial = sum(
            on_disk(self.cache / "blobs" / f"{piece.blob}.incomplete") for piece in self.missing if piece.blob
        )
        floor = LEAST_ROOM if any(piece.size is None for piece in self.missing) else 0
        return max(self.size - partial, floor)


def on_disk(path: Path) -> int:
    """Written bytes of a file: fewer than its length while it is filled out of order; 0 when it is not there."""
    try:
        found = path.stat()
    except OSError:
        return 0
    return min(found.st_size, found.st_blocks * SECTOR)


def wanted(names: Iterable[str]) -> list[str]:
    """Names of those files that vLLM may read."""
    return [name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in FILES)]


def is_whole(folder: Path) -> bool:
    """Whether a folder has weights, and every file of them that its index names."""
    index = folder / INDEX
    if not index.is_file():
        return any(path.is_file() for path in folder.glob("*.safetensors"))
    try:
        shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, TypeError, KeyError, AttributeError):  # a damaged index names nothing
        return False
    return all((folder / shard).is_file() for shard in shards)


def offline() -> bool:
    """Whether this machine's user asked that the hub be left alone (HF_HUB_OFFLINE)."""
    from huggingface_hub import constants  # noqa: PLC0415 - only for models of the hub

    return bool(constants.HF_HUB_OFFLINE)


def look_up(model: str, revision: str | None) -> Snapshot:
    """Ask the hub for a model's files and whether they may be read; where it cannot be asked, look in the cache.

    Takes two requests at most, each bounded by HF_HUB_ETAG_TIMEOUT (10 seconds).

    Args:
        model: hub id.
        revision: branch, tag or commit; None is the hub's default branch.

    Raises:
        RefeedError: kind "engine": no such model or revision, no access to it, no weights that vLLM reads, or neither
            hub nor cache.
    """
    from huggingface_hub import HfApi, constants  # noqa: PLC0415 - only for models of the hub
    from huggingface_hub.errors import HFValidationError, RevisionNotFoundError  # noqa: PLC0415

    seconds = constants.HF_HUB_ETAG_TIMEOUT
    no_answer: tuple[type[Exception], ...] = (*network_errors(), ValueError)  # ValueError: a proxy's page, no JSON
    try:
        info = HfApi().model_info(model, revision=revision, files_metadata=True, timeout=seconds)
    except HFValidationError as error:
        raise refusal(error, model, revision) from error
    except RevisionNotFoundError as error:
        if COMMIT.fullmatch(revision or "") is None:  # the cache's copy of a branch that is gone would be another's
            raise refusal(error, model, revision) from error
        return _cached(model, revision, error)
    except no_answer as error:
        return _cached(model, revision, error)
    cache = _cache(model)
    names = wanted(sibling.rfilename for sibling in info.siblings or ())
    missing = tuple(_missing(info, set(names), cache))
    found = Snapshot(model, revision, str(info.sha), tuple(names), missing, cache)
    _require_weights(found)
    if missing:
        _require_access(found)
    return found


def _cache(model: str) -> Path:
    from huggingface_hub import constants  # noqa: PLC0415

    return Path(constants.HF_HUB_CACHE).expanduser() / f"models--{model.replace('/', '--')}"


def _missing(info: Any, names: set[str], cache: Path) -> Iterator[Piece]:
    """Wanted files of which neither the commit's snapshot nor the content is in the cache."""
    for sibling in info.siblings or ():
        if sibling.rfilename not in names:
            continue
        blob = str((sibling.lfs.sha256 if sibling.lfs is not None else sibling.blob_id) or "")
        here = (cache / "snapshots" / str(info.sha) / sibling.rfilename).exists()
        if not here and not (blob and (cache / "blobs" / blob).exists()):
            yield Piece(sibling.rfilename, sibling.size, blob)


def _require_weights(found: Snapshot) -> None:
    if not any(name.endswith(".safetensors") for name in found.names):
        raise RefeedError(
            "engine",
            f"{found.model} has no .safetensors files at {found.commit[:12]}",
            "use a model, or a `revision` of it, whose weights are in that format",
        )


def _require_access(found: Snapshot) -> None:
    """Ask for a missing file's headers, as the download will: anybody may list a gated model, but not read it."""
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url  # noqa: PLC0415

    largest = max(found.missing, key=lambda piece: piece.size or 0)
    url = hf_hub_url(found.model, largest.name, revision=found.commit)
    try:
        get_hf_file_metadata(url, timeout=constants.HF_HUB_ETAG_TIMEOUT)
    except network_errors() as error:
        raise _given(error, found.model, found.revision) from error


def _given(error: Exception, model: str, revision: str | None) -> RefeedError:
    """The error to show when the hub answered with one, or did not answer and nothing can replace it."""
    answered = getattr(error, "response", None) is not None
    return refusal(error, model, revision) if answered else unreachable(error, model)


def _cached(model: str, revision: str | None, error: Exception) -> Snapshot:
    """The cache's whole copy, where the hub cannot be asked.

    Raises:
        RefeedError: kind "engine", for the hub's error, when there is none.
    """
    from huggingface_hub import snapshot_download  # noqa: PLC0415
    from huggingface_hub.errors import LocalEntryNotFoundError  # noqa: PLC0415

    try:
        folder = Path(snapshot_download(model, revision=revision, allow_patterns=list(FILES), local_files_only=True))
    except LocalEntryNotFoundError:
        raise _given(error, model, revision) from error
    if not is_whole(folder):
        raise _given(error, model, revision) from error
    # The hub's cache names a snapshot's folder by its commit.
    return Snapshot(model, revision, folder.name, (), (), folder.parents[1], reason(error))
