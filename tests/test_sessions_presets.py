from __future__ import annotations

import pytest

from sessions.errors import RefeedError
from sessions.presets import PRESETS, PUBLISHED_INSTRUCTION, fields
from sessions.spec import changed_fields, from_fields
from tests.helpers.shared import SHARED


def test_every_promised_preset_is_a_valid_spec() -> None:
    """All ten ship, each with a description, and each passes the checks of a spec."""
    paper = ["main", "screened", "k8", "k16", "greedy", "grpo", "phi4", "batch-invariant"]
    assert list(PRESETS) == ["demo", "smoke", *(f"paper-{name}" for name in paper)]
    for name, preset in PRESETS.items():
        assert preset.description
        from_fields(fields(name))


@pytest.mark.parametrize(
    ("name", "differs"),
    [
        ("screened", {"screen", "start"}),
        ("k8", {"screen", "start", "k"}),
        ("k16", {"screen", "start", "k", "problems"}),
        ("greedy", {"screen", "k", "cont_temperature"}),
        ("grpo", {"screen", "model"}),
        ("phi4", {"screen", "model"}),
        ("batch-invariant", {"batch_invariant", "problems"}),
    ],
)
def test_paper_presets_differ_from_the_primary_run_as_published(name: str, differs: set[str]) -> None:
    """Each of the paper's configurations changes these settings of the primary run and no others."""
    found = changed_fields(from_fields(fields("paper-main")), from_fields(fields(f"paper-{name}")))
    assert set(found) == differs


def test_the_primary_run_has_the_published_settings() -> None:
    """Values of the primary run, as listed with the published runs."""
    spec = from_fields(fields("paper-main"))
    assert (spec.model, spec.task, spec.start, spec.problems) == ("Qwen/Qwen2.5-7B-Instruct", "gsm8k", 0, 20)
    assert (spec.rollouts, spec.temperature, spec.top_p, spec.k, spec.cont_temperature) == (8, 0.7, 0.95, 4, None)
    assert (spec.margin, spec.boundary_slack, spec.max_pivots, spec.probe_tokens) == (1.0, 2, 5, 32)
    assert (spec.max_trunk_tokens, spec.max_cont_tokens, spec.wave, spec.block_size) == (512, 400, 1, 16)
    assert (spec.max_model_len, spec.gpu_memory_utilization, spec.dtype) == (4096, 0.92, "bfloat16")
    assert (spec.pivot_filter, spec.grading) == ("margin", "solution")


def test_fields_are_the_callers_own() -> None:
    """Changing what `fields` returned changes no preset."""
    fields("demo")["k"] = 99
    assert fields("demo")["k"] == 4
    with pytest.raises(RefeedError, match="no preset 'nope'"):
        fields("nope")


def test_the_instruction_is_the_published_one() -> None:
    """Byte for byte."""
    path = SHARED / "data" / "published" / "prompt.txt"
    if not path.exists():
        pytest.skip(f"the published data is not at {SHARED}; set REFEED_SHARED")
    assert path.read_bytes() == PUBLISHED_INSTRUCTION.encode()
