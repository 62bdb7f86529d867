from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sessions.disk.journal import read
from sessions.errors import RefeedError
from sessions.events import Notice, Opened
from sessions.exchange.imports import import_published
from sessions.presets import fields
from sessions.report.audit import check_same, pool_sessions
from sessions.report.limits import applies, fingerprint
from sessions.spec import from_fields
from sessions.state.fold import fold_all
from sessions.store import Store
from stats.cache import FailedCheck
from stats.live import live
from stats.table import UNKNOWN
from tests.helpers.session_events import opened
from tests.helpers.shared import SHARED

if TYPE_CHECKING:
    from pathlib import Path

PUBLISHED = SHARED / "data" / "published"
needs_data = pytest.mark.skipif(not PUBLISHED.exists(), reason=f"no published data at {PUBLISHED}; set REFEED_SHARED")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home")


def example(**changes: object) -> dict[str, Any]:
    """A file of two problems and three pivots, of the published shape."""

    def greedy(logprob: float) -> dict[str, object]:
        return {"actual": [93210, logprob], "alt": [25, -0.25]}

    def pivot(problem: int, position: int, one: float, two: float, three: float) -> dict[str, object]:
        return {
            "problem_id": problem,
            "rollout": 0,
            "abs_pos": position,
            "gen_index": position - 116,
            "margin": 0.5,
            "rollout_correct": 1,
            "A_exact1": one,
            "A_exact2": two,
            "A_refeed": three,
            "cache_ok_exact1": True,
            "cache_ok_exact2": True,
            "greedy_first_exact1": greedy(-0.5),
            "greedy_first_exact2": greedy(-0.5),
            "greedy_first_refeed": greedy(-0.75),
            "greedy_divergence_exact2": False,
            "greedy_first_logprob_delta_exact2": 0.0,
            "greedy_divergence_refeed": True,
            "greedy_first_logprob_delta_refeed": 0.25,
        }

    def problem(number: int, pivots: int) -> dict[str, object]:
        seconds = [8.0, 5.5, 5.5]
        return {
            "problem_id": number,
            "pivots": pivots,
            "rollout_accuracy": 0.5,
            "pass_seconds": seconds,
            "total_seconds": 25.0,
            "cache_violations": {"exact1": 0, "exact2": 0},
        }

    config = {
        "model": "Qwen/Qwen2.5-7B-Instruct",
        "problems": 2,
        "rollouts": 8,
        "temperature": 0.7,
        "top_p": 0.95,
        "k": 10,
        "margin_lt": 1.0,
        "boundary_slack": 2,
        "max_pivots_per_rollout": 5,
        "max_trunk_tokens": 512,
        "max_cont_tokens": 400,
        "cont_temp": None,
    }
    return {
        "config": config,
        "final": True,
        "per_problem": [problem(9, 2), problem(4, 1)],
        "pivots": [
            pivot(9, 145, (7 / 10) - (2 / 10), 0.3, -0.1),
            pivot(9, 161, 0.0, 0.0, 0.0),
            pivot(4, 145, 1.0, 1.0, 0.9),
        ],
        **changes,
    }


def bring(store: Store, content: dict[str, Any], tmp_path: Path, name: str = "run.json") -> Any:
    """Import a file of this content and return (folder, folded state)."""
    path = tmp_path / name
    path.write_text(json.dumps(content))
    folder = import_published(path, store)
    return folder, fold_all(folder.spec(), read(folder.journal_path, folder.registration().digest))


def test_fractions_become_counts_in_the_files_order(store: Store, tmp_path: Path) -> None:
    """Floats that stand for counts of k come back exactly, and problems keep the order of per_problem."""
    folder, state = bring(store, example(), tmp_path)
    table = state.table()
    assert table.problems.tolist() == [9, 4]
    assert table.net.tolist() == [[5, 3, -1], [0, 0, 0], [10, 10, 9]]
    assert table.k.tolist() == [10, 10, 10]
    assert table.probe_delta.tolist() == [[0.0, 0.25]] * 3
    assert table.probe_arm_delta[0].tolist() == [[0.0, 0.0], [0.25, 0.0]]
    assert table.probe_diverged.tolist() == [[0, 1]] * 3
    assert table.hit_tokens.tolist() == [UNKNOWN] * 3
    assert folder.state() == "imported"
    assert state.problems[9].right == 4
    assert state.problems[9].trunk_seconds == 6.0
    assert state.seconds == 50.0
    assert state.cache_tally().counts == 3


