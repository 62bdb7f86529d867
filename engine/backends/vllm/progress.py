"""Loading progress: vLLM's own bars and log lines, told to a callback as (stage, fraction)."""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Progress = Callable[[str, float], None]

# Bars by the words they begin with.
BARS: Final = (
    (r"loading .*shards", "loading weights"),
    (r"capturing cuda graphs", "capturing CUDA graphs"),
    (r"download|fetching", "downloading"),
)
# Log lines that end a stage or begin the next.
LINES: Final = (
    (r"Starting to load model", "loading weights", 0.0),
    (r"Loading weights took", "loading weights", 1.0),
    (r"Dynamo bytecode transform|Compiling a graph|torch\.compile", "compiling", 0.5),
    (r"torch\.compile takes|torch\.compile and initial profiling", "compiling", 1.0),
    (r"KV cache size", "allocating the KV cache", 1.0),
    (r"Graph capturing finished", "capturing CUDA graphs", 1.0),
)


class _Lines(logging.Filter):
    """Reads log records on their way; drops none."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self._progress = progress

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        for pattern, stage, fraction in reversed(LINES):
            if re.search(pattern, message):
                self._progress(stage, fraction)
                break
        return True


def bar_stage(description: str) -> str | None:
    """Return the stage that a progress bar with this description belongs to."""
    return next((stage for pattern, stage in BARS if re.search(pattern, description.lower())), None)


@contextmanager
def watched(progress: Progress) -> Iterator[None]:
    """Tell `progress` of every tqdm bar and known log line while the block runs.

    Bars are watched where tqdm draws them, so that it does not matter which module of vLLM or the hub made them.
    """
    from tqdm.std import tqdm  # noqa: PLC0415 - comes with vLLM

    drawn = tqdm.display

    def display(bar: Any, *rest: Any, **more: Any) -> Any:
        stage = bar_stage(str(bar.desc or ""))
        if stage is not None and bar.total:
            progress(stage, min(bar.n / bar.total, 1.0))
        return drawn(bar, *rest, **more)

    lines = _Lines(progress)
    # Filters of a logger see only its own records; those of its handlers see all that propagate up to it.
    handlers = list(logging.getLogger("vllm").handlers)
    for handler in handlers:
        handler.addFilter(lines)
    tqdm.display = display
    try:
        yield
    finally:
        tqdm.display = drawn
        for handler in handlers:
            handler.removeFilter(lines)
