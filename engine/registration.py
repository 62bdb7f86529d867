"""From what was asked to what is registered: `auto` resolved, data and model hashed, tokens estimated."""

from __future__ import annotations

import hashlib
import importlib.util
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from engine.backends.early import check_checkpoint
from engine.backends.load import model_path
from engine.protocol.capacity import group_width, wave_width
from engine.tasks.registry import from_anywhere, open_task
from engine.tasks.task import user_message
from sessions.errors import RefeedError
from sessions.spec import BUNDLED_MODEL, check, check_new

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.tasks.task import Task
    from sessions.spec import CampaignSpec, EngineName

    Hear = Callable[[str, float], None]
    CheckFirst = Callable[[CampaignSpec, Path, str], str]

NEEDS: Final = {"embedded": ("torch", "tokenizers", "safetensors", "transformers"), "vllm": ("vllm",)}
PAPER_MODEL: Final = "Qwen/Qwen2.5-7B-Instruct"
PART: Final = 1 << 22
HEAR_SECONDS: Final = 1.0
READING: Final = "checking the weights"
PASSES: Final = 3
ARMS: Final = 2
CONFIGURATIONS: Final = ("config.json", "params.json")  # vLLM reads Mistral's own format, too

# How full requests ran in the published primary run: 43,500 tokens in 400 continuations of at most 400, and trunks
# of about 250 of 512 (design facts; the bundled model is about as wordy). Rates: 8,300 for a 7B shape on an H200
# (vllm_h200_speed.json in benchmarks/results), and embedded_speed.json. They size an estimate that is labelled as one.
CONTINUATION_FILL: Final = 0.27
TRUNK_FILL: Final = 0.5
TOKENS_PER_SECOND: Final = {"vllm": 8_000.0, "embedded": 8_000.0}
# How much faster passes of several problems are, by problems in a batch, against one (docs/measurements.md).
FASTER_IN_GROUPS: Final = {"vllm": {1: 1.0, 2: 1.4, 4: 1.9, 8: 2.2}, "embedded": {1: 1.0}}


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def gpu_there() -> bool:
    """Whether this machine shows an NVIDIA device."""
    return any(Path("/dev").glob("nvidia[0-9]*"))


def chosen_engine(spec: CampaignSpec) -> EngineName:
    """The engine that a launch would run: what the spec names, or with "auto" vLLM if it and a GPU are there."""
    if spec.engine != "auto":
        return spec.engine
    return "vllm" if _installed("vllm") and gpu_there() else "embedded"


def require_engine(engine: str) -> None:
    """Pass when what an engine needs is installed; nothing of it is imported.

    Args:
        engine: "embedded" or "vllm".

    Raises:
        RefeedError: kind "engine", naming the packages that this environment lacks; or for another engine.
    """
    if engine not in NEEDS:  # a stranger's spec may never have been resolved
        raise RefeedError("engine", f"there is no engine {engine!r}", "use --engine vllm or --engine embedded")
    missing = [module for module in NEEDS[engine] if not _installed(module)]
    if missing:
        raise RefeedError(
            "engine",
            f"the {engine} engine needs {', '.join(missing)}, which this environment lacks",
            f"install it, from the checkout, with: pip install '.[{engine}]'",
        )


def files_of(folder: Path) -> tuple[Path, ...]:
    """A checkpoint's files, in the order of their names.

    Raises:
        RefeedError: kind "engine" when the folder is not there or holds no files.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []
    if not files:
        raise RefeedError(
            "engine",
            f"no model at {folder}",
            "give `model` a folder with a Hugging Face checkpoint; the hub needs vllm",
        )
    return tuple(files)


def _parts(path: Path) -> Iterator[bytes]:
    """A file's content.

    Raises:
        RefeedError: kind "engine" when it cannot be read.
    """
    try:
        with path.open("rb", buffering=0) as file:
            while part := file.read(PART):
                yield part
    except OSError as error:
        raise RefeedError("engine", f"{path} of the model cannot be read: {error.strerror}", "is it whole?") from error


def _size(path: Path) -> int:
    """Bytes of a file; 0 for one that cannot be asked, which reading it will tell."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def model_digest(folder: Path, hear: Hear | None = None) -> str:
    """SHA-256 over the names and contents of a checkpoint's files.

    Args:
        folder: of the checkpoint.
        hear: told that weights are read and how far that is, 0 to 1, about once a second; what it raises ends this.

    Raises:
        RefeedError: kind "engine" when the folder is not there, holds no files, or cannot be read.
    """
    files = files_of(folder)
    size = sum(map(_size, files))
    done, told = 0, time.monotonic()
    total = hashlib.sha256()
    for path in files:
        content = hashlib.sha256()
        for part in _parts(path):
            content.update(part)
            done += len(part)
            if hear is not None and time.monotonic() - told >= HEAR_SECONDS:
                told = time.monotonic()
                hear(READING, min(1.0, done / max(size, 1)))
        total.update(f"{path.relative_to(folder).as_posix()}\0{content.hexdigest()}\n".encode())
    return total.hexdigest()


def digest_of_model(spec: CampaignSpec, hear: Hear | None = None) -> str | None:
    """Digest of the files of a spec's model; None for a hub id, which its revision names.

    Raises:
        RefeedError: as `model_digest`; also for a folder that was registered and is gone.
    """
    folder = model_path(spec)
    if spec.engine == "embedded" or folder.is_dir() or spec.model_digest is not None:
        return model_digest(folder, hear)
    return None


