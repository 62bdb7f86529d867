"""From what was asked to what is registered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from engine.backends.load import BUNDLED_PATH
from engine.registration import estimate, model_digest, rehearse, require_engine, resolve
from sessions.errors import RefeedError
from sessions.presets import PRESETS, fields
from sessions.spec import CampaignSpec, from_fields, register

if TYPE_CHECKING:
    from pathlib import Path

EMBEDDED = CampaignSpec(engine="embedded")


def test_every_default_is_resolved_before_the_digest() -> None:
    """A registered spec names its engine, model, task, prompt and temperatures, and the digests of data and model."""
    spec = resolve(EMBEDDED)
    assert (spec.engine, spec.model, spec.task) == ("embedded", "bundled", "arithmetic")
    assert spec.cont_temperature == spec.temperature
    assert spec.prompt
    assert spec.task_digest
    assert spec.model_digest == model_digest(BUNDLED_PATH)
    assert resolve(spec) == spec
    assert register(resolve(EMBEDDED)).digest == register(spec).digest


@pytest.mark.parametrize("fields_", [{"batch_invariant": True}, {"numerics": "invariant"}])
def test_batch_invariant_and_invariant_are_one_setting(fields_: dict[str, object]) -> None:
    """Two ways to ask for the same kernels register the same spec."""
    spec = resolve(from_fields({"engine": "embedded", **fields_}))
    assert (spec.batch_invariant, spec.numerics) == (True, "invariant")


def test_greedy_continuations_stay_greedy() -> None:
    """A continuation temperature of 0 is a number, not an absent one."""
    assert resolve(msgspec.structs.replace(EMBEDDED, cont_temperature=0.0, k=1)).cont_temperature == 0.0


def test_a_model_is_its_files(tmp_path: Path) -> None:
    """Another byte or another name is another model; a folder that is not there is an error that says so."""
    (tmp_path / "a").write_bytes(b"1")
    first = model_digest(tmp_path)
    (tmp_path / "a").write_bytes(b"2")
    assert model_digest(tmp_path) != first
    (tmp_path / "a").write_bytes(b"1")
    assert model_digest(tmp_path) == first
    (tmp_path / "a").rename(tmp_path / "b")
    assert model_digest(tmp_path) != first
    with pytest.raises(RefeedError, match="no model at"):
        model_digest(tmp_path / "nothing")


def test_a_folder_without_a_checkpoint_is_refused_before_it_is_hashed(tmp_path: Path) -> None:
    """Another folder given by mistake may be large, or change while a campaign runs in it."""
    (tmp_path / "model.safetensors").write_bytes(b"1")
    for engine in ("embedded", "vllm"):
        with pytest.raises(RefeedError, match=r"lacks config\.json") as refused:
            rehearse(from_fields({"engine": engine, "task": "arithmetic", "model": str(tmp_path)}))
        assert refused.value.kind == "engine"
    (tmp_path / "params.json").write_bytes(b"{}")
    asked = from_fields({"engine": "vllm", "task": "arithmetic", "model": str(tmp_path)})
    assert rehearse(asked)[0].model == str(tmp_path)


def test_a_context_shorter_than_the_limits_is_refused_before_the_engine_is_loaded() -> None:
    """A trunk and its longest continuation or probe must fit beside at least one token of the prompt."""
    limits = {"max_trunk_tokens": 100, "max_cont_tokens": 50, "probe_tokens": 60}
    assert from_fields({**limits, "max_model_len": 161}).max_model_len == 161
    with pytest.raises(RefeedError, match="`max_model_len` is 160; it must be above 160"):
        from_fields({**limits, "max_model_len": 160})


@pytest.mark.parametrize("form", ["jsonl:{}", "gsm8k:{}", "jsonl:{}?question=question"])
def test_a_relative_path_is_registered_from_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """A worker runs elsewhere, and a resume may come from anywhere: both find the same file and folder."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "task.jsonl").write_text('{"question": "1 + 1?", "answer": "2"}')
    monkeypatch.chdir(tmp_path)
    spec = resolve(CampaignSpec(engine="embedded", model="model", task=form.format("task.jsonl"), problems=1))
    assert spec.task == form.format(tmp_path / "task.jsonl")
    assert spec.model == str(tmp_path / "model")
    monkeypatch.chdir("/")
    assert resolve(spec) == spec


def test_a_folder_called_like_the_bundled_model_does_not_hide_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`bundled` is a name, not a path."""
    (tmp_path / "bundled").mkdir()
    monkeypatch.chdir(tmp_path)
    assert resolve(CampaignSpec(engine="embedded")).model == "bundled"


def test_a_window_beyond_the_task_is_refused(tmp_path: Path) -> None:
    """Twenty problems of a file with three are an error before anything runs."""
    data = tmp_path / "three.jsonl"
    data.write_text('{"question":"1+1?","answer":"2"}\n' * 3)
    with pytest.raises(RefeedError, match="has no problem 19"):
        resolve(msgspec.structs.replace(EMBEDDED, task=f"jsonl:{data}"))


def test_the_demo_stays_within_its_bound() -> None:
    """The demo generates at most 600,000 tokens even if every request runs to its limit."""
    assert estimate(resolve(from_fields(fields("demo")))).most_tokens <= 600_000


def test_an_estimate_counts_every_request() -> None:
    """1 problem x 2 trunks x 100 + 2 x 3 pivots x 2 arms x 3 passes x (4 x 50 + 8) tokens at most; cost follows."""
    spec = resolve(
        msgspec.structs.replace(
            EMBEDDED, problems=1, rollouts=2, max_pivots=3, max_trunk_tokens=100, max_cont_tokens=50, probe_tokens=8
        )
    )
    guess = estimate(spec, price_per_hour=3.6)
    assert guess.most_tokens == 2 * 100 + 2 * 3 * 2 * 3 * (4 * 50 + 8)
    assert guess.likely_tokens < guess.most_tokens
    assert guess.cost == pytest.approx(guess.seconds * 0.001)


@pytest.mark.parametrize("name", [name for name in PRESETS if not name.startswith("paper")])
def test_presets_of_this_machine_resolve(name: str) -> None:
    """Every preset that needs no GPU resolves as it ships."""
    assert resolve(from_fields(fields(name))).engine == "embedded"


def test_an_engine_that_is_not_installed_says_how_to_get_it() -> None:
    """Asking for vllm where it is absent names the extra to install."""
    with pytest.raises(RefeedError, match=r"pip install '\.\[vllm\]'"):
        resolve(from_fields(fields("paper-main")))
    with pytest.raises(RefeedError, match="there is no engine 'auto'"):
        require_engine("auto")
