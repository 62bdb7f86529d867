"""A real terminal: tmux, a real embedded campaign, signals, and a terminal that goes away."""

from __future__ import annotations

import importlib.util
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from sessions.store import Store
from tests.helpers.tui_journals import Script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TMUX = shutil.which("tmux")
PATIENCE = 40.0


class Terminal:
    """A tmux server of its own with one window.

    Attributes:
        socket: of the server.
    """

    def __init__(self, socket: Path, home: Path) -> None:
        """Start it at 80x24 with a shell that finds the sessions."""
        assert TMUX is not None
        self.socket = socket
        self._tmux = TMUX
        env = {
            "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",  # noqa: PTH120
            "REFEED_TUI_HOME": str(home),
            "XDG_RUNTIME_DIR": str(home),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "HOME": str(home),
        }
        subprocess.run(
            [TMUX, "-S", str(socket), "-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "sh"],
            env=env,
            check=True,
            cwd=home,
        )

    def _run(self, *words: str) -> str:
        made = subprocess.run([self._tmux, "-S", str(self.socket), *words], capture_output=True, text=True, check=True)
        return made.stdout

    def keys(self, *keys: str) -> None:
        """Type."""
        self._run("send-keys", *keys)

    def text(self) -> str:
        """What stands in the window."""
        return self._run("capture-pane", "-p")

    def until(self, said: str | Callable[[str], bool], patience: float = PATIENCE) -> str:
        """Wait until the window says something."""
        end = time.monotonic() + patience
        text = ""
        while time.monotonic() < end:
            text = self.text()
            if said(text) if callable(said) else said in text:
                return text
            time.sleep(0.1)
        raise AssertionError(f"{said!r} did not appear within {patience} s:\n{text}")

    def close(self) -> None:
        """End the server and what runs in it."""
        subprocess.run([self._tmux, "-S", str(self.socket), "kill-server"], check=False, capture_output=True)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal with an empty home."""
    if TMUX is None:
        pytest.skip("tmux is not installed; this test drives a real terminal")
    made = Terminal(tmp_path / "tmux.sock", tmp_path)
    yield made
    made.close()
    for folder in Store(tmp_path).folders():
        if folder.live():  # a test that failed on its way leaves no worker behind
            subprocess.run([sys.executable, "-m", "tui.cli", "abort", str(folder.path)], check=False, timeout=60)


def refeed(*words: str) -> str:
    """The command, run by this interpreter."""
    return " ".join([sys.executable, "-m", "tui.cli", *words])


def attached(folder: Path) -> list[str]:
    """A dashboard on a session, as a command."""
    code = (
        "import sys; from pathlib import Path; from sessions.store import SessionFolder; "
        "from tui.dashboard.app import run_dashboard; "
        f"sys.exit(run_dashboard(SessionFolder(Path({str(folder)!r})), mode='attach'))"
    )
    return [sys.executable, "-c", code]


def test_a_real_campaign_is_launched_watched_left_attached_and_aborted(terminal: Terminal, tmp_path: Path) -> None:
    """The whole way in a real terminal with a real worker: q leaves it running, A ends it, its exit code is told."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed; the embedded engine needs it")
    terminal.keys(refeed("launch", "demo", "--name", "e2e", "--price-per-hour", "2.5"), "Enter")
    text = terminal.until("RUNNING")
    assert "e2e" in text
    terminal.until(lambda shown: "CACHE OK" in shown or "exact-" in shown)
    terminal.keys("P")
    terminal.until(lambda shown: "pausing before" in shown or "PAUSED" in shown)
    terminal.keys("q")
    # Which it is depends on whether its problem closed before the key.
    text = terminal.until(lambda shown: "goes on." in shown or "stays paused; its engine and memory stay held" in shown)
    (folder,) = Store(tmp_path).folders()
    assert f"refeed-tui attach {folder.id}" in text.replace("\n", "")
    assert folder.live()
    terminal.keys("clear", "Enter")
    terminal.keys(f"{refeed('attach')}; echo code=$?.", "Enter")
    terminal.until(lambda shown: "RUNNING" in shown or "PAUSED" in shown)
    terminal.keys("A")
    terminal.until(f"Abort {folder.id}?")
    terminal.keys("y")
    terminal.until("ABORTED")
    terminal.keys("q")
    terminal.until("code=1.")
    end = time.monotonic() + PATIENCE
    while folder.live() and time.monotonic() < end:
        time.sleep(0.1)
    assert not folder.live()
    assert folder.state() == "aborted"


