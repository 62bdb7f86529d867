"""The data and the weights that a campaign was registered with: the same still, or no run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.backends.load import model_path
from engine.registration import digest_of_model, files_of
from engine.tasks.registry import open_task
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.tasks.task import Task
    from sessions.errors import Kind
    from sessions.spec import CampaignSpec

    Hear = Callable[[str, float], None]

RESTORE: Final = "restore it, or register a new campaign"


class Seen(NamedTuple):
    """A file as it was found; another content under its name differs here, unless somebody hides it.

    Attributes:
        path: of it.
        size: bytes.
        changed: nanoseconds since the epoch at which its content changed. Its inode would tell more, but some file
            systems give a file another number whenever they are asked.
    """

    path: Path
    size: int
    changed: int


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a campaign measures on.

    Attributes:
        task: its problems.
        seen: the files of its model before they were read; none for a model of the hub.
    """

    task: Task
    seen: tuple[Seen, ...]

    def require_still(self) -> None:
        """Pass when the model's files are those that were read: an engine takes its time to load them.

        Raises:
            RefeedError: kind "engine", naming a file that is another one now.
        """
        for before in self.seen:
            if _seen(before.path) != before:
                raise RefeedError("engine", f"{before.path} of the model changed while the engine loaded it", RESTORE)


def _seen(path: Path) -> Seen:
    try:
        found = path.stat()
    except OSError as error:
        raise RefeedError("engine", f"{path} of the model cannot be read: {error.strerror}", RESTORE) from error
    return Seen(path, found.st_size, found.st_mtime_ns)


def open_inputs(spec: CampaignSpec, hear: Hear | None = None) -> Inputs:
    """Open a registered spec's data and read its model's files, all of them.

    Args:
        spec: as registered.
        hear: told how far that is, as by `engine.registration.model_digest`.

    Raises:
        RefeedError: kind "task" or "engine", when they are gone or another's.
    """
    tell = None if hear is None else lambda said: hear(f"warning: {said}", 1.0)
    task = open_task(str(spec.task), spec.grader, tell)
    _as_registered("task", spec.task, task.digest, spec.task_digest)
    seen = () if spec.model_digest is None else tuple(map(_seen, _files(spec)))
    _as_registered("engine", spec.model, digest_of_model(spec, hear), spec.model_digest)
    return Inputs(task, seen)


def _files(spec: CampaignSpec) -> tuple[Path, ...]:
    try:
        return files_of(model_path(spec))
    except RefeedError as error:
        raise RefeedError(error.kind, error.message, RESTORE) from error


def _as_registered(kind: Kind, name: str | None, now: str | None, registered: str | None) -> None:
    if now != registered:
        raise RefeedError(
            kind, f"{name} now hashes to {str(now)[:16]}, but {str(registered)[:16]} was registered", RESTORE
        )