def test_the_source_is_recorded_and_times_are_not_made_up(store: Store, tmp_path: Path) -> None:
    """Opened carries the file's name and hash; wall times are absent."""
    folder, _ = bring(store, example(), tmp_path)
    events = list(read(folder.journal_path, folder.registration().digest))
    assert isinstance(events[0], Opened)
    assert events[0].source == "run.json"
    assert events[0].source_sha256 == hashlib.sha256((tmp_path / "run.json").read_bytes()).hexdigest()
    assert {event.wall for event in events} == {0.0}
    assert folder.summary().started == 0.0


def test_importing_twice_gives_the_same_events(store: Store, tmp_path: Path) -> None:
    """Only the session's id differs."""
    journals = []
    for _ in range(2):
        folder, _ = bring(store, example(), tmp_path)
        events = list(read(folder.journal_path, folder.registration().digest))
        journals.append((folder.registration().digest, events[1:]))
    assert journals[0] == journals[1]


def test_a_file_s_own_rates_are_held_against_its_pivots(store: Store, tmp_path: Path) -> None:
    """Signs over pairs, as the published harness counts; a file that was edited afterwards says something else."""
    own: dict[str, Any] = {
        "n_pivots": 3,
        "primary_exact_vs_refeed": {"eligible": 2, "flips": 1, "rate": 0.5},
        "floor_exact_vs_exact": {"eligible": 2, "flips": 0, "rate": 0.0},
    }
    _, state = bring(store, example(aggregate=own), tmp_path)
    said = [notice.text for notice in state.notices]
    assert not any("edited" in text for text in said)
    assert any("1 of 2 in the re-feed pass and 0 of 2 in the replica pass; the report has both" in one for one in said)
    own["floor_exact_vs_exact"] = {"eligible": 2, "flips": 1}
    _, state = bring(store, example(aggregate={**own, "n_pivots": 4}), tmp_path, "edited.json")
    warned = [notice.text for notice in state.notices if notice.kind == "warning"]
    assert warned == [
        "the file says that it has '4' pivots, but has 3: it was edited or cut",
        "the file says that 1 of 2 signs changed in the replica pass, but its pivots give 0 of 2: it was edited",
    ]
    for shape in ({}, {"primary_exact_vs_refeed": "many"}, {"floor_exact_vs_exact": {"eligible": -1, "flips": None}}):
        _, state = bring(store, example(aggregate=shape), tmp_path, f"{len(str(shape))}.json")
        assert not any("own rates" in notice.text or "edited" in notice.text for notice in state.notices)


def test_absent_fields_stay_absent(store: Store, tmp_path: Path) -> None:
    """Without cache and probe fields a pivot is not instrumented, and has no probes."""
    content = example()
    for pivot in content["pivots"]:
        for key in [key for key in pivot if key.startswith(("cache", "greedy"))]:
            del pivot[key]
    _, state = bring(store, content, tmp_path)
    table = state.table()
    assert np.isnan(table.probe_delta).all()
    assert (table.probe_diverged == UNKNOWN).all()
    found = state.cache_tally()
    assert (found.checked, found.not_instrumented, found.rate) == (0, 3, None)


def test_a_pivot_that_the_file_calls_failed_is_no_evidence(store: Store, tmp_path: Path) -> None:
    """A false flag fails it; one missing flag leaves it uninstrumented."""
    content = example()
    content["pivots"][0]["cache_ok_exact2"] = False
    content["pivots"][1]["cache_ok_exact1"] = None
    _, state = bring(store, content, tmp_path)
    assert state.table().net.tolist() == [[0, 0, 0], [10, 10, 9]]
    found = state.cache_tally()
    assert (found.checked, found.verified, found.not_instrumented) == (2, 1, 1)
    assert found.failures == (FailedCheck(9, 0, 0, 145, "the file says so of exact-2"),)


