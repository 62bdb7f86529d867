"""What vLLM finds this machine to be, and whether a spec can run on it: asked before anything is downloaded or loaded.

`python -P -m engine.backends.vllm.hardware FIELDS` answers for `doctor`, which imports nothing of vLLM: its last line
says, in JSON, what a start with these fields of a spec would be refused for.
"""

from __future__ import annotations

import difflib
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from engine.backends.vllm import compat, environment, preflight, settings
from sessions.errors import RefeedError
from sessions.spec import CampaignSpec

if TYPE_CHECKING:
    from collections.abc import Collection

    from engine.backends.vllm.compat import Hardware

MIN_INVARIANT_CAPABILITY: Final = (8, 0)
CPU_DEFAULT: Final = "CPU_ATTN"
CPU_ATTENTION: Final = ("CPU_", "AMX_")  # how the names of attention backends for CPUs begin
NEAR: Final = 3
COUNT: Final = "import torch; print(torch.cuda.device_count())"
COUNT_SECONDS: Final = 120.0


class Found(NamedTuple):
    """What vLLM runs on.

    Attributes:
        hardware: kind of it.
        warning: about vLLM's version; None without one.
    """

    hardware: Hardware
    warning: str | None

    @property
    def cpu(self) -> bool:
        """Whether there is no GPU behind it."""
        return self.hardware == "CPU"


def find(spec: CampaignSpec, *, apart: bool) -> Found:
    """Import vLLM and refuse a spec that it cannot run on this machine.

    Args:
        spec: resolved settings.
        apart: whether the engine core gets a process of its own.

    Raises:
        RefeedError: kind "engine".
        ModuleNotFoundError: vLLM is not installed.
    """
    import vllm  # noqa: PLC0415 - heavy, and reads its environment at import
    from vllm.platforms import current_platform  # noqa: PLC0415

    hardware = _hardware(current_platform)
    warning = compat.check_version(vllm.__version__, hardware)
    capability = None
    if hardware == "CPU":
        check_cpu(spec)
    else:
        _check_gpus(spec, current_platform, apart=apart)
        capability = current_platform.get_device_capability()
    check_attention(spec.attention_backend, compat.attention_backends())
    if spec.batch_invariant:
        check_invariance(None if capability is None else (capability.major, capability.minor))
    return Found(hardware, warning)


def _hardware(platform: Any) -> Hardware:
    if platform.is_cpu():
        return "CPU"
    if not platform.is_cuda_alike():
        raise RefeedError(
            "engine",
            "vLLM sees no GPU",
            "check `nvidia-smi` and CUDA_VISIBLE_DEVICES, or run with --engine embedded",
        )
    return "CUDA" if platform.is_cuda() else "ROCm"


def _check_gpus(spec: CampaignSpec, platform: Any, *, apart: bool) -> None:
    if not apart:
        preflight.require_gpus(platform.device_count(), spec.tensor_parallel)
    elif spec.tensor_parallel not in {None, 1}:  # one is there: vLLM would have seen no GPU otherwise
        preflight.require_gpus(gpus_counted_apart(), spec.tensor_parallel)


def gpus_counted_apart() -> int:
    """GPUs that a process of this environment sees.

    Where NVML cannot count, counting starts CUDA, and an engine core that is forked afterwards could not use it.

    Raises:
        RefeedError: kind "engine" when they cannot be counted.
    """
    command = (sys.executable, "-P", "-c", COUNT)
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=COUNT_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise RefeedError("engine", f"GPUs cannot be counted: {error}", "see worker.log") from error
    return int(done.stdout.split()[-1])


def check_cpu(spec: CampaignSpec) -> None:
    """Refuse what vLLM would not do on a CPU, before weights are loaded.

    Raises:
        RefeedError: kind "engine", naming the field.
    """
    if spec.tensor_parallel not in {None, 1}:
        raise RefeedError(
            "engine",
            f"`tensor_parallel` is {spec.tensor_parallel}, but vLLM runs on a CPU here",
            "leave it out, or run on a machine with as many GPUs",
        )
    asked = spec.attention_backend
    if asked is not None and not asked.upper().startswith(CPU_ATTENTION):
        raise RefeedError(
            "engine",
            f"attention_backend = {asked} was asked for, but on a CPU vLLM uses {CPU_DEFAULT}",
            f"leave it out, or set it to {CPU_DEFAULT}",
        )


def check_attention(asked: str | None, known: Collection[str]) -> None:
    """Refuse a name that this vLLM does not know, before a model is downloaded or loaded.

    Args:
        asked: as in the spec; None leaves the choice to vLLM.
        known: names that vLLM has; none when it does not tell, and then it must check by itself.

    Raises:
        RefeedError: kind "engine", with the names that come near.
    """
    if asked is None or not known or asked.upper() in known:
        return
    near = difflib.get_close_matches(asked.upper(), sorted(known), n=NEAR)
    other = f"; near it are {', '.join(near)}" if near else f", for example {settings.SAME_TILES}"
    raise RefeedError(
        "engine",
        f"attention_backend = {asked} was asked for, but this vLLM has none of that name",
        f"leave it out, or give one that it has{other}",
    )


def check_invariance(capability: tuple[int, int] | None) -> None:
    """Refuse batch invariance on hardware that has none, before weights are loaded.

    Args:
        capability: CUDA compute capability; None without a GPU.

    Raises:
        RefeedError: kind "engine".
    """
    if capability is None:
        raise RefeedError(
            "engine",
            "batch_invariant is set, but vLLM runs on a CPU here",
            "it needs an NVIDIA GPU of compute capability 8.0 or newer; the embedded engine has an invariant mode",
        )
    if capability < MIN_INVARIANT_CAPABILITY:
        raise RefeedError(
            "engine",
            f"batch_invariant is set, but this GPU has compute capability {capability[0]}.{capability[1]}",
            "it needs 8.0 or newer (A100, H100, H200, L4, RTX 30 and later)",
        )


def main(arguments: list[str]) -> int:
    """Say what a start with these fields of a spec would be refused for."""
    spec = CampaignSpec(engine="vllm", **msgspec.json.decode(arguments[0]))
    said = {"hardware": "", "message": "", "hint": ""}
    try:
        environment.prepare(spec, multiprocess=environment.multiprocess_wanted())
        said["hardware"] = find(spec, apart=environment.multiprocess_wanted()).hardware
    except RefeedError as error:
        said |= {"message": error.message, "hint": error.hint}
    sys.stdout.write(f"\n{msgspec.json.encode(said).decode()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