def _model(spec: CampaignSpec, *, embedded: bool) -> str:
    """The model that will run; a folder is named from the root, since a worker does not run where it was launched.

    Raises:
        RefeedError: kind "engine" for a folder that holds no checkpoint: to hash all that lies in it could take long.
    """
    model = spec.model or (BUNDLED_MODEL if embedded else PAPER_MODEL)
    folder = Path(model).expanduser()
    if model == BUNDLED_MODEL or not folder.is_dir():
        return model
    if not any((folder / name).is_file() for name in CONFIGURATIONS):
        raise RefeedError(
            "engine", f"no model at {folder}: it lacks config.json", "give `model` a folder with a whole checkpoint"
        )
    return str(folder.absolute())


def _settled(spec: CampaignSpec) -> CampaignSpec:
    """The spec with every `auto` and default replaced by what will run; nothing of it is looked for yet."""
    engine = chosen_engine(spec)
    embedded = engine == "embedded"
    numerics = "invariant" if embedded and spec.batch_invariant else spec.numerics
    settled = msgspec.structs.replace(
        check(spec),
        engine=engine,
        model=_model(spec, embedded=embedded),
        task=from_anywhere(spec.task or ("arithmetic" if embedded else "gsm8k")),
        numerics=numerics,
        batch_invariant=spec.batch_invariant or numerics == "invariant",
        cont_temperature=spec.temperature if spec.cont_temperature is None else spec.cont_temperature,
        wave=wave_width(spec),
        group=group_width(spec),
        template_date=spec.template_date or datetime.now().astimezone().date().isoformat(),
    )
    check_new(settled)
    return settled


def _with_task(spec: CampaignSpec) -> CampaignSpec:
    """The settled spec with its task's instruction and digest, its window of problems looked at."""
    task = open_task(str(spec.task), spec.grader)
    task.problem(spec.start)
    task.problem(spec.start + spec.problems - 1)
    prompt = task.instruction if spec.prompt is None else spec.prompt
    return msgspec.structs.replace(spec, prompt=prompt, task_digest=task.digest)


def resolve(spec: CampaignSpec, hear: Hear | None = None) -> CampaignSpec:
    """Return the spec with every `auto` and default replaced by what will run, and the digests of data and model.

    Args:
        spec: as asked for.
        hear: told how far the model's files are read, as by `model_digest`.

    Raises:
        RefeedError: an engine that is not installed, a model or task that is not there, an impossible combination.
    """
    settled = _settled(spec)
    require_engine(settled.engine)
    resolved = _with_task(settled)
    return check(msgspec.structs.replace(resolved, model_digest=digest_of_model(resolved, hear)))


def first_prompt(spec: CampaignSpec, task: Task, check_first: CheckFirst = check_checkpoint) -> str | None:
    """The first problem's prompt as the model would get it; None where the model's files are not on this machine.

    Args:
        spec: resolved.
        task: its problems.
        check_first: looks at the model's files, in this process or, as `check_apart`, in another.

    Raises:
        RefeedError: kind "engine", as `engine.backends.early.check_checkpoint`, for a model that cannot be measured.
    """
    folder = model_path(spec)
    if not (folder / "config.json").is_file():  # of the hub, or in Mistral's own format
        return None
    instruction = task.instruction if spec.prompt is None else spec.prompt
    return check_first(spec, folder, user_message(task.problem(spec.start), instruction))


def rehearse(spec: CampaignSpec) -> tuple[CampaignSpec, tuple[str, ...]]:
    """Resolve a spec as far as this machine can, for a dry run away from the machine that will run it.

    Returns:
        the spec, and what is missing here; with anything missing its digest is not the one that will be registered.

    Raises:
        RefeedError: as `resolve`, but for an engine that is not installed and a task's own data that is not here.
    """
    resolved = _settled(spec)
    missing = []
    try:
        require_engine(resolved.engine)
    except RefeedError as error:
        missing.append(str(error))
    try:
        resolved = _with_task(resolved)
    except RefeedError as error:
        if error.kind != "task" or ":" in str(resolved.task):  # a file that was named must be there and be right
            raise
        missing.append(str(error))
    return check(msgspec.structs.replace(resolved, model_digest=digest_of_model(resolved))), tuple(missing)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a campaign may take.

    Attributes:
        most_tokens: generated at the limit of every request, without screened-out problems.
        likely_tokens: at the fill of the published runs.
        tokens_per_second: the rate assumed.
        seconds: likely tokens at that rate.
        cost: of those seconds; None without a price.
    """

    most_tokens: int
    likely_tokens: int
    tokens_per_second: float
    seconds: float
    cost: float | None


def estimate(spec: CampaignSpec, price_per_hour: float | None = None) -> Estimate:
    """Estimate a resolved spec; an upper bound on tokens, and a likely figure that says what it assumes."""
    trunks = spec.problems * spec.rollouts * spec.max_trunk_tokens
    arms = spec.problems * spec.rollouts * spec.max_pivots * ARMS * PASSES
    probes = arms * spec.probe_tokens
    continuations = arms * spec.k * spec.max_cont_tokens
    likely = round(TRUNK_FILL * trunks + CONTINUATION_FILL * continuations + probes)
    faster = FASTER_IN_GROUPS[spec.engine]
    rate = TOKENS_PER_SECOND[spec.engine] * faster[max(size for size in faster if size <= max(spec.group, 1))]
    seconds = likely / rate
    cost = None if price_per_hour is None else price_per_hour * seconds / 3600
    return Estimate(trunks + continuations + probes, likely, rate, seconds, cost)
