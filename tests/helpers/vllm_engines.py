"""Real vLLM engines on the CPU, on small random checkpoints; nothing here stands in for vLLM."""

from __future__ import annotations

import gc
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sessions.spec import CampaignSpec
from tests.helpers.embedded_checkpoints import QWEN2, write_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.backends.vllm.backend import VllmBackend

BLOCK = 32
# vLLM's CPU attention knows head sizes from 32 on.
SHAPE: dict[str, Any] = {**QWEN2, "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 4}


def checkpoint(folder: Path, **changes: Any) -> Path:
    """Write a random Qwen2 checkpoint of 4 layers with a tokenizer and a chat template."""
    return write_checkpoint(folder, {**SHAPE, **changes})


def spec_of(model: Path, **changes: Any) -> CampaignSpec:
    """A resolved spec for that checkpoint."""
    fields: dict[str, Any] = {"max_model_len": 512, "max_num_seqs": 32, "kv_blocks": 512, **changes}
    return CampaignSpec(engine="vllm", model=str(model), task="arithmetic", **fields)


@contextmanager
def started(model: Path, *, multiprocess: bool = False, **changes: Any) -> Iterator[VllmBackend]:
    """A running engine, closed afterwards."""
    from engine.backends.vllm.backend import load  # noqa: PLC0415 - only where vLLM is installed

    # More threads than free cores make a small model's steps wait on spinning barriers.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    backend = load(spec_of(model, **changes), lambda _stage, _fraction: None, multiprocess=multiprocess)
    try:
        yield backend
    finally:
        backend.close()
        gc.collect()  # vLLM leaves sockets to the collector, which warns; later than here a warning is an error
