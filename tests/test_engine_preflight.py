"""What is known before weights are loaded."""

from __future__ import annotations

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


def test_a_disk_without_room_is_refused_before_the_download(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error names the nearest folder that exists, what is free, and the variable to set."""
    preflight.require_room(tmp_path / "not" / "there")
    monkeypatch.setattr(preflight, "LEAST_ROOM", 1 << 60)
    with pytest.raises(RefeedError, match="too little") as caught:
        preflight.require_room(tmp_path / "not" / "there")
    assert str(tmp_path) in caught.value.message
    assert "HF_HOME" in caught.value.hint


def test_the_hubs_own_variables_say_where_downloads_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """HF_HUB_CACHE wins over HF_HOME."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    assert preflight.hub_cache() == tmp_path / "home"
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    assert preflight.hub_cache() == tmp_path / "cache"
