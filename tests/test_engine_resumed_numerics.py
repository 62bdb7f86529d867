"""What a resumed session is compared in: variables, versions, and the canary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from engine.backends.load import BUNDLED_PATH, known
from engine.variables import COUNTED, NOT_COUNTED, recorded
from engine.worker.canary import VARIES, sing
from engine.worker.numerics import changed_numerics, check_engine, check_known, engine_ready
from sessions.errors import RefeedError
from sessions.spec import CampaignSpec
from sessions.state.fold import fold_all
from tests.helpers.embedded_checkpoints import LLAMA, open_engine, write_checkpoint
from tests.helpers.session_events import engine_ready as recorded_engine
from tests.helpers.session_events import opened

if TYPE_CHECKING:
    from pathlib import Path

VLLM = CampaignSpec(engine="vllm", model="m", task="arithmetic")
CHANGE_BITS = [
    "ATEN_CPU_CAPABILITY",
    "CUBLASLT_X",
    "CUBLAS_WORKSPACE_CONFIG",
    "DG_JIT_X",
    "DNNL_MAX_CPU_ISA",
    "FLASHINFER_USE_CUDA_NORM",
    "FLASH_ATTN_X",
    "GLIBC_TUNABLES",
    "HIPBLASLT_X",
    "KMP_BLOCKTIME",
    "MKL_CBWR",
    "NCCL_ALGO",
    "NVIDIA_TF32_OVERRIDE",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "ONEDNN_MAX_CPU_ISA",
    "ROCBLAS_X",
    "TORCHINDUCTOR_MAX_AUTOTUNE",
    "TRITON_F32_DEFAULT",
    "VLLM_BATCH_INVARIANT",
    "VLLM_LOGITS_X",
    "VLLM_USE_V2_MODEL_RUNNER",
]
CHANGE_NONE = [
    "HOME",
    "NCCL_DEBUG",
    "NCCL_DEBUG_FILE",
    "NCCL_SOCKET_IFNAME",
    "OMP_NUM_THREADS",
    "ONEDNN_VERBOSE",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_HOME",
    "TORCH_LOGS",
    "TRITON_CACHE_DIR",
    "VLLM_API_KEY",
    "VLLM_ASSETS_CACHE",
    "VLLM_CACHE_ROOT",
    "VLLM_LOGGING_LEVEL",
    "VLLM_LOG_STATS_INTERVAL",
    "VLLM_PORT",
]


def test_variables_that_change_bits_count_and_others_do_not() -> None:
    """Kernel choices are recorded; logs, places, addresses and keys are not."""
    found = recorded(dict.fromkeys([*CHANGE_BITS, *CHANGE_NONE], "x"))
    assert sorted(found) == sorted(f"env:{name}" for name in CHANGE_BITS)


def test_each_exception_is_one_and_each_entry_has_a_reason() -> None:
    """A name that would not count anyway needs no exception."""
    assert [name for name in NOT_COUNTED if not name.startswith(tuple(COUNTED))] == []
    assert all((COUNTED | NOT_COUNTED).values())


def test_numerics_recorded_by_the_earlier_lists_are_compared_by_todays() -> None:
    """What counted once and counts no more, and the embedded engine's variables in one text."""
    assert changed_numerics({"torch": "2", "env:NCCL_DEBUG": "INFO", "env:OMP_NUM_THREADS": "1"}, {"torch": "2"}) == ()
    old = {"kernel_variables": "MKL_CBWR=AVX2 ATEN_CPU_CAPABILITY=default"}
    assert changed_numerics(old, {"env:MKL_CBWR": "AVX2", "env:ATEN_CPU_CAPABILITY": "avx2"}) == (
        "env:ATEN_CPU_CAPABILITY",
    )


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"NCCL_DEBUG": "WARN", "TORCH_HOME": "/models"}, None),
        ({"ONEDNN_MAX_CPU_ISA": "AVX2"}, "ONEDNN_MAX_CPU_ISA"),
        ({"REFEED_TUI_VLLM_MULTIPROCESS": "1"}, "VLLM_ENABLE_V1_MULTIPROCESSING"),
        ({"VLLM_BATCH_INVARIANT": "1"}, None),  # the spec decides, not the shell
    ],
)
def test_a_vllm_session_is_compared_before_vllm_is_imported(variables: dict[str, str], named: str | None) -> None:
    """Variables and process mode are refused by name, where vLLM need not even be installed."""
    began = msgspec.structs.replace(recorded_engine(), numerics=known(VLLM, {}), canary="c")
    state = fold_all(VLLM, [opened(), began])
    if named is None:
        check_known(VLLM, state, variables)
    else:
        with pytest.raises(RefeedError) as caught:
            check_known(VLLM, state, variables)
        assert named in caught.value.message
        assert named in str(caught.value.hint)


@pytest.mark.parametrize(("package", "refused"), [("torch", True), ("vllm", True)])
def test_another_version_is_refused_before_the_load(
    package: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version that the session began on is compared with what is installed."""
    monkeypatch.setattr("engine.backends.vllm.environment.versions", lambda _names: {package: "2.0"})
    began = msgspec.structs.replace(recorded_engine(), numerics={**known(VLLM, {}), package: "1.0"}, canary="c")
    assert refused
    with pytest.raises(RefeedError, match=f"{package} was 1.0 and is 2.0"):
        check_known(VLLM, fold_all(VLLM, [opened(), began]), {})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with random weights."""
    return write_checkpoint(tmp_path_factory.mktemp("models") / "llama", LLAMA)


def test_the_canary_is_the_same_for_one_engine_and_another_for_other_bits(folder: Path) -> None:
    """Started twice, equal; in other kernels or precision, different; nothing stays in the cache."""

    def heard(**settings: Any) -> str:
        engine = open_engine(folder, max_model_len=256, **settings)
        found = sing(engine)
        assert engine._ledger.used == 0
        return found

    songs = [heard(), heard(), heard(numerics="natural"), heard(numerics="invariant"), heard(dtype="float32")]
    assert songs[0] == songs[1]
    assert len(set(songs)) == 4
    assert VARIES not in songs


def test_a_canary_fits_an_engine_of_little_room(folder: Path) -> None:
    """The longer prompts are left out."""
    assert len(sing(open_engine(folder, max_model_len=32, num_blocks=4))) == 64


def test_an_engine_with_equal_facts_and_another_canary_is_refused() -> None:
    """Only where both sang and the first was steady; the earlier journals had none."""
    from engine.backends.embedded.backend import load  # noqa: PLC0415 - torch

    info = load(BUNDLED_PATH, max_model_len=256).info
    spec = CampaignSpec(engine="embedded", model="bundled", task="arithmetic")
    for first, now, changed in (("a", "a", ()), ("a", "b", ("canary",)), ("", "b", ()), (VARIES, "b", ())):
        begun = engine_ready(info, 1.0, first, fold_all(spec, [opened()]))
        state = fold_all(spec, [opened(), begun, opened()])
        again = engine_ready(info, 1.0, now, state)
        assert again.changed == changed
        assert again.fingerprint == begun.fingerprint
        if changed:
            with pytest.raises(RefeedError, match="canary"):
                check_engine(again, state, allow_changed=False)
        check_engine(again, state, allow_changed=not changed or bool(changed))
