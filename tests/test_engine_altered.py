"""Engines and plans that go wrong where no cached-token count shows it: each ends in a failed check with its name."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import pytest
import torch

from engine.backend import FirstToken
from engine.protocol import passes
from engine.protocol.seeds import request_seed
from engine.protocol.trunks import TrunkSet
from sessions.events import CacheFailure, Pivot, ProblemClosed
from tests.helpers.campaigns import SMALL, Faulty, conduct, registered, start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from engine.backend import Completion, Request, Watcher
    from engine.backends.embedded.backend import EmbeddedBackend
    from engine.protocol.passes import Cut
    from tests.helpers.campaigns import Record

SPEC = registered(SMALL, problems=1, rollouts=4, k=3, max_pivots=3, max_cont_tokens=80)


@pytest.fixture
def engine() -> Iterator[EmbeddedBackend]:
    """A fresh embedded engine in split mode."""
    backend = cast("EmbeddedBackend", start(SPEC))
    yield backend
    backend.close()


@dataclass
class Asking(Faulty):
    """A real engine that serves other requests than it was asked.

    Attributes:
        ask: alters a request.
    """

    ask: Callable[[Request], Request] = field(default=lambda request: request)

    def run(self, requests: Sequence[Request], watcher: Watcher) -> tuple[Completion, ...]:
        """Run the altered batch."""
        return super().run([self.ask(request) for request in requests], watcher)


def checks(record: Record) -> set[tuple[str, str]]:
    """Stage and name of each failed check."""
    return {(event.stage, event.check) for event in record.of(CacheFailure)}


def require_aborted(record: Record, stage: str, name: str) -> None:
    """The campaign ended with exit code 4 by this check, and nothing of it counts."""
    assert (stage, name) in checks(record), record.ended
    assert (record.ended.state, record.ended.exit_code) == ("aborted", 4)
    assert record.ended.reason != ""
    assert record.of(ProblemClosed) == []
    assert len(record.state.table().group) == 0


def of_continuation(request: Request) -> bool:
    """Whether a request samples a continuation."""
    return request.seed is not None and "/trunk/" not in request.id


def test_a_ledger_that_hands_out_the_wrong_block_of_the_right_trunk(engine: EmbeddedBackend, tmp_path: Path) -> None:
    """The last block of every hit is the trunk's first one."""
    match = engine._ledger.match

    def first_block_again(hashes: Sequence[bytes], limit: int) -> list[int]:
        found = match(hashes, limit)
        return [*found[:-1], found[0]] if len(found) > 1 else found

    engine._ledger.match = first_block_again  # type: ignore[method-assign]
    require_aborted(conduct(SPEC, tmp_path, backend=engine), "exact-1", "origin")


def test_trunks_recomputed_by_prefill(engine: EmbeddedBackend, tmp_path: Path) -> None:
    """Trunks lose their blocks in mid-sequence and are prefilled again, and no counter tells of it."""
    scheduler = engine._scheduler
    schedule, lost = scheduler.schedule, set()

    def recompute() -> object:
        for seq in list(scheduler.running):
            if "/trunk/" in seq.request.id and seq.generated == 60 and seq.request.id not in lost:
                lost.add(seq.request.id)
                scheduler.running.remove(seq)
                scheduler._preempt(seq)
                seq.preemptions = scheduler.preemptions = 0
        return schedule()

    scheduler.schedule = recompute  # type: ignore[method-assign,assignment]
    match = engine._ledger.match

    def match_no_own(hashes: Sequence[bytes], limit: int) -> list[int]:
        found = match(hashes, limit)
        return [] if any(o.owner in lost for o in engine._ledger.origins(found)) and serving_trunks() else found

    def serving_trunks() -> bool:
        return any("/trunk/" in seq.request.id for seq in (*scheduler.running, *scheduler.waiting))

    # The blocks that the recomputed trunk stores are found first, as if the older copies had been evicted.
    store = engine._ledger.store

    def store_newest_first(block: int, block_hash: bytes, origin: object) -> None:
        store(block, block_hash, origin)  # type: ignore[arg-type]
        engine._ledger._by_hash[block_hash].move_to_end(block, last=False)

    engine._ledger.match, engine._ledger.store = match_no_own, store_newest_first  # type: ignore[method-assign]
    record = conduct(SPEC, tmp_path, backend=engine)
    assert lost
    require_aborted(record, "exact-1", "origin")


