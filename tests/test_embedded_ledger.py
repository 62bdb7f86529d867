"""The ledger of KV blocks: hits, owners, eviction order, resets, and books that balance after anything."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.backend import BlockOrigin
from engine.backends.embedded.ledger import Ledger, chain, hit_limit
from sessions.errors import RefeedError

SIZE = 4


def fill(ledger: Ledger, hashes: list[bytes], owner: str) -> list[int]:
    """Allocate and store one block per hash."""
    blocks = ledger.allocate(len(hashes))
    for place, (block, one) in enumerate(zip(blocks, hashes, strict=True)):
        ledger.store(block, one, BlockOrigin(owner, place * SIZE, 0))
    return blocks


def test_hashes_chain_over_everything_before_and_the_salt() -> None:
    """Equal blocks behind different tokens, or under different salts, have different hashes."""
    one = chain([1, 2, 3, 4, 9, 9, 9, 9], "a", SIZE)
    two = chain([5, 2, 3, 4, 9, 9, 9, 9], "a", SIZE)
    other_salt = chain([1, 2, 3, 4, 9, 9, 9, 9], "b", SIZE)
    assert len({*one, *two, *other_salt}) == 6
    assert chain([1, 2, 3, 4, 9, 9, 9], "a", SIZE) == one[:1]


@pytest.mark.parametrize(("length", "blocks"), [(1, 0), (4, 0), (5, 1), (8, 1), (9, 2)])
def test_a_prompt_never_hits_its_last_token(length: int, blocks: int) -> None:
    """At most floor((L-1)/b) blocks may be hit, also when b divides L."""
    assert hit_limit(length, SIZE) == blocks


def test_a_freed_block_is_found_until_it_is_evicted() -> None:
    """Freeing keeps a block findable; allocation takes the oldest freed one, tail of its sequence first."""
    ledger = Ledger(4)
    hashes = chain(range(12), "s", SIZE)
    blocks = fill(ledger, hashes, "a")
    ledger.release(blocks)
    assert ledger.match(hashes, 3) == blocks
    ledger.allocate(2)  # the never-used block, then the tail
    assert ledger.match(hashes, 3) == blocks[:2]
    ledger.check_integrity([[3], [blocks[2]]])


def test_a_hit_protects_a_block_from_eviction() -> None:
    """Taken blocks leave the eviction line and return to its end."""
    ledger = Ledger(3)
    first, second = chain(range(4), "s", SIZE), chain(range(4, 8), "s", SIZE)
    one, two = fill(ledger, first, "a"), fill(ledger, second, "b")
    ledger.release(one)
    ledger.release(two)
    ledger.take(one)
    ledger.release(one)
    ledger.allocate(2)
    assert ledger.match(first, 1) == one
    assert ledger.match(second, 1) == []


def test_of_equal_blocks_the_oldest_survivor_serves() -> None:
    """Two owners of one hash: the first stored serves until evicted, then the second."""
    ledger = Ledger(2)
    hashes = chain(range(4), "s", SIZE)
    first, second = fill(ledger, hashes, "a"), fill(ledger, hashes, "b")
    ledger.release(first)
    assert ledger.origins(ledger.match(hashes, 1)) == (BlockOrigin("a", 0, 0),)
    ledger.allocate(1)
    assert ledger.match(hashes, 1) == second
    assert ledger.origins(second) == (BlockOrigin("b", 0, 0),)


def test_a_reset_is_refused_while_anything_is_in_use_and_then_forgets_nothing() -> None:
    """One block in use keeps the whole cache."""
    ledger = Ledger(4)
    hashes = chain(range(8), "s", SIZE)
    blocks = fill(ledger, hashes, "a")
    ledger.release(blocks[1:])
    assert ledger.reset() is False
    assert ledger.match(hashes, 2) == blocks
    ledger.release(blocks[:1])
    assert ledger.reset() is True
    assert (ledger.match(hashes, 2), ledger.cached, ledger.free) == ([], 0, 4)


def test_a_double_release_is_an_error() -> None:
    """Releasing a free block says so instead of corrupting the counts."""
    ledger = Ledger(2)
    blocks = ledger.allocate(1)
    ledger.release(blocks)
    with pytest.raises(RefeedError, match="released twice"):
        ledger.release(blocks)


@pytest.mark.parametrize("fault", ["reference", "free", "hash", "origin", "leak"])
def test_integrity_check_raises_with_the_counts(fault: str) -> None:
    """Each kind of corruption is found and counted."""
    ledger = Ledger(4)
    blocks = fill(ledger, chain(range(8), "s", SIZE), "a")
    held = [blocks]
    ledger.check_integrity(held)
    if fault == "reference":
        ledger._references[blocks[0]] += 1
    elif fault == "free":
        ledger._free[blocks[0]] = None
    elif fault == "hash":
        ledger._hash[blocks[0]] = b"wrong"
    elif fault == "origin":
        ledger._origin[blocks[0]] = None
    else:
        held = []
    with pytest.raises(RefeedError, match=r"4 blocks, [23] free, 2 in use") as caught:
        ledger.check_integrity(held)
    assert caught.value.kind == "engine"


class LedgerMachine(RuleBasedStateMachine):
    """Random requests against a model that knows which tokens every block holds."""

    def __init__(self) -> None:
        """Six blocks, nothing held."""
        super().__init__()
        self.ledger = Ledger(6)
        self.held: list[list[int]] = []
        self.holds: dict[int, bytes] = {}

    @rule(first=st.integers(0, 2), blocks=st.integers(1, 4), cut=st.integers(0, 1))
    def admit(self, first: int, blocks: int, cut: int) -> None:
        """A request of some blocks: hit what is there, allocate and store the rest, the last one perhaps not full."""
        tokens = [first] * (blocks * SIZE) + [7] * (1 - cut)
        hashes = chain(tokens, "s", SIZE)
        hits = self.ledger.match(hashes, hit_limit(len(tokens), SIZE))
        for block, one in zip(hits, hashes, strict=False):
            assert self.holds[block] == one
        need = -(-len(tokens) // SIZE) - len(hits)
        if need > self.ledger.fresh_after(hits):
            return
        self.ledger.take(hits)
        fresh = self.ledger.allocate(need)
        assert not {*fresh} & {block for blocks in (*self.held, hits) for block in blocks}
        for block in fresh:
            self.holds.pop(block, None)
        for block, one in zip(fresh, hashes[len(hits) :], strict=False):
            self.ledger.store(block, one, BlockOrigin("r", 0, 0))
            self.holds[block] = one
        self.held.append([*hits, *fresh])

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """Some request ends."""
        self.ledger.release(self.held.pop(data.draw(st.integers(0, len(self.held) - 1))))

    @rule()
    def reset(self) -> None:
        """A reset works exactly when nothing is held."""
        assert self.ledger.reset() is (len(self.held) == 0)
        if not self.held:
            self.holds = {}

    @invariant()
    def balances(self) -> None:
        """The books balance after every step."""
        self.ledger.check_integrity(self.held)
        assert self.ledger.cached == len(self.holds)


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
