"""What is taken from inside vLLM, held against sources of a release: real ones where vLLM is, and altered ones."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from engine.backends.vllm import compat, insides
from engine.backends.vllm.insides import INSIDES, Inside, installed, moved
from sessions.errors import RefeedError
from tests.helpers.cli_sessions import REPO

if TYPE_CHECKING:
    from pathlib import Path

POOL = """
from vllm.somewhere import Base

class BlockPool(Base):
    def __init__(self, blocks: int) -> None:
        self.num_gpu_blocks: int = blocks

    def cache_full_blocks(self, request, blocks, num_cached_blocks, num_full_blocks, block_size, group=0): ...
"""
BASE = "class Base:\n    def _maybe_evict_cached_block(self, block, *, quietly=False): ...\n"
MODULE = "vllm.v1.core.block_pool"
WANTED = {inside for inside in INSIDES if inside.module == MODULE}


def faults(pool: str | None, base: str = BASE) -> dict[str, str]:
    """What moved in a block pool's sources, by name."""
    sources = {MODULE: pool, "vllm.somewhere": base}
    return {inside.name: fault for inside, fault in moved(sources.get).items() if inside in WANTED}


def test_what_stands_where_it_stood_is_no_fault() -> None:
    """Methods of the class or of its base, attributes set on self, and parameters that were added behind."""
    assert len(WANTED) == 3
    assert faults(POOL) == {}


@pytest.mark.parametrize(
    ("pool", "base", "told"),
    [
        (
            POOL.replace("request, blocks,", "blocks, request,"),
            BASE,
            {"cache_full_blocks": "it takes (blocks, request"},
        ),
        (POOL.replace("cache_full_blocks", "store_full_blocks"), BASE, {"cache_full_blocks": "it is gone"}),
        (POOL.replace("num_gpu_blocks", "total_blocks"), BASE, {"num_gpu_blocks": "it is gone"}),
        (POOL, "class Base: ...", {"_maybe_evict_cached_block": "it is gone"}),
        (
            POOL.replace("class BlockPool", "class Pool"),
            BASE,
            dict.fromkeys([i.name for i in WANTED], "its class is gone"),
        ),
        (None, BASE, dict.fromkeys([inside.name for inside in WANTED], "its module is gone")),
    ],
    ids=["order", "renamed", "attribute", "base", "class", "module"],
)
def test_what_moved_is_named_with_what_is_wrong(pool: str | None, base: str, told: dict[str, str]) -> None:
    """A parameter that changed places is as bad as a method that is gone: the wrapper would read the wrong one."""
    found = faults(pool, base)
    assert found.keys() == told.keys()
    assert all(fault.startswith(told[name]) for name, fault in found.items())


LOCALS = """
class BlockPool:
    def cache_full_blocks(self, request, blocks, num_cached_blocks, num_full_blocks, block_size, group): ...

    def grow(self, blocks):
        num_gpu_blocks = len(blocks)
        def _maybe_evict_cached_block(block): ...
        class Inner:
            num_gpu_blocks = 0
        return num_gpu_blocks
"""


def test_what_a_method_keeps_to_itself_is_no_member() -> None:
    """A local variable, function or class of the same name does not stand in for what is gone."""
    assert faults(LOCALS) == {"num_gpu_blocks": "it is gone", "_maybe_evict_cached_block": "it is gone"}


CALLS = """
class LLMEngine:
    def add_request(self, request_id, prompt, params, {more}): ...
    def step(self, {more}): ...
    @classmethod
    def from_vllm_config(cls, vllm_config, usage_context=0, {last}): ...
"""