def test_kv_pages_scrambled_after_the_trunks(engine: EmbeddedBackend, tmp_path: Path) -> None:
    """All pages are rolled by one; the books stay right, and only fidelity sees it."""

    def scramble(requests: Sequence[Request]) -> None:
        if "/exact-1/" in requests[0].id:
            pages = engine._pages
            assert pages is not None
            with torch.inference_mode():
                for layer in (*pages.keys, *pages.values):
                    layer.copy_(layer.roll(1, 0))

    require_aborted(conduct(SPEC, tmp_path, backend=Faulty(engine, before=scramble)), "exact-1", "fidelity")


def test_an_engine_that_drops_the_token_before_the_forced_one(engine: EmbeddedBackend, tmp_path: Path) -> None:
    """The prefix is one token short; where a count does not show it, fidelity does."""

    def short(request: Request) -> Request:
        if "/trunk/" in request.id or len(request.prompt) % 16 == 1:
            return request
        return replace(request, prompt=(*request.prompt[:-2], request.prompt[-1]))

    require_aborted(conduct(SPEC, tmp_path, backend=Asking(engine, ask=short)), "exact-1", "fidelity")


def test_a_plan_whose_prefix_is_one_token_short(
    engine: EmbeddedBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not served at all."""
    cuts = TrunkSet.cuts

    def short(trunks: TrunkSet) -> tuple[Cut, ...]:
        return tuple(replace(cut, prefix=cut.prefix[:-1]) for cut in cuts(trunks))

    monkeypatch.setattr(TrunkSet, "cuts", short)
    faulty = Faulty(engine)
    require_aborted(conduct(SPEC, tmp_path, backend=faulty), "exact-1", "plan")
    assert faulty.batches == 1, "trunks alone"


def test_one_seed_for_both_arms(engine: EmbeddedBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds that forget the arm are found in the plan."""
    seed: Callable[..., int] = request_seed

    def no_arm(*args: object) -> int:
        return seed(*args[:5], "actual", *args[6:])

    monkeypatch.setattr(passes, "request_seed", no_arm)
    require_aborted(conduct(SPEC, tmp_path, backend=engine), "exact-1", "plan")


def test_an_engine_that_samples_everything_with_one_seed(engine: EmbeddedBackend, tmp_path: Path) -> None:
    """All continuations of an arm are one text, in every arm."""
    asking = Asking(engine, ask=lambda request: replace(request, seed=1) if of_continuation(request) else request)
    require_aborted(conduct(SPEC, tmp_path, backend=asking), "exact-1", "seeds")


def test_a_replica_with_other_seeds(engine: EmbeddedBackend, tmp_path: Path) -> None:
    """The engine reseeds exact 2: continuations begin otherwise."""

    def reseed(request: Request) -> Request:
        if request.seed is None or "/exact-2/" not in request.id:
            return request
        return replace(request, seed=request.seed ^ 0x5555)

    spec = registered(SPEC, start=1, rollouts=6, k=5, max_cont_tokens=16)
    require_aborted(conduct(spec, tmp_path, backend=Asking(engine, ask=reseed)), "exact-2", "seeds")


def test_a_replica_that_is_planned_with_other_seeds(
    engine: EmbeddedBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later pass must ask what exact 1 asked."""
    seed: Callable[..., int] = request_seed
    calls = [0]

    def drifting(*args: object) -> int:
        calls[0] += 1
        return seed(*args) + calls[0] // 1000

    calls[0] = 1000 - 72  # exact 1 of 12 pivots, two arms and three continuations
    monkeypatch.setattr(passes, "request_seed", drifting)
    record = conduct(SPEC, tmp_path, backend=engine)
    assert {name for _, name in checks(record)} == {"plan"}
    assert record.ended.exit_code == 4


def test_an_alternative_arm_that_forces_the_actual_token(engine: EmbeddedBackend, tmp_path: Path) -> None:
    """Both arms' probes are equal to the last bit."""
    actual: dict[str, int] = {}

    def same(request: Request) -> Request:
        place = "/".join(request.id.split("/")[:4])
        if "/actual/" in request.id:
            actual[place] = request.prompt[-1]
        if "/alternative/" not in request.id:
            return request
        return replace(request, prompt=(*request.prompt[:-1], actual[place]))

    require_aborted(conduct(SPEC, tmp_path, backend=Asking(engine, ask=same)), "exact-1", "arms")


@pytest.mark.parametrize(("renamed", "name"), [(False, "returned"), (True, "arms")])
def test_arms_of_re_feed_completions_swapped(
    engine: EmbeddedBackend, tmp_path: Path, *, renamed: bool, name: str
) -> None:
    """Completions in another order are found by their ids; under the ids that were asked, by what they say."""

    class Swapping(Faulty):
        def run(self, requests: Sequence[Request], watcher: Watcher) -> tuple[Completion, ...]:
            done = super().run(requests, watcher)
            if "/re-feed/" not in requests[0].id:
                return done
            by_id = {one.id: one for one in done}
            other = [by_id[_other_arm(request.id)] for request in requests]
            if not renamed:
                return tuple(other)
            return tuple(
                replace(by_id[request.id], tokens=one.tokens, logprobs=one.logprobs)
                for request, one in zip(requests, other, strict=True)
            )

    require_aborted(conduct(SPEC, tmp_path, backend=Swapping(engine)), "re-feed", name)


def _other_arm(request: str) -> str:
    if "/actual/" in request:
        return request.replace("/actual/", "/alternative/")
    return request.replace("/alternative/", "/actual/")


def test_a_replica_answered_from_a_memo(engine: EmbeddedBackend, tmp_path: Path) -> None:
    """Exact 2 repeats what exact 1 said, hits and all, and no step of the engine generated it."""

    class Memo(Faulty):
        told: tuple[Completion, ...] = ()

        def run(self, requests: Sequence[Request], watcher: Watcher) -> tuple[Completion, ...]:
            if "/exact-2/" not in requests[0].id:
                self.told = super().run(requests, watcher)
                return self.told
            said = tuple(replace(one, id=request.id) for one, request in zip(self.told, requests, strict=True))
            for one in said:
                watcher.first_token(FirstToken(one.id, one.cached_tokens, one.origins))
            return said

    require_aborted(conduct(SPEC, tmp_path, backend=Memo(engine)), "exact-2", "steps")


def test_counts_and_logprobs_that_changed_on_the_way_back(engine: EmbeddedBackend, tmp_path: Path) -> None:
    """A completion whose count is not the one that was checked, and one whose logprob is no number."""

    def alter(done: Completion) -> Completion:
        if "/exact-1/" in done.id and done.id.endswith("actual/k0"):
            return replace(done, cached_tokens=0)
        if "/exact-1/" in done.id and done.id.endswith("alternative/probe"):
            return replace(done, logprobs=(replace(done.logprobs[0], sampled=float("nan")), *done.logprobs[1:]))
        return done

    record = conduct(SPEC, tmp_path, backend=Faulty(engine, completion=alter))
    require_aborted(record, "exact-1", "returned")
    assert {event.request.rsplit("/", 1)[1] for event in record.of(CacheFailure)} == {"k0", "probe"}


def test_a_trunk_whose_logprob_is_no_number(engine: EmbeddedBackend, tmp_path: Path) -> None:
    """Its problem is spoiled before any pass."""

    def alter(done: Completion) -> Completion:
        return replace(done, logprobs=(replace(done.logprobs[0], sampled=float("inf")), *done.logprobs[1:]))

    faulty = Faulty(engine, completion=alter)
    require_aborted(conduct(SPEC, tmp_path, backend=faulty), "trunks", "returned")
    assert faulty.batches == 1


@pytest.mark.parametrize("group", [1, 4])
@pytest.mark.parametrize("numerics", ["split", "natural", "invariant"])
def test_clean_campaigns_fail_no_check_and_record_their_fidelity(tmp_path: Path, numerics: str, group: int) -> None:
    """Whatever the numerics and the group, exact 1 predicts what its trunk recorded."""
    spec = registered(SPEC, problems=4, rollouts=2, numerics=numerics, group=group)
    record = conduct(spec, tmp_path)
    assert record.of(CacheFailure) == []
    assert (record.ended.state, record.ended.exit_code) == ("finished", 0)
    found = [pivot.fidelity for pivot in record.of(Pivot)]
    assert found
    assert {one.argmax for one in found} <= {"same", "other", "beyond"}
    assert all(one.delta < 0.25 for one in found if one.argmax != "beyond")
