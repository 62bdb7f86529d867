"""How long the light commands take, process start included; the bar is 0.25 s for each.

Run: python -m benchmarks.command_startup [ROUNDS]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

from tests.helpers.cli_sessions import campaign, write

COMMANDS = (["--help"], ["--version"], ["list"], ["presets"], ["paths"], ["launch", "--help"])
SESSIONS = 20


def seconds(args: list[str], home: Path) -> float:
    """Wall time of one process."""
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", "from tui.cli import main; main()", *args],
        env={**os.environ, "REFEED_TUI_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - started


def main(rounds: int) -> None:
    """Time every command on a home with some sessions, the first (cold) round left out."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with mock.patch.dict(os.environ, {"REFEED_TUI_HOME": folder}):
            for _ in range(SESSIONS):
                write(campaign())
        for args in COMMANDS:
            seconds(args, home)
            times = [seconds(args, home) for _ in range(rounds)]
            print(f"{' '.join(args):<16} median {statistics.median(times):.3f} s, most {max(times):.3f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
