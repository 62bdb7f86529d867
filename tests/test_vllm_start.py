"""Engines that cannot start say why in one line: real models, real vLLM, real failures."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from engine.backends.vllm import compat
from sessions.errors import RefeedError
from tests.helpers.cli_sessions import REPO
from tests.helpers.embedded_checkpoints import QWEN2
from tests.helpers.vllm_engines import SHAPE, checkpoint, spec_of, started
from tui import cli, errors
from tui.commands import machine as doctor

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]


def refused(model: Path | str, **changes: object) -> RefeedError:
    """Start an engine that must refuse; return the error."""
    with pytest.raises(RefeedError) as caught, started(model, **changes):  # type: ignore[arg-type]
        pytest.fail("the engine started")
    assert caught.value.kind == "engine"
    assert caught.value.hint
    return caught.value


def test_batch_invariance_on_a_cpu_is_refused_before_loading(tmp_path: Path) -> None:
    """The folder holds no model: had weights been looked for, the error would be another."""
    code = (
        "import sys; from pathlib import Path; from tests.helpers.vllm_engines import started\n"
        "with started(Path(sys.argv[1]), batch_invariant=True): pass"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "batch_invariant is set, but vLLM runs on a CPU here" in done.stderr


def test_another_batch_invariance_in_one_process_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is read when vLLM is imported; setting it later would be a claim without effect."""
    import vllm.v1  # noqa: F401, PLC0415 - imported on purpose

    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "1")
    assert "already imported" in refused(tmp_path).message


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    """An empty folder is no model."""
    error = refused(tmp_path)
    assert str(tmp_path) in error.message
    assert "incomplete or damaged" in error.message


def test_damaged_weights_are_named(tmp_path: Path) -> None:
    """A cut-off safetensors file is a damaged model, not a crash."""
    model = checkpoint(tmp_path / "model")
    weights = model / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    assert "incomplete or damaged" in refused(model).message


def test_a_hub_model_that_is_not_here_says_what_to_do_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without network and without a cached copy: the cause and the way out."""
    import huggingface_hub.constants  # noqa: PLC0415 - only where vLLM is installed

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    error = refused("refeed-tui/no-such-model")
    assert "HF_HUB_OFFLINE is set" in error.message
    assert "no whole copy of refeed-tui/no-such-model" in error.message


def test_a_context_longer_than_the_models_is_refused(tmp_path: Path) -> None:
    """max_model_len beyond the checkpoint's positions is the spec's fault, by name."""
    assert "max_model_len" in refused(checkpoint(tmp_path / "model"), max_model_len=1_000_000).message


def test_an_architecture_that_vllm_does_not_know_is_named(tmp_path: Path) -> None:
    """An unknown model class."""
    model = checkpoint(tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"architectures": ["NoSuchForCausalLM"]}))
    assert "architecture" in refused(model).message


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("attention_backend", "FLASH_ATTN", "on a CPU vLLM uses CPU_ATTN"),
        ("attention_backend", "CPU_ATTEN", "this vLLM has none of that name"),
        ("tensor_parallel", 2, "vLLM runs on a CPU here"),
    ],
)
def test_what_a_cpu_does_not_do_is_refused_before_loading(
    field: str,
    value: object,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The folder holds no model: had weights been looked for, the error would be another. Doctor says the same."""
    error = refused(tmp_path, **{field: value})
    assert said in error.message
    monkeypatch.setattr(doctor, "CHECKS", ())
    monkeypatch.setenv("PYTHONPATH", str(REPO))
    assert cli.run(["doctor", f"--{field.replace('_', '-')}", str(value)]) == errors.FAILED
    shown = capsys.readouterr().out
    assert error.message in shown
    assert error.hint in shown


def test_doctor_knows_what_this_vllm_takes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The names are vLLM's own, in either case."""
    assert {"CPU_ATTN", "FLASH_ATTN", "TRITON_ATTN"} <= compat.attention_backends()
    monkeypatch.setattr(doctor, "CHECKS", ())
    monkeypatch.setenv("PYTHONPATH", str(REPO))
    assert cli.run(["doctor", "--attention-backend", "cpu_attn", "--tensor-parallel", "1"]) == errors.DONE
    assert "vLLM takes it here (CPU)" in capsys.readouterr().out


@pytest.mark.parametrize("multiprocess", [False, True])
def test_a_sliding_window_is_switched_off_where_it_covers_the_context_and_refused_elsewhere(
    tmp_path: Path, *, multiprocess: bool
) -> None:
    """Beyond the window its cache forgets the beginning of a prefix, so nothing can be resumed in mid-trunk."""
    changes = {
        "architectures": ["MistralForCausalLM"],
        "model_type": "mistral",
        "sliding_window": 256,
        "use_sliding_window": None,
    }
    model = checkpoint(tmp_path / "model", **changes)
    assert "no pivot can be verified" in refused(model, multiprocess=multiprocess).hint
    with started(model, multiprocess=multiprocess, max_model_len=256, kv_blocks=64) as backend:
        assert backend.info.max_model_len == 256


def test_a_model_without_a_chat_template_says_so(tmp_path: Path) -> None:
    """A base model cannot be asked questions."""
    model = checkpoint(tmp_path / "model")
    (model / "chat_template.jinja").unlink()
    with started(model, kv_blocks=64) as backend, pytest.raises(RefeedError, match="chat template"):
        backend.encode_chat(None, "1 + 1?")


def test_the_fixture_is_a_model_of_its_own(tmp_path: Path) -> None:
    """Head sizes below 32 are not for vLLM's CPU attention; the embedded engine's fixture has 16."""
    assert SHAPE["hidden_size"] // SHAPE["num_attention_heads"] == 32
    assert QWEN2["hidden_size"] // QWEN2["num_attention_heads"] == 16
    assert spec_of(tmp_path).engine == "vllm"
