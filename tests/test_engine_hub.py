"""Models of the hub, with the real client and a hub on this machine: what is asked, refused, fetched and told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from engine.backends.load import BUNDLED_PATH, load
from engine.backends.vllm import hub as hub_module
from engine.backends.vllm.download import arrived, fetch
from engine.backends.vllm.environment import MULTIPROCESS
from engine.backends.vllm.hub import look_up
from engine.backends.vllm.preflight import require_room
from engine.variables import recorded
from engine.worker.numerics import keep_process_mode, pinned
from sessions.errors import RefeedError
from sessions.spec import CampaignSpec
from sessions.state.fold import fold_all
from tests.helpers.hub_server import asked_by_this_process
from tests.helpers.session_events import engine_ready, opened
from tests.test_engine_disk import mount
from tests.test_engine_preflight import disk_with
from tui import cli, errors
from tui.commands import machine as doctor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.helpers.hub_server import Hub

pytest.importorskip("huggingface_hub", reason="the hub's client comes with tokenizers and with vLLM")

MODEL = "org/model"
LARGE = 32 << 20
WEIGHTS = "model.safetensors"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A hub with the bundled model, open to all, gated and private, and an empty cache."""
    with asked_by_this_process(monkeypatch, tmp_path) as found:
        found.add(MODEL, BUNDLED_PATH)
        found.add("org/gated", BUNDLED_PATH, gated=True, members=("hf_good",))
        found.add("org/private", BUNDLED_PATH, private=True, members=("hf_good",))
        yield found


def silent(_stage: str, _fraction: float) -> None:
    """Hear nothing."""


def refused(model: str, revision: str | None = None) -> RefeedError:
    """Look up a model that must be refused, in one line and with a way out."""
    with pytest.raises(RefeedError) as caught:
        look_up(model, revision)
    assert caught.value.kind == "engine"
    assert "\n" not in caught.value.message + caught.value.hint
    assert caught.value.hint
    return caught.value


def test_a_look_up_lists_what_is_missing_and_fetches_nothing(hub: Hub) -> None:
    """The commit, the wanted files and their bytes, without the README, from one listing and one file's headers."""
    found = look_up(MODEL, None)
    names = {path.name for path in BUNDLED_PATH.iterdir()} - {"README.md"}
    assert found.commit == hub.repos[MODEL].commit
    assert set(found.names) == {piece.name for piece in found.missing} == names
    assert found.needed == found.size == sum((BUNDLED_PATH / name).stat().st_size for name in names)
    asked = [line for line in hub.asked if MODEL in line]  # the client asks for news of its own once a process
    first, second = asked
    assert first.lower() == f"get /api/models/{MODEL}?blobs=true"  # huggingface_hub 0 writes True
    assert second == f"HEAD /{MODEL}/resolve/{found.commit}/{WEIGHTS}"


def test_a_download_ends_in_the_pinned_commit(hub: Hub) -> None:
    """The files are those of the hub, in a folder that the commit names; a second look-up misses nothing."""
    source = fetch(look_up(MODEL, None), silent)
    assert source.commit == hub.repos[MODEL].commit
    assert Path(source.path).name == source.commit
    assert (Path(source.path) / WEIGHTS).read_bytes() == hub.repos[MODEL].files[WEIGHTS]
    assert not (Path(source.path) / "README.md").exists()
    again = look_up(MODEL, source.commit)
    assert (again.missing, again.needed) == ((), 0)
    told: list[str] = []
    assert fetch(again, lambda stage, _fraction: told.append(stage)) == source
    assert told == []


def test_a_download_is_told_by_the_bytes_on_the_disk(hub: Hub) -> None:
    """In the middle of a single file its share is told: the file is held up until that was seen."""
    hub.repos[MODEL].files[WEIGHTS] = os.urandom(LARGE)
    hub.paused = threading.Event()
    told: list[tuple[str, float]] = []

    def hear(stage: str, fraction: float) -> None:
        told.append((stage, fraction))
        if fraction > 0.2:
            assert hub.paused is not None
            hub.paused.set()

    fetch(look_up(MODEL, None), hear)
    assert {stage for stage, _ in told} == {"downloading 32.0 MiB"}
    fractions = [fraction for _, fraction in told]
    assert fractions == sorted(fractions)
    assert any(0.2 < fraction < 0.9 for fraction in fractions)
    assert fractions[-1] == 1.0


