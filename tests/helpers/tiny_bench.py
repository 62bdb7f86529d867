"""A bench with a real engine on a tiny random model: it opens in 50 ms, and what it writes is as varied as noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from engine.protocol.context import Bench
from engine.protocol.control import Control
from engine.protocol.limits import Limits
from engine.tasks.task import Problem
from sessions.spec import CampaignSpec
from tests.helpers.embedded_checkpoints import open_engine

if TYPE_CHECKING:
    from engine.backend import Backend
    from engine.backends.embedded.backend import EmbeddedBackend
    from engine.tasks.task import Task
    from sessions.events import AnyEvent

SPEC = CampaignSpec(
    problems=4,
    rollouts=2,
    temperature=1.0,
    k=2,
    max_pivots=1,
    max_trunk_tokens=100,
    max_cont_tokens=50,
    probe_tokens=8,
    scan_limit=8,
)
MODEL_LEN = 200


def replace_spec(**changes: object) -> CampaignSpec:
    """The spec with some fields changed."""
    return msgspec.structs.replace(SPEC, **changes)


@dataclass
class Book:
    """A task of numbered questions, one token a letter.

    Attributes:
        size: problems.
        long: the one whose question has 60 letters instead of 10; -1 for none.
        problems: questions and gold answers that differ from the others'.
    """

    size: int = 100
    long: int = -1
    problems: dict[int, Problem] = field(default_factory=dict)
    name: str = "book"
    digest: str = "d"
    instruction: str = ""

    def __len__(self) -> int:
        """Problems."""
        return self.size

    def problem(self, index: int) -> Problem:
        """A question; the one numbered `long` is long."""
        return self.problems.get(index) or Problem(index, "q" * (60 if index == self.long else 10), "1")


def open_tiny(checkpoint: Path, blocks: int = 4000, **settings: Any) -> EmbeddedBackend:
    """The real engine, for sequences of `MODEL_LEN` tokens in blocks of 16."""
    return open_engine(checkpoint, max_model_len=MODEL_LEN, num_blocks=blocks, max_num_seqs=64, **settings)


def bench(backend: Backend, spec: CampaignSpec = SPEC, book: Book | None = None) -> tuple[Bench, list[AnyEvent]]:
    """A bench over the book, and the events that it emits."""
    events: list[AnyEvent] = []
    task = cast("Task", book or Book())
    return Bench(spec, backend, task, events.append, Control(), 0, Limits(spec), Path()), events
