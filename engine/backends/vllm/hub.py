"""Where the model's files are: a local folder, or a hub snapshot pinned to a commit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    Progress = Callable[[str, float], None]

FILES: Final = ("*.json", "*.safetensors", "*.jinja", "*.model", "*.txt", "*.tiktoken")


@dataclass(frozen=True, slots=True)
class Source:
    """A model's files.

    Attributes:
        path: local folder.
        commit: hub commit; empty for a local folder, which the spec's digest pins.
    """

    path: str
    commit: str


def locate(model: str, folder: Path, revision: str | None, progress: Progress) -> Source:
    """Return the model's files, downloading what the local cache lacks.

    Args:
        model: hub id, when `folder` does not exist.
        folder: local folder that the model may mean.
        revision: of the hub's repository.
        progress: told how much is there.

    Raises:
        Exception: huggingface_hub's own errors, which `errors.explain` turns into one line.
    """
    if folder.is_dir():
        return Source(str(folder), "")
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - only with vLLM

    progress("downloading", 0.0)
    path = Path(snapshot_download(model, revision=revision, allow_patterns=list(FILES), tqdm_class=_bars(progress)))
    progress("downloading", 1.0)
    # The hub's cache names a snapshot's folder by its commit.
    return Source(str(path), path.name)


def _bars(progress: Progress) -> Any:
    from tqdm.std import tqdm  # noqa: PLC0415

    class Files(tqdm):  # type: ignore[misc]
        """Counts downloaded files; draws nothing."""

        def __init__(self, *rest: Any, **more: Any) -> None:
            more.pop("name", None)
            super().__init__(*rest, **more)

        def display(self, *_rest: Any, **_more: Any) -> bool:
            if self.total:
                progress("downloading", min(self.n / self.total, 1.0))
            return True

    return Files
