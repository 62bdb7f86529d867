"""Which backend a resolved spec runs on; each is imported only when it is asked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from engine.backends.vllm.environment import MULTIPROCESS
from engine.backends.vllm.environment import known as known_of_vllm
from engine.variables import recorded, versions
from sessions.errors import RefeedError
from sessions.spec import BUNDLED_MODEL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.backend import Backend
    from sessions.spec import CampaignSpec

    Progress = Callable[[str, float], None]

BUNDLED_PATH: Final = Path(__file__).parent / "embedded" / "bundled"


def model_path(spec: CampaignSpec) -> Path:
    """Where a checkpoint would be if `model` is a folder; that of the bundled model when it names that."""
    return BUNDLED_PATH if spec.model in {None, BUNDLED_MODEL} else Path(str(spec.model)).expanduser()


def load(spec: CampaignSpec, progress: Progress) -> Backend:
    """Start the backend that a resolved spec names.

    Args:
        spec: resolved settings.
        progress: told what is being done and how far it is, 0 to 1.

    Raises:
        RefeedError: kind "engine", with the cause and what to do.
    """
    if spec.engine == "embedded":
        return _embedded(spec, progress)
    if spec.engine == "vllm":
        from engine.backends.vllm.backend import load as load_vllm  # noqa: PLC0415 - vLLM only where it is needed

        return load_vllm(spec, progress, folder=model_path(spec))
    raise RefeedError("engine", f"there is no engine {spec.engine!r}", "use --engine vllm or --engine embedded")


def known(spec: CampaignSpec, environment: Mapping[str, str]) -> dict[str, str]:
    """What of a resolved spec's engine can change a logit and is known before it is imported, by name."""
    if spec.engine != "vllm":
        return versions(("torch",)) | recorded(environment)
    apart = environment.get(MULTIPROCESS, "0") == "1"
    return known_of_vllm(environment, spec, multiprocess=apart)


def embedded_threads() -> int | None:
    """Threads of the embedded engine: all cores but one, which the dashboard and everybody else keep.

    A thread that must wait for a core holds up all the others at each of the many short operations of a step
    (benchmarks/results/embedded_threads.json). None where OMP_NUM_THREADS says how many.
    """
    return None if "OMP_NUM_THREADS" in os.environ else max(1, len(os.sched_getaffinity(0)) - 1)


def _embedded(spec: CampaignSpec, progress: Progress) -> Backend:
    from engine.backends.embedded.backend import load as load_embedded  # noqa: PLC0415 - torch only where it is needed

    chosen = {
        "block_size": spec.block_size,
        "num_blocks": spec.kv_blocks,
        "max_model_len": spec.max_model_len,
        "max_num_seqs": spec.max_num_seqs,
        "max_num_batched_tokens": spec.max_num_batched_tokens,
        "threads": embedded_threads(),
    }
    given = {name: value for name, value in chosen.items() if value is not None}
    return load_embedded(
        model_path(spec),
        dtype=spec.dtype,
        numerics=spec.numerics,
        template_date=spec.template_date,
        progress=progress,
        **given,
    )