def test_settings_become_a_spec_and_assumptions_are_told(store: Store, tmp_path: Path) -> None:
    """Config keys map to fields; unknown keys, and settings that no file names, are notices."""
    content = example(extra=1)
    content["config"].update(screen_mixed=True, scan_start=20, scan_limit=150, cont_temp=0.0, kv_dtype="fp8")
    folder, state = bring(store, content, tmp_path)
    spec = folder.spec()
    assert (spec.screen, spec.start, spec.scan_limit, spec.cont_temperature) == ("mixed", 20, 150, 0.0)
    assert (spec.k, spec.margin, spec.max_pivots) == (10, 1.0, 5)
    assert (spec.pivot_filter, spec.grading) == ("published", "published")
    told = " ".join(notice.text for notice in state.notices)
    assert "config.kv_dtype, extra" in told
    assert "does not name block_size, dtype" in told


def test_batch_invariance_comes_from_the_files_name_or_the_caller(store: Store, tmp_path: Path) -> None:
    """The harness did not save it; either way a notice says where it is from."""
    folder, state = bring(store, example(), tmp_path, "batch-inv.json")
    assert folder.spec().batch_invariant
    assert any("file's name" in notice.text for notice in state.notices)
    folder = import_published(tmp_path / "batch-inv.json", store, "plain", {"batch_invariant": False})
    assert not folder.spec().batch_invariant
    assert folder.name == "plain"
    events = read(folder.journal_path, folder.registration().digest)
    assert any(isinstance(event, Notice) and "given at the import" in event.text for event in events)


def test_doubts_about_a_file_are_warnings(store: Store, tmp_path: Path) -> None:
    """An unfinished file, pivots off the blocks, probe figures and violations that do not agree with the records."""
    content = example(final=False)
    content["config"]["problems"] = 3
    content["pivots"][0].update(abs_pos=150, greedy_first_logprob_delta_refeed=0.3)
    content["per_problem"][0]["cache_violations"]["exact1"] = 2
    _, state = bring(store, content, tmp_path)
    warnings = [notice.text for notice in state.notices if notice.kind == "warning"]
    assert warnings == [
        "the file holds 2 of 3 problems, and says that it is not final",
        "1 pivots do not lie within the slack of blocks of 16 tokens",
        "2 cache violations are counted, but no pivot is marked",
        "1 probe differences are not those of their first logprobs",
    ]


def spoil(place: str, key: str, value: object) -> dict[str, Any]:
    """The example with one value changed."""
    content = example()
    target = content["config"] if place == "config" else content[place][1]
    target[key] = value
    return content


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (spoil("pivots", "A_refeed", 0.25), r"pivots\[1\] .*A_refeed is 0.25, which is no count out of 10"),
        (spoil("pivots", "A_exact1", 1.1), r"pivots\[1\] .*A_exact1 is 1.1"),
        (spoil("pivots", "A_exact1", "x"), r"\$\.pivots\[1\]\.A_exact1"),
        (spoil("pivots", "margin", None), r"\$\.pivots\[1\]\.margin"),
        (spoil("pivots", "problem_id", 5), r"pivots\[1\] .*per_problem does not have"),
        (spoil("pivots", "abs_pos", 145), r"pivots\[1\] .*position 145 came before"),
        (spoil("pivots", "rollout", 8), r"only 8 rollouts"),
        (spoil("pivots", "rollout_correct", 2), r"rollout_correct is 2"),
        (spoil("per_problem", "pivots", 3), r"problem 4 says 3 pivots, but has 1"),
        (spoil("per_problem", "problem_id", 9), r"a problem twice"),
        (spoil("per_problem", "rollout_accuracy", 0.55), r"problem 4: rollout_accuracy is 0.55"),
        (spoil("per_problem", "rollout_accuracy", -0.5), r"problem 4: rollout_accuracy is -0.5"),
        (spoil("config", "top_p", 1.5), r"run.json: spec field `top_p` is 1.5"),
        (spoil("config", "k", 0), r"\$\.config\.k"),
        ({"pivots": []}, r"no per-pivot file .*config"),
    ],
)
def test_impossible_values_name_file_and_record(
    store: Store, tmp_path: Path, content: dict[str, Any], says: str
) -> None:
    """The error says where, and no session is left behind."""
    with pytest.raises(RefeedError, match=says) as caught:
        bring(store, content, tmp_path)
    assert "run.json" in str(caught.value)
    assert caught.value.kind in {"usage", "spec"}
    assert store.folders() == ()


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"[" * 100_000, b"\xff", b'{"config":NaN}'])
def test_files_of_another_shape_are_refused(store: Store, tmp_path: Path, data: bytes) -> None:
    """Whatever the bytes, the error is plain."""
    path = tmp_path / "x.json"
    path.write_bytes(data)
    with pytest.raises(RefeedError, match="no per-pivot file"):
        import_published(path, store)
    with pytest.raises(RefeedError, match="is not there"):
        import_published(tmp_path / "y.json", store)