@pytest.mark.parametrize(
    ("more", "last", "told"),
    [
        ("lora=None, *rest, key=0", "*, stats=None, disable_log_stats=False", ("", "", "")),
        ("*, lora", "disable_log_stats=False", ("it demands lora as well", "it demands lora as well", "")),
        ("lora", "**more", ("it demands lora as well", "it demands lora as well", "")),
        ("**more", "quiet=False", ("", "", "it takes (vllm_config, usage_context, quiet)")),
        ("**more", "*, core, disable_log_stats", ("", "", "it demands core as well")),
    ],
)
def test_a_call_of_ours_may_demand_no_more_than_it_is_given(more: str, last: str, told: tuple[str, str, str]) -> None:
    """A parameter without a default that nobody fills, and a name that is not known any more, would be a TypeError."""
    text = CALLS.format(more=more, last=last)
    found = {inside.name: fault for inside, fault in moved({"vllm.v1.engine.llm_engine": text}.get).items()}
    assert tuple(found.get(name, "") for name in ("add_request", "step", "from_vllm_config")) == told


def altered(monkeypatch: pytest.MonkeyPatch, *faulty: Inside) -> None:
    """Let an installed vLLM have moved these."""
    monkeypatch.setattr(compat, "installed_version", lambda: ("vllm", "0.99.0"))
    monkeypatch.setattr(
        compat, "moved", lambda _source, needs: {one: "it is gone" for one in faulty if one.need in needs}
    )


def inside(need: str) -> Inside:
    """One thing of that need."""
    return next(one for one in INSIDES if one.need == need)


def test_what_only_the_ledger_needs_leaves_checks_by_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The campaign goes on in counts mode and says why; a core that is apart anyway loses nothing."""
    altered(monkeypatch, inside("ledger"))
    why = compat.check_insides(apart=False)
    assert why is not None
    assert str(inside("ledger")) in why
    assert compat.check_insides(apart=True) is None


@pytest.mark.parametrize(("need", "apart"), [("engine", False), ("engine", True), ("apart", True)])
def test_what_the_engine_needs_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, need: str, *, apart: bool) -> None:
    """Before anything is imported: which version, what moved, and what to install."""
    altered(monkeypatch, inside(need))
    with pytest.raises(RefeedError, match=r"0\.99\.0") as caught:
        compat.check_insides(apart=apart)
    assert str(inside(need)) in caught.value.message
    assert "0.33.0" in caught.value.hint


def test_a_core_that_cannot_be_read_and_cannot_be_apart_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts mode needs its own things."""
    altered(monkeypatch, inside("ledger"), inside("apart"))
    with pytest.raises(RefeedError, match=r"0\.99\.0"):
        compat.check_insides(apart=False)


@pytest.mark.vllm
@pytest.mark.filterwarnings("default")
def test_the_installed_vllm_has_all_of_it() -> None:
    """The real sources of the version that is tested here."""
    assert moved(installed) == {}


@pytest.mark.vllm
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("inside", INSIDES, ids=str)
def test_each_thing_is_missed_when_the_installed_vllm_has_renamed_it(inside: Inside) -> None:
    """In vLLM's own sources, whatever else stands there."""

    def renamed(module: str) -> str | None:
        text = installed(module)
        return None if text is None else re.sub(rf"\b{inside.name}\b", "elsewhere", text)

    assert moved(renamed, frozenset({inside.need}))[inside] == "it is gone"


def test_a_release_is_read_from_its_wheel(tmp_path: Path) -> None:
    """`make check-vllm` names what moved in a wheel and exits with 1; nothing of it is imported."""
    wheel = tmp_path / "vllm-9.9-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("vllm/v1/core/block_pool.py", POOL.replace("cache_full_blocks", "gone") + "raise SystemExit")
        archive.writestr("vllm/somewhere.py", BASE)
    done = subprocess.run(
        [sys.executable, ".ci/check-vllm", str(wheel)],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1, done.stderr
    assert f"{MODULE}.BlockPool.cache_full_blocks (ledger): it is gone" in done.stdout
    assert f"{MODULE}.BlockPool.num_gpu_blocks" not in done.stdout
    assert f"{len(INSIDES) - len(insides.INSIDES) + 2} of" in done.stdout
