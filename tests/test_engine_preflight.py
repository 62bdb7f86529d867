"""What is known before weights are loaded."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from engine.backends.vllm import preflight
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from pathlib import Path


def test_holders_of_gpu_memory_are_named_with_their_pids() -> None:
    """Each line of nvidia-smi becomes a sentence; notes that are no rows do not."""
    table = "4242, 61234, /usr/bin/python3\n77, 512, [Not Found]\nNo running processes found\n"
    assert preflight.read_holders(table) == (
        "pid 4242 (/usr/bin/python3) holds 61234 MiB of a GPU",
        "pid 77 ([Not Found]) holds 512 MiB of a GPU",
    )


def test_holders_are_none_without_nvidia_smi(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without the tool has nothing to name."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert preflight.holders() == ()


def disk_with(free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every disk have so many bytes free."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(free, 0, free))


def test_a_download_that_does_not_fit_is_refused_with_both_sizes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error names the bytes that are needed and free, the folder, and the variable to set; one byte decides."""
    cache = tmp_path / "not" / "there"
    disk_with(15_231_233_024, monkeypatch)
    preflight.require_room(cache, 15_231_233_024, "org/model")
    with pytest.raises(RefeedError, match="needs") as caught:
        preflight.require_room(cache, 15_231_233_025, "org/model")
    for said in ("org/model", "15,231,233,025 bytes (14.2 GiB)", "15,231,233,024 (14.2 GiB) free", str(cache)):
        assert said in caught.value.message
    assert "\n" not in caught.value.message
    assert "HF_HUB_CACHE" in caught.value.hint
    assert "HF_HOME" in caught.value.hint


def test_nothing_to_download_fits_every_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A full disk does not matter to a model that is here."""
    disk_with(0, monkeypatch)
    preflight.require_room(tmp_path, 0, "org/model")


def test_a_cache_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A shared, read-only cache holds no new model."""
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    with pytest.raises(RefeedError, match="cannot be written") as caught:
        preflight.require_room(tmp_path / "hub", 1, "org/model")
    assert str(tmp_path) in caught.value.message


@pytest.mark.parametrize(
    ("driver", "built", "wrong"),
    [
        ((12, 4), (13, 0), "serves CUDA up to 12.4, but torch was built for 13.0"),
        ((12, 2), (12, 9), ""),
        ((13, 0), (12, 8), ""),
        (None, (13, 0), ""),
        ((12, 4), None, ""),
    ],
)
def test_a_driver_of_an_older_major_version_of_cuda_is_too_old(
    driver: tuple[int, int] | None, built: tuple[int, int] | None, wrong: str
) -> None:
    """Minor versions of CUDA are compatible, major ones are not; what is unknown is not refused."""
    said = preflight.driver_too_old(driver, built)
    assert (wrong in said) if wrong else not said


def test_an_old_driver_is_refused_unless_newer_libraries_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """VLLM can put CUDA's compatibility libraries in front of the driver's."""
    monkeypatch.setattr(preflight, "driver_cuda", lambda: (12, 4))
    monkeypatch.setattr(preflight, "torch_cuda", lambda: (13, 0))
    monkeypatch.delenv("VLLM_ENABLE_CUDA_COMPATIBILITY", raising=False)
    with pytest.raises(RefeedError, match="torch was built for") as caught:
        preflight.require_driver()
    assert "driver" in caught.value.hint
    monkeypatch.setenv("VLLM_ENABLE_CUDA_COMPATIBILITY", "1")
    preflight.require_driver()


def test_fewer_gpus_than_asked_for_are_refused() -> None:
    """Without a number one is asked for."""
    preflight.require_gpus(1, None)
    preflight.require_gpus(2, 2)
    with pytest.raises(RefeedError, match="sees 0 GPUs, but `tensor_parallel` is 1"):
        preflight.require_gpus(0, None)
    with pytest.raises(RefeedError, match="sees 1 GPU, but `tensor_parallel` is 2"):
        preflight.require_gpus(1, 2)


def test_torchs_cuda_version_is_what_torch_says() -> None:
    """Read without importing it, and the same."""
    torch = pytest.importorskip("torch", reason="the embedded engine's torch is not installed")
    found = preflight.torch_cuda()
    assert torch.version.cuda == (None if found is None else f"{found[0]}.{found[1]}")


def test_torchs_cuda_version_is_read_from_a_cuda_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The line that a CUDA build of torch 2.11 has."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    (tmp_path / "torch" / "version.py").write_text(
        "__all__ = ['cuda']\n__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    importlib.invalidate_caches()
    assert preflight.torch_cuda() == (13, 0)
