"""What a checkpoint's small files refuse, before a weight is read and before anything is registered."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from engine.backends.early import check_checkpoint
from engine.backends.load import BUNDLED_PATH
from engine.registration import first_prompt, resolve
from engine.tasks.registry import open_task
from sessions.errors import RefeedError
from sessions.spec import CampaignSpec
from tui.commands.machine import model_files

if TYPE_CHECKING:
    from pathlib import Path

VLLM = CampaignSpec(engine="vllm", model="m", task="arithmetic")
EMBEDDED = CampaignSpec(engine="embedded", model="m", task="arithmetic")


def checkpoint(folder: Path, **changes: Any) -> Path:
    """The bundled model's small files, no weight that could be read, with fields of config.json changed."""
    shutil.copytree(BUNDLED_PATH, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    (folder / "model.safetensors").write_bytes(b"no weights")
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return folder


REFUSED_BY_VLLM: list[dict[str, Any]] = [
    {"sliding_window": 512, "use_sliding_window": True},
    {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 512},
    {"layer_types": ["linear_attention", "full_attention"]},
    {"mamba_d_state": 16},
    {"text_config": {"hybrid_override_pattern": "M*M"}},
]
TAKEN_BY_VLLM: list[dict[str, Any]] = [
    {},
    {"sliding_window": 512, "use_sliding_window": False, "layer_types": None},
    {"sliding_window": 1 << 20, "use_sliding_window": True, "layer_types": None},
    {"layer_types": ["full_attention"] * 4, "use_sliding_window": False},
]


@pytest.mark.parametrize("changes", REFUSED_BY_VLLM)
def test_models_that_keep_less_than_a_prefix_are_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    """Windows and recurrent layers, by file and field."""
    with pytest.raises(RefeedError) as caught:
        check_checkpoint(VLLM, checkpoint(tmp_path / "model", **changes), "1 + 1 = ?")
    assert "config.json" in caught.value.message


@pytest.mark.parametrize("changes", TAKEN_BY_VLLM)
def test_models_that_keep_the_prefix_pass_with_their_prompt(changes: dict[str, Any], tmp_path: Path) -> None:
    """A window that is off, or wider than all that will run, is none."""
    assert "1 + 1 = ?" in check_checkpoint(VLLM, checkpoint(tmp_path / "model", **changes), "1 + 1 = ?")


def test_a_window_is_measured_by_what_will_run(tmp_path: Path) -> None:
    """max_model_len within it makes it none."""
    folder = checkpoint(tmp_path / "model", sliding_window=512, use_sliding_window=True, layer_types=None)
    assert check_checkpoint(CampaignSpec(engine="vllm", model="m", task="t", max_model_len=512), folder, "1 + 1 = ?")


@pytest.mark.parametrize("spec", [VLLM, EMBEDDED])
def test_a_missing_template_is_refused_before_weights(spec: CampaignSpec, tmp_path: Path) -> None:
    """By either engine, and by doctor."""
    folder = checkpoint(tmp_path / "model")
    (folder / "chat_template.jinja").unlink()
    path = folder / "tokenizer_config.json"
    settings = {name: value for name, value in json.loads(path.read_text()).items() if name != "chat_template"}
    path.write_text(json.dumps(settings))
    with pytest.raises(RefeedError, match="chat template"):
        check_checkpoint(spec, folder, "1 + 1 = ?")
    assert model_files(str(folder), None, {"engine": spec.engine}).status == "problem"


def test_doctor_refuses_what_the_chosen_engine_does(tmp_path: Path) -> None:
    """An architecture that the embedded engine lacks; the same folder may do for vLLM."""
    folder = checkpoint(tmp_path / "model", architectures=["Qwen3ForCausalLM"])
    assert model_files(str(folder), None, {"engine": "embedded"}).status == "problem"
    assert model_files(str(folder), None, {"engine": "vllm"}).status == "ok"


def test_the_first_prompt_is_that_of_the_registered_window() -> None:
    """The question at `start`, with the instruction and the template around it."""
    spec = resolve(CampaignSpec(engine="embedded", model="bundled", task="arithmetic", start=3))
    task = open_task("arithmetic")
    prompt = str(first_prompt(spec, task))
    assert task.problem(3).question in prompt
    assert task.instruction in prompt
    assert prompt.startswith("<|im_start|>user\n")