@needs_data
@pytest.mark.parametrize(
    ("file", "pivots", "eligible", "refeed", "floor", "settings"),
    [
        ("primary", 784, None, None, None, "paper-main"),
        ("screened", 783, None, None, None, "paper-screened"),
        ("k8", 783, 490, 175, 51, "paper-k8"),
        ("batchinv", 395, 106, 0, 0, "paper-batch-invariant"),
    ],
)
def test_published_runs_reproduce_table_1(
    store: Store, file: str, pivots: int, eligible: int | None, refeed: int | None, floor: int | None, settings: str
) -> None:
    """Counts of the paper, from the imported session; its spec is that of the preset, published rules aside."""
    folder = import_published(PUBLISHED / f"{file}.json", store)
    state = fold_all(folder.spec(), read(folder.journal_path, folder.registration().digest))
    found = live(state.table())
    assert found.pivots == pivots
    assert state.cache_tally().rate == 1.0
    if eligible is not None:
        counts = (found.common.n, found.common.refeed.disagree, found.common.floor.disagree)
        assert counts == (eligible, refeed, floor)
    assert not [notice for notice in state.notices if notice.kind == "warning"]
    preset = from_fields({**fields(settings), "pivot_filter": "published", "grading": "published"})
    spec = folder.spec()
    assert {name for name in preset.__struct_fields__ if getattr(preset, name) != getattr(spec, name)} <= {
        "cont_temperature"
    }


@needs_data
def test_primary_and_screened_pool_to_the_papers_counts(store: Store) -> None:
    """1,567 pivots, 636 eligible, 215 and 96 disagreements, 25 and 7 reversals, 515 eligible by exact-1."""
    states = []
    for file in ("primary", "screened"):
        folder = import_published(PUBLISHED / f"{file}.json", store)
        states.append(fold_all(folder.spec(), read(folder.journal_path, folder.registration().digest)))
    pooled = pool_sessions(states, ["primary", "screened"])
    found = live(pooled.table)
    assert pooled.dropped == ()
    assert (found.pivots, found.problems, found.common.n) == (1567, 40, 636)
    assert (found.common.refeed.disagree, found.common.floor.disagree) == (215, 96)
    assert (found.common.refeed.reversals, found.common.floor.reversals) == (25, 7)
    assert (found.exact1.n, found.exact1.refeed.disagree, found.exact1.floor.disagree) == (515, 112, 52)
    assert (found.eligibility.only_refeed, found.eligibility.only_floor) == (77, 18)
    twice = pool_sessions([states[0], states[0]], ["a", "b"])
    assert len(twice.table.group) == 784
    assert len(twice.dropped) == 784


@needs_data
def test_the_first_harness_file_is_not_instrumented(store: Store) -> None:
    """smoke.json has neither cache flags nor first logprobs, but says which probes diverged and by how much."""
    folder = import_published(PUBLISHED / "smoke.json", store)
    state = fold_all(folder.spec(), read(folder.journal_path, folder.registration().digest))
    assert state.cache_tally().not_instrumented == 16
    table = state.table()
    assert np.isnan(table.probe_arm_delta).all()
    assert (table.probe_diverged[:, 1].sum(), table.probe_diverged[:, 0].sum()) == (6, 7)
    assert table.probe_delta[0, 1] == 0.04029357433319092


