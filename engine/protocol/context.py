"""What a problem is measured with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.backend import Backend
    from engine.protocol.control import Control
    from engine.protocol.limits import Limits
    from engine.tasks.task import Task
    from sessions.events import AnyEvent
    from sessions.spec import CampaignSpec


@dataclass(frozen=True, slots=True)
class Bench:
    """The parts that every step of a campaign needs; none of them is replaced while it runs.

    Attributes:
        spec: resolved and locked.
        backend: the engine.
        task: problems and their gold answers.
        emit: appends an event to the journal and folds it into the campaign's state.
        control: stop and pause requests.
        attempt: number of this run of the worker, from 0.
        limits: stop rule, hours and cost.
        texts: folder of the side files.
    """

    spec: CampaignSpec
    backend: Backend
    task: Task
    emit: Callable[[AnyEvent], None]
    control: Control
    attempt: int
    limits: Limits
    texts: Path
