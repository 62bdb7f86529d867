"""Sessions for tests of the dashboard: real folders and journals, written with real events.

`imported` turns published records into a journal that says that it is an import. `Script` writes what a worker would
write, problem by problem, on a clock of its own, from net counts that the caller chooses.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from sessions.disk.journal import Journal
from sessions.events import (
    Arm,
    CacheProof,
    Ended,
    EngineReady,
    Notice,
    Opened,
    PassEnded,
    PassName,
    PassResult,
    PassStarted,
    Paused,
    Pivot,
    Probe,
    ProblemClosed,
    Progress,
    WavePlanned,
)
from sessions.spec import CampaignSpec, register
from sessions.store import SessionFolder, Store
from tests.helpers.published import ARMS, over_k, published_folder
from tests.helpers.session_events import cache_failure, trunks_done

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sessions.events import AnyEvent

PASSES: Final[tuple[PassName, ...]] = ("exact-1", "exact-2", "re-feed")
TOKENS: Final = (" crayons", " pens", "18", "\n\n", " dollars", " each", " So", " total")


@dataclass
class Clock:
    """A clock that moves when told, from when it was made: a living session is not silent, however long tests ran."""

    mono: float = 0.0
    made: float = field(default_factory=time.time)

    def __call__(self) -> tuple[float, float]:
        """Now: (wall, mono)."""
        return self.made + self.mono, self.mono


def spec(**fields: Any) -> CampaignSpec:
    """A resolved spec of an embedded campaign."""
    given: dict[str, Any] = {
        "engine": "embedded",
        "model": "bundled",
        "task": "arithmetic",
        "problems": 20,
        "cont_temperature": 0.7,
        "prompt": "Answer.",
        "task_digest": "ab" * 32,
        "model_digest": "cd" * 32,
    }
    return CampaignSpec(**{**given, **fields})


@dataclass
class Script:
    """A worker's journal, written by hand.

    Attributes:
        home: of the store.
        name: of the session.
        price: per hour.
        settings: of the spec.
        session_id: where the folder's name must not change from run to run; None for a new one.
    """

    home: Path
    name: str | None = None
    price: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    session_id: str | None = None

    def __post_init__(self) -> None:
        """Make the session and open its journal."""
        self.spec = spec(**self.settings)
        registration = register(self.spec, name=self.name, price_per_hour=self.price)
        self.folder = Store(self.home).create(registration)
        if self.session_id is not None:
            self.folder = SessionFolder(self.folder.path.rename(self.folder.path.with_name(self.session_id)))
        self.clock = Clock()
        self.journal = Journal.open(self.folder.journal_path, registration.digest, clock=self.clock)
        self.random = np.random.default_rng(7)

    def say(self, event: AnyEvent, after: float = 0.0) -> None:
        """Append one event, some seconds later."""
        self.clock.mono += after
        self.journal.append(event)

    def begin(self, model: str = "bundled", machine: str = "two cores", numerics: dict[str, str] | None = None) -> None:
        """Open it and let the engine answer."""
        self.say(Opened(session=self.folder.id, version="0.1.0", host="box", pid=4242))
        self.say(Notice(kind="loading", text="loading the model", fraction=0.5), 0.5)
        ready = EngineReady(
            engine=self.spec.engine,
            model=model,
            block_size=16,
            num_blocks=4096,
            max_model_len=1024,
            max_num_seqs=128,
            proof="ledger",
            seconds=1.5,
            numerics=numerics or {"torch": "2.13", "kernels": "split"},
            fingerprint="ab" * 32,
            machine={"cpu": machine},
        )
        self.say(ready, 1.0)

    def trunks(self, problem: int, right: int = 5) -> None:
        """Plan a wave of one and generate its trunks."""
        plan = WavePlanned(
            problems=(problem,),
            attempt=0,
            blocks_needed=200,
            blocks_allocated=900,
            blocks_there=4096,
            reason="wave = 1",
        )
        self.say(plan)
        self.say(trunks_done(problem, right=right, attempt=0), 3.5)

    def passes(self, problem: int, upto: int = 3, done: float = 1.0) -> None:
        """Run passes up to and including number `upto`; the last one only to `done` of its requests."""
        for number, name in enumerate(PASSES[:upto], start=1):
            cold: Literal["", "salt"] = "salt" if name == "re-feed" else ""
            self.say(PassStarted(problem=problem, attempt=0, name=name, requests=400, cold_by=cold), 0.1)
            share = done if number == upto else 1.0
            for part in (0.25, 0.5, 0.75, 1.0):
                if part <= share:
                    self.say(self._progress(problem, name, round(400 * part)), 1.5)
            if share >= 1.0:
                end = PassEnded(
                    problem=problem, attempt=0, name=name, seconds=6.0, tokens=43_500, verified=400, failed=0
                )
                self.say(end, 0.1)

    @staticmethod
    def _progress(problem: int, stage: str, done: int) -> Progress:
        return Progress(
            problem=problem,
            stage=stage,
            done=done,
            total=400,
            verified=done,
            failed=0,
            tokens=done * 108,
            tokens_per_s=6010.0,
            kv_use=0.34,
        )

    def pivots(self, problem: int, nets: Sequence[tuple[int, int, int]]) -> None:
        """One verified pivot for each triple of net counts (exact-1, exact-2, re-feed)."""
        for number, triple in enumerate(nets):
            self.say(self.pivot(problem, number, triple))

    def pivot(self, problem: int, number: int, nets: tuple[int, int, int], cache: CacheProof | None = None) -> Pivot:
        """A pivot; its probes differ when re-fed."""
        position = 117 + 16 * number
        hit = 16 * (position // 16)
        verified = CacheProof(state="verified", proof="ledger", hit_tokens=hit, decode_tokens=max(0, hit - 112))
        shift = 0.0 if number % 3 == 0 else float(self.random.gamma(1.0, 0.02))
        return Pivot(
            problem=problem,
            attempt=0,
            rollout=number % 8,
            position=position,
            index=position - 116,
            margin=float(self.random.uniform(0, 1)),
            k=self.spec.k,
            correct=number % 3 > 0,
            cache=cache or verified,
            exact1=self.result(nets[0], hit, 0.0),
            exact2=self.result(nets[1], hit, 0.0),
            refeed=self.result(nets[2], 0, shift),
            actual=93210,
            alternative=25,
            actual_text=TOKENS[number % len(TOKENS)],
            alternative_text=TOKENS[(number + 3) % len(TOKENS)],
            actual_logprob=-0.75,
            alternative_logprob=-0.875,
            rank=1,
        )

    def result(self, net: int, hit: int, shift: float) -> PassResult:
        """One pass of a pivot."""
        k = self.spec.k
        right = max(net, 0) + (k - abs(net)) // 2
        moved = "a1b2c3d4e5f60718" if shift == 0 else "ffb2c3d4e5f60718"
        probe = Probe(first_token=1, first_logprob=-0.5 - shift, length=32, tokens=moved, logprobs="0f1e2d3c4b5a6978")
        other = Probe(first_token=25, first_logprob=-0.25, length=32, tokens="aa", logprobs="bb")
        actual = Arm(correct=right, capped=1, tokens=512, probe=probe)
        alternative = Arm(correct=right - net, tokens=498, probe=other)
        return PassResult(net=net, actual=actual, alternative=alternative, cached=(hit, hit))

    def close(self, problem: int, pivots: int, outcome: str = "measured", reason: str = "") -> None:
        """End a problem."""
        event = ProblemClosed(
            problem=problem,
            attempt=0,
            outcome=outcome,  # type: ignore[arg-type]
            pivots=pivots,
            seconds=21.0,
            reason=reason,
        )
        self.say(event, 0.2)

    def problem(self, problem: int, nets: Sequence[tuple[int, int, int]]) -> None:
        """A whole measured problem."""
        self.trunks(problem)
        self.passes(problem)
        self.pivots(problem, nets)
        self.close(problem, len(nets))

    def nets(self, pivots: int = 12, refeed: float = 0.35, floor: float = 0.12) -> list[tuple[int, int, int]]:
        """Seeded net counts in which a share changes sign in the replica, and another when re-fed."""
        out = []
        for _ in range(pivots):
            first = int(self.random.integers(-2, 3))
            second = 0 if self.random.random() < floor else first
            third = int(self.random.integers(-2, 3)) if self.random.random() < refeed else first
            out.append((first, second, third))
        return out

    def fail(self, problem: int) -> None:
        """A request that misses, and the abort that follows."""
        self.say(cache_failure(problem), 0.5)
        reason = f"cache check failed: problem {problem}, rollout 3, position 145"
        self.say(Ended(state="aborted", exit_code=4, reason=reason), 0.5)

    def pause(self) -> None:
        """Pause."""
        self.say(Paused(by="user"), 1.0)

    def finish(self) -> None:
        """End as registered."""
        self.say(Ended(state="finished", exit_code=0, reason="all problems measured"), 0.5)
        self.journal.close()


def imported(home: Path, name: str = "primary") -> SessionFolder:
    """A published run as a session: an import, which knows no caches, no clock and no texts."""
    document = json.loads((published_folder() / f"{name}.json").read_text())
    k = int(document["config"]["k"])
    problems = [int(entry["problem_id"]) for entry in document["per_problem"]]
    registration = register(spec(engine="vllm", model="published", k=k, problems=len(problems)), name=name)
    folder = Store(home).create(registration)
    clock = Clock()
    with Journal.open(folder.journal_path, registration.digest, clock=clock) as journal:
        journal.append(Opened(session=folder.id, version="0.1.0", source=f"{name}.json", source_sha256="ef" * 32))
        for problem in problems:
            mine = [pivot for pivot in document["pivots"] if pivot["problem_id"] == problem]
            for pivot in mine:
                journal.append(_published(pivot, k))
            journal.append(ProblemClosed(problem=problem, attempt=0, outcome="measured", pivots=len(mine), seconds=0.0))
        journal.append(Ended(state="finished", exit_code=0, reason="imported"))
    return folder


def _published(record: dict[str, Any], k: int) -> Pivot:
    def result(arm: str) -> PassResult:
        probes = record.get(f"greedy_first_{arm}")
        made = [
            None if probes is None else Probe(first_token=int(probes[side][0]), first_logprob=float(probes[side][1]))
            for side in ("actual", "alt")
        ]
        diverged = record.get(f"greedy_divergence_{arm}")
        return PassResult(
            net=over_k(record[f"A_{arm}"], k),
            actual=Arm(probe=made[0]),
            alternative=Arm(probe=made[1]),
            probe_diverged=None if diverged is None else bool(diverged),
        )

    first, second, third = (result(arm) for arm in ARMS)
    return Pivot(
        problem=int(record["problem_id"]),
        attempt=0,
        rollout=int(record["rollout"]),
        position=int(record["abs_pos"]),
        index=int(record.get("gen_idx", record["abs_pos"])),
        margin=float(record["margin"]),
        k=k,
        correct=bool(record.get("correct", True)),
        cache=CacheProof(state="not_instrumented"),
        exact1=first,
        exact2=second,
        refeed=third,
    )