def test_the_dashboard_follows_the_terminals_size_and_leaves_it_clean(terminal: Terminal, tmp_path: Path) -> None:
    """After q the shell is as it was; a window that shrinks below the minimum says so and recovers."""
    script = Script(tmp_path, name="seen")
    script.begin()
    for problem in range(3):
        script.problem(problem, script.nets())
    script.finish()
    terminal.keys(f"{refeed('attach', 'seen')}; echo code=$?.", "Enter")
    terminal.until("symmetry e")
    terminal.keys("q")
    assert "symmetry" not in terminal.until("code=0.")
    terminal.keys(refeed("attach", "seen"), "Enter")
    terminal.until("symmetry e")
    terminal._run("resize-window", "-x", "60", "-y", "20")
    terminal.until("60x20 is too small")
    terminal._run("resize-window", "-x", "120", "-y", "40")
    terminal.until("symmetry e")
    terminal.keys("q")


def started(folder: Path, home: Path) -> tuple[int, int]:
    """A dashboard on a pty: pid and the terminal's other end, once it draws."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update({"TERM": "xterm-256color", "LANG": "C.UTF-8", "REFEED_TUI_HOME": str(home)})
        command = attached(folder)
        os.execv(command[0], command)  # noqa: S606  (a pty has no subprocess API)
    seen = b""
    end = time.monotonic() + PATIENCE
    while b"RUNNING" not in seen and b"INTERRUPTED" not in seen and time.monotonic() < end:
        seen += os.read(fd, 65536)
    assert b"RUNNING" in seen or b"INTERRUPTED" in seen, seen
    return pid, fd


def ended(pid: int, patience: float = PATIENCE) -> int:
    """Exit code of a process, within seconds; drains nothing."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError(f"the dashboard did not end within {patience} s")


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A session with some events."""
    script = Script(tmp_path, name="signalled")
    script.begin()
    script.problem(0, script.nets())
    return script.folder.path


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_end_it_with_their_code(session: Path, tmp_path: Path, number: signal.Signals, code: int) -> None:
    """SIGTERM and SIGHUP end the dashboard with 128 + n."""
    pid, fd = started(session, tmp_path)
    os.kill(pid, number)
    assert ended(pid) == code
    os.close(fd)


def test_a_terminal_that_goes_away_ends_it(session: Path, tmp_path: Path) -> None:
    """When the terminal hangs up, the dashboard leaves in good order, neither spinning nor killed by the signal."""
    pid, fd = started(session, tmp_path)
    os.close(fd)
    assert ended(pid) == 129


def test_list_and_help_do_not_load_the_dashboard() -> None:
    """The dashboard is imported when it is opened, and not before."""
    code = (
        "import sys, json; from tui import cli; import tui.commands.list; "
        "print(json.dumps([name for name in ('textual', 'plotext', 'numpy') if name in sys.modules]))"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(made.stdout) == []


def test_the_bare_command_opens_the_sessions_on_a_terminal_and_helps_elsewhere(
    terminal: Terminal, tmp_path: Path
) -> None:
    """Without a command a person gets the list; a pipe gets the help."""
    terminal.keys(refeed(), "Enter")
    terminal.until("no sessions yet")
    terminal.keys("q")
    terminal.until(lambda text: text.rstrip().endswith(("#", "$")))
    terminal.keys(f"{refeed()} | grep -c Usage > helped; echo ended-$((6*7))", "Enter")
    terminal.until("ended-42")
    assert (tmp_path / "helped").read_text() == "1\n"
