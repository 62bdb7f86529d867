"""Sessions on disk for tests of the command: real folders and journals, written event by event."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from sessions.disk.journal import Journal
from sessions.events import Ended
from sessions.spec import CampaignSpec, register
from sessions.store import Store
from tests.helpers.session_events import closed, engine_ready, opened, pivot, trunks_done

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pytest

    from sessions.events import Event
    from sessions.store import SessionFolder

REPO = Path(__file__).resolve().parents[2]

Nets = tuple[int, int, int]
SAME: Nets = (1, 1, 1)
CROSSED: Nets = (1, 1, 0)
FLIPPED: Nets = (1, 1, -1)
REPLICA: Nets = (1, 0, 1)
SILENT: Nets = (0, 0, 0)

SPEC = CampaignSpec(
    engine="embedded", model="bundled", task="arithmetic", cont_temperature=0.7, problems=3, task_digest="ab" * 32
)
MIXED: tuple[tuple[Nets, ...], ...] = ((SAME, CROSSED, SILENT), (SAME, FLIPPED, REPLICA), (SAME, SAME, SILENT))


def worker_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home in which the command can start workers; whatever still runs in it at the end is killed."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(REPO))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield tmp_path / "home"
    for folder in Store().folders():
        if folder.live() and (run := folder.run()) is not None:
            os.kill(run.pid, signal.SIGKILL)


def write(events: Iterable[Event], spec: CampaignSpec = SPEC, *, name: str | None = None) -> SessionFolder:
    """A session with these events, in the home that the environment names."""
    registration = register(spec, name=name)
    folder = Store().create(registration)
    with Journal.open(folder.journal_path, registration.digest) as journal:
        for event in events:
            journal.append(event)
    return folder


def measured(problem: int, nets: Sequence[Nets], k: int = 4) -> list[Event]:
    """A measured problem: its trunks, its pivots, its end."""
    pivots = [pivot(problem, rollout=at, position=145 + 16 * at, nets=net, k=k) for at, net in enumerate(nets)]
    return [trunks_done(problem), *pivots, closed(problem, len(pivots))]


def campaign(problems: Sequence[Sequence[Nets]] = MIXED, *, start: int = 0, k: int = 4) -> list[Event]:
    """A whole campaign that finished."""
    body = [event for at, nets in enumerate(problems, start) for event in measured(at, nets, k)]
    return [opened(), engine_ready(), *body, Ended(state="finished", exit_code=0, reason="all problems measured")]
