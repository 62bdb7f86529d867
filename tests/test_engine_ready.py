"""What a worker tells a launcher that listens, is stopped, or is gone."""

from __future__ import annotations

import os
import threading

import msgspec

from engine.worker.supervisor import Launcher, Ready, Step

HOURS = 20_000  # steps, one a second
PATIENCE = 10.0


def test_a_launcher_that_is_stopped_holds_no_worker_up() -> None:
    """Ctrl-Z in the shell while weights are checked: the pipe would be full, and the worker wait in its write."""
    read_end, write_end = os.pipe()
    launcher = Launcher(write_end)

    def work() -> None:
        for number in range(HOURS):
            launcher.step("checking the weights", number / HOURS)
        launcher.tell(Ready(ok=False, kind="engine", message="x" * 10_000))

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(PATIENCE)
    assert not worker.is_alive()
    with os.fdopen(read_end, "rb") as pipe:
        *steps, last = [msgspec.json.decode(line, type=Step | Ready) for line in pipe]
    assert isinstance(steps[0], Step)
    assert steps[0].fraction == 0.0
    assert last == Ready(ok=False, kind="engine", message="x" * 10_000)


def test_a_launcher_that_is_gone_stops_nothing() -> None:
    """Killed, or its terminal closed."""
    read_end, write_end = os.pipe()
    launcher = Launcher(write_end)
    launcher.step("checking the weights", 0.25)
    os.close(read_end)
    launcher.step("checking the weights", 0.5)
    launcher.tell(Ready(ok=True))
    launcher.tell(Ready(ok=True))