def test_other_settings_are_not_pooled() -> None:
    """The message has the fields and both values; which problems are taken may differ."""
    one = from_fields(fields("paper-main"))
    check_same([one, from_fields(fields("paper-screened"))], ["a", "b"])
    with pytest.raises(RefeedError, match=r"a and b cannot be pooled: they differ in k \(4 and 8\)") as caught:
        check_same([one, from_fields(fields("paper-k8"))], ["a", "b"])
    assert caught.value.kind == "usage"
    with pytest.raises(RefeedError, match=r"a and c cannot be pooled: they differ in k \(4 and 8\)"):
        check_same([one, one, from_fields(fields("paper-k8"))], ["a", "b", "c"])
    with pytest.raises(RefeedError, match="nothing to pool"):
        pool_sessions([], [])


def test_the_same_data_under_two_paths_pools_and_other_data_does_not() -> None:
    """Data and models enter by content: a path is where they lie, a digest is what they are."""
    one, other = (from_fields({"task": f"jsonl:{folder}/t.jsonl", "task_digest": "d" * 64}) for folder in ("/a", "/b"))
    check_same([one, other], ["a", "b"])
    with pytest.raises(RefeedError, match=r"differ in task \('jsonl:/a/t.jsonl' and 'jsonl:/b/t.jsonl'\), task_digest"):
        check_same([one, from_fields({"task": "jsonl:/b/t.jsonl", "task_digest": "e" * 64})], ["a", "b"])
    unknown = [from_fields({"model": model}) for model in ("/a", "/b")]
    with pytest.raises(RefeedError, match="differ in model"):
        check_same(unknown, ["a", "b"])


def test_margins_off_the_grid_clear_a_pivot() -> None:
    """0.25 may be any gap; 0.24999994 was rounded in float32, which only a true gap is."""
    found = fingerprint(np.array([0.25, 0.24999994039535522, 0.0, 1 / 1024, 0.1]))
    assert found == (5, 2, 3)
    assert "2 of 5 pivots are cleared" in found.note
    assert "3 (60%) cannot be told" in found.note
    assert fingerprint(np.zeros(0)) == (0, 0, 0)
    assert "0 of 0" in fingerprint(np.zeros(0)).note
    spec = from_fields({"pivot_filter": "published"})
    assert applies(spec)
    assert not applies(from_fields({}))
    assert not applies(from_fields({"pivot_filter": "published", "dtype": "float32"}))


@pytest.mark.skipif(not (SHARED / "data/rollouts").exists(), reason=f"no rollouts at {SHARED}; set REFEED_SHARED")
def test_no_guilty_pivot_of_the_example_rollouts_is_cleared() -> None:
    """Wherever the published ranking turns a large true gap into a small margin, that margin lies on the grid."""
    guilty: list[float] = []
    honest: list[float] = []
    for path in sorted((SHARED / "data/rollouts").glob("*.json")):
        for token in json.loads(path.read_bytes())["tokens"]:
            true = sorted((entry["logprob"] for entry in token["topk"]), reverse=True)
            published = sorted((entry["logprob"] or -1e30 for entry in token["topk"]), reverse=True)
            if published[0] - published[1] < 1.0:
                (guilty if true[0] - true[1] >= 1.0 else honest).append(published[0] - published[1])
    assert len(guilty) > 50
    assert fingerprint(np.array(guilty)).cleared == 0
    assert fingerprint(np.array(honest)).cleared > 50


def test_names_of_files_are_shown_harmlessly(store: Store, tmp_path: Path) -> None:
    """A file name with control characters is escaped before it is stored."""
    folder, _ = bring(store, example(), tmp_path, "\x1b[2J.json")
    event = next(read(folder.journal_path, folder.registration().digest))
    assert isinstance(event, type(opened()))
    assert event.source == r"\x1b[2J.json"
