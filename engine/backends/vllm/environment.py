"""What vLLM reads from the environment when it is imported, and what is known of its numerics before that."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from engine.variables import recorded, versions
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessions.spec import CampaignSpec

MULTIPROCESS: Final = "REFEED_TUI_VLLM_MULTIPROCESS"
RUNNER: Final = "VLLM_USE_V2_MODEL_RUNNER"
MODE: Final = "VLLM_ENABLE_V1_MULTIPROCESSING"  # vLLM's own word for it
# Set unless the caller's environment says otherwise. All of our sampled requests carry seeds, which FlashInfer's
# sampler does not serve; without it nothing is compiled for a path that is never taken.
DEFAULTS: Final = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "TOKENIZERS_PARALLELISM": "false",
}
PACKAGES: Final = (
    "vllm",
    "torch",
    "triton",
    "flashinfer",
    "flash_attn",
)  # names to import; what is absent is not recorded


def multiprocess_wanted() -> bool:
    """Whether the caller's environment asks for the engine core in a process of its own."""
    return os.environ.get(MULTIPROCESS, "0") == "1"


def settled(environment: Mapping[str, str], spec: CampaignSpec, *, multiprocess: bool) -> dict[str, str]:
    """An environment as vLLM will find it at import."""
    chosen = {MODE: "1" if multiprocess else "0", "VLLM_BATCH_INVARIANT": "1" if spec.batch_invariant else "0"}
    if spec.model_runner != "auto":
        chosen[RUNNER] = "1" if spec.model_runner == "v2" else "0"
    return {**DEFAULTS, **environment, **chosen}


def prepare(spec: CampaignSpec, *, multiprocess: bool) -> dict[str, str]:
    """Set what vLLM must find at import; return what is known of its numerics, before vLLM adds variables of its own.

    Raises:
        RefeedError: kind "engine" when vLLM was imported before with another batch invariance.
    """
    wanted = settled(os.environ, spec, multiprocess=multiprocess)
    was = os.environ.get("VLLM_BATCH_INVARIANT", "0")
    if "vllm.v1" in sys.modules and was != wanted["VLLM_BATCH_INVARIANT"]:
        raise RefeedError(
            "engine", "vLLM was already imported with another VLLM_BATCH_INVARIANT", "start a fresh process"
        )
    os.environ.update(wanted)
    return known(os.environ, spec, multiprocess=multiprocess)


def known(environment: Mapping[str, str], spec: CampaignSpec, *, multiprocess: bool) -> dict[str, str]:
    """What can change a logit and is known before anything is imported: versions, and the variables that count."""
    found = settled(environment, spec, multiprocess=multiprocess)
    return versions(PACKAGES) | recorded(found)
