"""Data sets of the hub, by name and split, through the `datasets` library."""

from __future__ import annotations

import importlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.network import network_errors, reason
from engine.tasks.files import as_text
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.tasks.files import Row


@dataclass(frozen=True, slots=True)
class HubSet:
    """A data set of the hub.

    Attributes:
        task: as the spec names it, for errors.
        name: on the hub.
        config: of the data set; None for its only one.
        split: of it.
        otherwise: what to do where the library or the hub is missing.
    """

    task: str
    name: str
    config: str | None
    split: str
    otherwise: str


def read_hub(source: HubSet) -> Iterator[Row]:
    """The rows of a data set, with their numbers as text.

    Raises:
        RefeedError: kind "task" when the library is missing or the data cannot be had.
    """
    try:
        datasets = importlib.import_module("datasets")
    except ImportError as error:
        message = f"task {source.task} needs the `datasets` library, which is not installed"
        raise RefeedError("task", message, f"pip install '.[gsm8k]', or {source.otherwise}") from error
    with _given_up_in_time(datasets, source.name) as silence:
        try:
            rows = datasets.load_dataset(source.name, source.config, split=source.split)
        except (OSError, ValueError) as error:
            message = f"task {source.task} could not be fetched from the hub ({silence or reason(error)})"
            raise RefeedError("task", message, f"connect, or {source.otherwise}") from error
    for number, row in enumerate(rows):
        yield f"row {number}", as_text(dict(row))


def _silence(name: str) -> str:
    """Why the hub does not answer within HF_HUB_ETAG_TIMEOUT (10 seconds); empty when it does, if with an error."""
    hub = importlib.import_module("huggingface_hub")
    try:
        hub.HfApi().dataset_info(name, timeout=hub.constants.HF_HUB_ETAG_TIMEOUT)
    except network_errors() as error:
        return "" if getattr(error, "response", None) is not None else reason(error)
    except ValueError:  # not a name of the hub, which the library will say
        return ""
    return ""


@contextmanager
def _given_up_in_time(datasets: Any, name: str) -> Iterator[str]:
    """Let `datasets` look in its cache alone where the hub is silent, and say why: by itself it tries for minutes."""
    places = (importlib.import_module("huggingface_hub.constants"), datasets.config)
    were = [place.HF_HUB_OFFLINE for place in places]
    silence = _silence(name)
    for place, was in zip(places, were, strict=True):
        place.HF_HUB_OFFLINE = was or silence != ""
    try:
        yield silence
    finally:
        for place, was in zip(places, were, strict=True):
            place.HF_HUB_OFFLINE = was
