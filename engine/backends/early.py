"""What a checkpoint's small files say before a weight is read: whether the engine takes it, and its first prompt."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from engine.backends.chat import Chat
from engine.backends.embedded.config import read_config
from engine.backends.fields import Fields, read_json
from sessions.errors import Kind, RefeedError
from sessions.spec import CampaignSpec

SECONDS: Final = 120
MID_TRUNK: Final = "it cannot resume in the middle of a trunk, so no pivot can be verified; use another model"
# Fields that configurations of state-space and other recurrent layers have.
RECURRENT: Final = (
    "hybrid_override_pattern",
    "linear_num_value_heads",
    "mamba_d_state",
    "mamba_num_heads",
    "ssm_cfg",
    "ssm_state_size",
    "time_step_rank",
)
WHOLE: Final = frozenset({"full_attention", "attention"})


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What `check_checkpoint` returned, or raised, in another process.

    Attributes:
        prompt: as the model would get it.
        kind: of the refusal; None where there is none.
        message: of the refusal.
        hint: of the refusal.
    """

    prompt: str = ""
    kind: Kind | None = None
    message: str = ""
    hint: str = ""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of `check_checkpoint`, for another process."""

    spec: CampaignSpec
    folder: str
    user: str


def check_apart(spec: CampaignSpec, folder: Path, user: str) -> str:
    """As `check_checkpoint`, in a process of its own: transformers takes seconds to import, and brings torch."""
    asked = msgspec.json.encode(Request(spec=spec, folder=str(folder), user=user))
    command = [sys.executable, "-P", "-W", "ignore", "-m", "engine.backends.early"]
    try:
        done = subprocess.run(command, input=asked, capture_output=True, timeout=SECONDS, check=False)
        answer = msgspec.json.decode(done.stdout.splitlines()[-1:][0], type=Answer)
    except (subprocess.TimeoutExpired, IndexError, msgspec.DecodeError) as error:
        message = f"the tokenizer of {folder} could not be looked at: {type(error).__name__}"
        raise RefeedError("engine", message, "python -c 'import transformers' may say why") from error
    if answer.kind is not None:
        raise RefeedError(answer.kind, answer.message, answer.hint)
    return answer.prompt


def main() -> None:
    """Answer one request on standard input, in the last line of standard output."""
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    try:
        answer = Answer(prompt=check_checkpoint(asked.spec, Path(asked.folder), asked.user))
    except RefeedError as error:
        answer = Answer(kind=error.kind, message=error.message, hint=error.hint)
    except ModuleNotFoundError as error:
        hint = "install an engine, from the checkout, with: pip install '.[embedded]' or '.[vllm]'"
        answer = Answer(kind="engine", message=f"{asked.folder} needs {error.name}, which is not installed", hint=hint)
    sys.stdout.buffer.write(b"\n" + msgspec.json.encode(answer) + b"\n")


def check_checkpoint(spec: CampaignSpec, folder: Path, user: str) -> str:
    """Refuse a checkpoint that the spec's engine would refuse; return the prompt as the model would get it.

    Reads config.json, the tokenizer and the chat template; no weight, and no engine is imported.

    Args:
        spec: with its engine resolved.
        folder: the checkpoint's.
        user: a question with its instruction.

    Raises:
        RefeedError: kind "engine", naming the file and the value.
    """
    size = read_config(folder).vocab_size if spec.engine == "embedded" else _size_for_vllm(spec, folder)
    chat = Chat(folder, size, spec.template_date)
    chat.encode_chat(spec.system_prompt, user)
    return chat.render(spec.system_prompt, user)


def _size_for_vllm(spec: CampaignSpec, folder: Path) -> int:
    """Token ids of a model that vLLM can resume; its configuration may stand inside that of a larger model."""
    path = folder / "config.json"
    outer = read_json(path)
    inner = outer.get("text_config")
    text = {**outer, **inner} if isinstance(inner, dict) else outer
    fields = Fields(path, text)
    _refuse_recurrent(fields)
    _refuse_windows(fields, spec.max_model_len)
    _refuse_unknown(Fields(path, outer))
    return fields.integer("vocab_size")


def _refuse_recurrent(fields: Fields) -> None:
    found = next((name for name in RECURRENT if fields.values.get(name) is not None), None)
    if found is not None:
        raise fields.refuse(found, f"the model has recurrent layers: {MID_TRUNK}")


def _refuse_windows(fields: Fields, max_model_len: int | None) -> None:
    """Layers that keep less than the whole prefix; a window as wide as all that will run is none."""
    values = fields.values
    longest = max_model_len or values.get("max_position_embeddings")
    window = values.get("sliding_window")
    if isinstance(window, int) and isinstance(longest, int) and window >= longest:
        return
    kinds = values.get("layer_types")
    if isinstance(kinds, list):
        if not set(map(str, kinds)) <= WHOLE:
            raise fields.refuse("layer_types", f"not every layer keeps the whole prefix: {MID_TRUNK}")
    elif window is not None and values.get("use_sliding_window", True):
        raise fields.refuse("sliding_window", f"the model attends through a window: {MID_TRUNK}")


def _refuse_unknown(fields: Fields) -> None:
    """An architecture that neither the installed vLLM nor transformers names; nothing is known where vLLM is not."""
    names = fields.values.get("architectures")
    there = importlib.util.find_spec("vllm")
    if there is None or there.origin is None:
        return
    if not isinstance(names, list) or not names:
        raise fields.refuse("architectures", "vLLM chooses the model's code by it")
    registry = Path(there.origin).parent / "model_executor" / "models" / "registry.py"
    known = registry.read_text(encoding="utf-8") if registry.exists() else None
    if known is not None and not any(f'"{name}"' in known or name in _of_transformers() for name in names):
        raise fields.refuse("architectures", "neither the installed vLLM nor transformers knows it")


def _of_transformers() -> set[Any]:
    from transformers.models.auto import modeling_auto  # noqa: PLC0415 - seconds, and only for what vLLM lacks

    return set(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())


if __name__ == "__main__":
    main()