class StopError(Exception):
    """What a worker raises when it is to stop."""


def test_a_download_that_is_stopped_ends_at_once_and_leaves_nothing(hub: Hub) -> None:
    """No process goes on, and no unfinished file stays that nobody would continue."""
    hub.repos[MODEL].files[WEIGHTS] = os.urandom(LARGE)
    hub.paused = threading.Event()

    def hear(_stage: str, fraction: float) -> None:
        if fraction > 0.2:
            raise StopError

    found = look_up(MODEL, None)
    with pytest.raises(StopError):
        fetch(found, hear)
    weights = next(piece for piece in found.missing if piece.name == WEIGHTS)
    left = {path.name for path in (found.cache / "blobs").glob("*.incomplete")}
    assert left <= {f"{weights.blob}.incomplete"}
    assert children_of(os.getpid(), "engine.backends.vllm.fetcher") == []


def test_a_download_ends_with_a_worker_that_is_killed(hub: Hub, tmp_path: Path) -> None:
    """Kill -9 of whoever started it ends it too."""
    hub.repos[MODEL].files[WEIGHTS] = os.urandom(LARGE)
    hub.paused = threading.Event()
    code = (
        "from engine.backends.vllm.download import fetch; from engine.backends.vllm.hub import look_up\n"
        f"fetch(look_up({MODEL!r}, None), lambda stage, fraction: print(fraction, flush=True))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=tmp_path) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        children = children_of(worker.pid, "engine.backends.vllm.fetcher")
        worker.kill()
    assert len(children) == 1
    deadline = time.monotonic() + 10
    while Path(f"/proc/{children[0]}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{children[0]}/cmdline").exists() or not Path(f"/proc/{children[0]}/cmdline").read_bytes()


def children_of(parent: int, words: str) -> list[int]:
    """Processes of that parent with those words in their command."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status, command = (folder / "status").read_text(), (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if f"PPid:\t{parent}\n" in status and words.encode() in command:
            found.append(int(folder.name))
    return found


def test_what_the_cache_has_of_other_commits_is_not_counted(hub: Hub) -> None:
    """A new commit with the same weights misses the changed file alone."""
    fetch(look_up(MODEL, None), silent)
    config = json.loads(hub.repos[MODEL].files["config.json"])
    changed = json.dumps(config | {"use_cache": False}).encode()
    hub.repos[MODEL].files["config.json"] = changed
    found = look_up(MODEL, None)
    assert [(piece.name, piece.size) for piece in found.missing] == [("config.json", len(changed))]
    assert fetch(found, silent).commit == hub.repos[MODEL].commit


def test_an_unfinished_file_that_will_be_continued_needs_less_room(hub: Hub) -> None:
    """Its bytes are on the disk already; unfinished files under other names are neither room nor progress."""
    found = look_up(MODEL, None)
    weights = next(piece for piece in found.missing if piece.name == WEIGHTS)
    blobs = found.cache / "blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{weights.blob}.incomplete").write_bytes(b"x" * 1_000_000)
    left_over = blobs / f"{weights.blob}.0123abcd.incomplete"
    left_over.write_bytes(b"x" * 1_500_000)
    assert found.size - 1_010_000 < found.needed <= found.size - 1_000_000
    assert arrived(found, frozenset({left_over})) == pytest.approx(1_000_000 / found.size, rel=0.01)
    assert hub.got("GET /cdn") == []


@pytest.mark.parametrize(
    ("model", "revision", "token", "cause", "advice"),
    [
        ("org/none", None, "", "no model of that name", "check the spelling"),
        ("org/none", None, "hf_good", "this machine's token may read", "check the spelling"),
        ("org/private", None, "", "no model of that name", "HF_TOKEN"),
        ("org/private", None, "hf_stranger", "no model of that name", "HF_TOKEN"),
        (MODEL, "no-such-branch", "", "has no revision 'no-such-branch'", "branch, tag or commit"),
        (MODEL, "0" * 40, "", f"has no revision '{'0' * 40}'", "branch, tag or commit"),
        (MODEL, None, "hf_forged", "does not accept this machine's token", "hf auth logout"),
        ("org/gated", None, "", "is gated, and this machine has no token", "hf auth login"),
        ("org/gated", None, "hf_stranger", "has no access", "ask for access at"),
        ("a/b/c", None, "", "there is no folder a/b/c", "existing folder"),
        ("/no/such/folder", None, "", "there is no folder /no/such/folder", "existing folder"),
    ],
)
def test_what_the_hub_refuses_is_one_line_with_a_way_out(
    hub: Hub,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    revision: str | None,
    token: str,
    cause: str,
    advice: str,
) -> None:
    """Each cause has its words, is known from two requests at most, and no file is fetched for it."""
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    error = refused(model, revision)
    assert cause in error.message
    assert model in error.message or "token" in error.message
    assert advice in error.hint
    assert len(hub.got(model)) <= 2
    assert not hub.got("GET /cdn")


@pytest.mark.parametrize("model", ["org/gated", "org/private"])
def test_a_token_with_access_opens_gated_and_private_models(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    """The same models, for their members."""
    monkeypatch.setenv("HF_TOKEN", "hf_good")
    found = look_up(model, None)
    assert (found.commit, len(found.missing)) == (hub.repos[model].commit, 6)


def test_a_gated_model_that_is_here_needs_no_token(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files were had with one; listing a gated model takes none."""
    monkeypatch.setenv("HF_TOKEN", "hf_good")
    fetch(look_up("org/gated", None), silent)
    monkeypatch.delenv("HF_TOKEN")
    found = look_up("org/gated", None)
    assert (found.commit, found.missing) == (hub.repos["org/gated"].commit, ())


def test_access_that_ends_between_look_up_and_download_is_said(hub: Hub) -> None:
    """The download's own error becomes the same line."""
    found = look_up(MODEL, None)
    hub.repos[MODEL].gated = True
    with pytest.raises(RefeedError, match="is gated"):
        fetch(found, silent)


def test_a_branch_that_moves_between_look_up_and_download_is_refused(hub: Hub) -> None:
    """What was checked is what is loaded; the next start looks up what there is then."""
    found = look_up(MODEL, None)
    hub.repos[MODEL].files["config.json"] += b" "
    with pytest.raises(RefeedError, match=f"looked up at commit {found.commit}, but came at"):
        fetch(found, silent)
    assert fetch(look_up(MODEL, None), silent).commit == hub.repos[MODEL].commit


def test_a_cache_behind_a_link_is_the_same_cache(hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Large disks are often linked to; the client names files by where they really are."""
    (tmp_path / "large").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "large")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "linked" / "hub"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "linked"))
    source = fetch(look_up(MODEL, None), silent)
    assert source.commit == hub.repos[MODEL].commit
    assert look_up(MODEL, None).missing == ()


def test_a_damaged_index_is_no_whole_model(tmp_path: Path) -> None:
    """Doctor may be shown any folder."""
    (tmp_path / WEIGHTS).touch()
    assert hub_module.is_whole(tmp_path)
    for text in ("", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": "gone.safetensors"}}'):
        (tmp_path / hub_module.INDEX).write_text(text)
        assert not hub_module.is_whole(tmp_path)


def test_a_hub_that_fails_between_look_up_and_download_is_said(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it answered, or that nobody answers any more."""
    found = look_up(MODEL, None)
    hub.failing = 503
    with pytest.raises(RefeedError, match="answered 503"):
        fetch(found, silent)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(RefeedError, match=r"broke off .*Connection refused") as caught:
        fetch(found, silent)
    assert "start again" in caught.value.hint


def test_a_disk_that_fills_during_a_download_is_said(hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Others write to it too, so that the check before cannot exclude it."""
    small = tmp_path / "small"
    small.mkdir()
    done = mount("-t", "tmpfs", "-o", "size=8m", "none", str(small))
    if done.returncode != 0:
        pytest.skip(f"needs the right to mount a tmpfs: {done.stderr.strip()}")
    try:
        hub.repos[MODEL].files[WEIGHTS] = os.urandom(LARGE)
        monkeypatch.setenv("HF_HOME", str(small))
        with pytest.raises(RefeedError, match=r"the disk is full") as caught:
            fetch(look_up(MODEL, None), silent)
    finally:
        mount("--lazy", str(small), program="umount")
    assert "HF_HUB_CACHE" in caught.value.hint


def test_a_repository_without_safetensors_is_refused(hub: Hub) -> None:
    """Neither GGUF files nor pickles are fetched and then not read."""
    del hub.repos[MODEL].files[WEIGHTS]
    hub.repos[MODEL].files["pytorch_model.bin"] = b"x"
    assert "no .safetensors" in refused(MODEL).message


def test_sizes_that_are_not_told_leave_a_floor(hub: Hub) -> None:
    """Some mirrors list names alone."""
    hub.sizes = False
    found = look_up(MODEL, None)
    assert found.needed == hub_module.LEAST_ROOM
    assert fetch(found, silent).commit == found.commit


def test_a_hub_that_hangs_is_given_up_in_time(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded by HF_HUB_ETAG_TIMEOUT; a whole copy in the cache serves instead, at its commit."""
    source = fetch(look_up(MODEL, None), silent)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_ETAG_TIMEOUT", 0.5)
    hub.hanging = threading.Event()
    began = time.monotonic()
    error = refused("org/gated")
    found = look_up(MODEL, None)
    assert time.monotonic() - began < 20, "ten seconds for each is what the hub's client takes by itself"
    assert "cannot be reached" in error.message
    assert "timed out" in error.message
    assert "has no whole copy of org/gated" in error.message
    assert "timed out" in found.unreached
    assert fetch(found, silent) == source


def test_a_hub_in_trouble_gives_way_to_the_cache(hub: Hub) -> None:
    """What it answered is said, and a whole copy is used."""
    source = fetch(look_up(MODEL, "main"), silent)
    for status in (429, 500, 503):
        hub.failing = status
        assert f"answered {status}" in refused("org/gated").message
        assert fetch(look_up(MODEL, "main"), silent) == source


def test_without_network_a_whole_copy_starts_and_a_part_does_not(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline, by wish or by accident; a cache with one shard of two is named as lacking."""
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    files = hub.repos[MODEL].files
    weights = files.pop(WEIGHTS)
    files.update({"model-1.safetensors": weights, "model-2.safetensors": weights + b"x"})
    files[hub_module.INDEX] = json.dumps(index).encode()
    source = fetch(look_up(MODEL, None), silent)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    found = look_up(MODEL, None)
    assert (found.commit, "Connection refused" in found.unreached) == (source.commit, True)
    (Path(source.path) / "model-2.safetensors").unlink()
    error = refused(MODEL)
    assert "cannot be reached" in error.message
    assert "no whole copy" in error.message
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE is set" in refused(MODEL).message


def test_a_commit_that_left_the_hub_is_used_from_the_cache(hub: Hub) -> None:
    """A commit is what it is; a branch that is gone might have been another's."""
    source = fetch(look_up(MODEL, None), silent)
    hub.repos[MODEL].files["config.json"] += b" "
    assert fetch(look_up(MODEL, source.commit), silent) == source
    assert look_up(MODEL, None).commit != source.commit
    assert "has no revision" in refused(MODEL, "no-such-branch").message


def test_a_resumed_campaign_asks_for_the_commit_that_it_began_on() -> None:
    """A branch that moved would bring other weights; folders, which a digest pins, and first runs are left alone."""
    spec = CampaignSpec(engine="vllm", model=MODEL, task="arithmetic", revision="main")
    began = msgspec.structs.replace(engine_ready(), numerics={"weights": "c" * 40})
    fresh, resumed = fold_all(spec, [opened()]), fold_all(spec, [opened(), began, opened()])
    assert pinned(spec, fresh) == spec
    assert pinned(spec, resumed).revision == "c" * 40
    folder = msgspec.structs.replace(spec, model_digest="d" * 64)
    assert pinned(folder, resumed) == folder


@pytest.mark.parametrize("mode", ["0", "1"])
def test_a_resumed_campaign_keeps_its_engine_in_the_process_it_began_in(mode: str) -> None:
    """What the caller says comes first; a first run, and an engine that has no such mode, get nothing."""
    spec = CampaignSpec(engine="vllm", model=MODEL, task="arithmetic")
    began = msgspec.structs.replace(engine_ready(), numerics=recorded({"VLLM_ENABLE_V1_MULTIPROCESSING": mode}))
    plain = fold_all(spec, [opened(), engine_ready(), opened()])
    resumed = fold_all(spec, [opened(), began, opened()])
    for state, wanted in ((plain, {}), (resumed, {MULTIPROCESS: mode}), (fold_all(spec, []), {})):
        kept: dict[str, str] = {}
        keep_process_mode(state, kept)
        assert kept == wanted
    said = {MULTIPROCESS: "no matter"}
    keep_process_mode(resumed, said)
    assert said == {MULTIPROCESS: "no matter"}


def test_a_page_instead_of_an_answer_is_no_hub(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies and portals answer 200 with something else."""
    monkeypatch.setattr("tests.helpers.hub_server.json.dumps", lambda _value: "<html>log in</html>")
    assert "cannot be reached" in refused(MODEL).message
    assert hub.asked


def test_a_start_on_a_full_disk_is_refused_before_vllm_is_imported(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole way through `load`: the hub's sizes against the disk of its cache; nothing is fetched or imported."""
    disk_with(1_000_000, monkeypatch)
    told: list[str] = []
    with pytest.raises(RefeedError, match=r"needs 1,737,386 bytes .* 1,000,000 ") as caught:
        load(CampaignSpec(engine="vllm", model=MODEL, task="arithmetic"), lambda stage, _fraction: told.append(stage))
    assert "HF_HUB_CACHE" in caught.value.hint
    assert "importing vLLM" not in told
    assert not hub.got("GET /cdn")


def test_doctor_tells_of_a_model_what_a_start_would(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commit and sizes; then that it is here; and a gated one is a problem with the way out."""
    monkeypatch.setattr(doctor, "CHECKS", ())
    commit = hub.repos[MODEL].commit
    cli.run(["doctor", "--model", MODEL])
    shown = capsys.readouterr().out
    assert f"{MODEL} at commit {commit}: 1.7 MiB to download" in shown
    fetch(look_up(MODEL, None), silent)
    assert cli.run(["doctor", "--model", "org/gated"]) == errors.FAILED
    assert "problem  model            org/gated is gated" in capsys.readouterr().out
    cli.run(["doctor", "--model", MODEL, "--json"])
    check = json.loads(capsys.readouterr().out)["checks"][-1]
    assert (check["status"], "to download" in check["detail"]) == ("ok", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    cli.run(["doctor", "--model", MODEL])
    assert "note     model            the hub cannot be asked" in capsys.readouterr().out


def test_doctor_knows_folders_and_the_bundled_model(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No hub is asked for them; a folder without weights is a problem."""
    monkeypatch.setattr(doctor, "CHECKS", ())
    for model, status in (("bundled", "ok"), (str(BUNDLED_PATH), "ok"), (str(tmp_path), "problem")):
        cli.run(["doctor", "--model", model])
        assert f"{status:<8} model " in capsys.readouterr().out
    assert cli.run(["doctor", "--revision", "main"]) == errors.USAGE
    assert hub.asked == []


def test_room_is_asked_of_the_disk_that_the_cache_is_on(hub: Hub, tmp_path: Path) -> None:
    """The nearest folder that exists stands for one that does not yet."""
    found = look_up(MODEL, None)
    assert found.cache == tmp_path / "hub" / "models--org--model"
    assert not found.cache.exists()
    require_room(found.cache, shutil.disk_usage(tmp_path).free // 2, MODEL)
    assert hub.asked
