"""Who wrote every KV block: one ledger of chained block hashes, reference counts, owners and eviction order.

A block is findable from the moment its tokens are scheduled until it is evicted or the cache is reset; freeing it
only puts it in line for eviction. Blocks freed together join the line tail first, so that prefixes outlive what
follows them.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.backend import BlockOrigin


def chain_root(salt: str) -> bytes:
    """The hash that the first block of a sequence is chained to; sequences of two salts share no block."""
    return blake2b(salt.encode(), digest_size=16, person=b"refeed-kv-salt").digest()


def chain_block(parent: bytes, tokens: Sequence[int]) -> bytes:
    """Hash of a full block: its tokens, and through `parent` everything before it."""
    return blake2b(np.asarray(tokens, dtype="<i8").tobytes(), digest_size=16, key=parent).digest()


def chain(tokens: Sequence[int], salt: str, block_size: int) -> list[bytes]:
    """Hashes of every full block of a sequence, in order."""
    hashes = []
    parent = chain_root(salt)
    for start in range(0, len(tokens) - block_size + 1, block_size):
        parent = chain_block(parent, tokens[start : start + block_size])
        hashes.append(parent)
    return hashes


def hit_limit(length: int, block_size: int) -> int:
    """Most blocks that a prompt of `length` tokens may hit: its last token is always computed."""
    return (length - 1) // block_size


class Ledger:
    """Block bookkeeping for `num_blocks` blocks; it holds no KV itself."""

    def __init__(self, num_blocks: int) -> None:
        """All blocks free and unknown."""
        self.num_blocks = num_blocks
        self._references = [0] * num_blocks
        self._hash: list[bytes | None] = [None] * num_blocks
        self._origin: list[BlockOrigin | None] = [None] * num_blocks
        self._free: OrderedDict[int, None] = OrderedDict((block, None) for block in range(num_blocks))
        # Blocks of equal content, oldest first: the first of them serves hits.
        self._by_hash: dict[bytes, OrderedDict[int, None]] = {}

    @property
    def free(self) -> int:
        """Blocks that nothing uses, cached ones among them."""
        return len(self._free)

    @property
    def used(self) -> int:
        """Blocks that a running request holds."""
        return self.num_blocks - len(self._free)

    @property
    def cached(self) -> int:
        """Blocks that a request could hit, in use or not."""
        return sum(len(blocks) for blocks in self._by_hash.values())

    def match(self, hashes: Sequence[bytes], limit: int) -> list[int]:
        """Blocks that hold the first of `hashes`, at most `limit`; touches nothing."""
        found: list[int] = []
        for block_hash in hashes[:limit]:
            blocks = self._by_hash.get(block_hash)
            if blocks is None:
                break
            found.append(next(iter(blocks)))
        return found

    def origins(self, blocks: Sequence[int]) -> tuple[BlockOrigin, ...]:
        """Who stored each of these cached blocks."""
        found = tuple(self._origin[block] for block in blocks)
        return tuple(origin for origin in found if origin is not None)

    def fresh_after(self, hits: Sequence[int]) -> int:
        """Blocks that could be allocated once `hits` are taken."""
        return len(self._free) - sum(block in self._free for block in hits)

    def take(self, blocks: Sequence[int]) -> None:
        """Add one reference to each block."""
        for block in blocks:
            if self._references[block] == 0:
                del self._free[block]
            self._references[block] += 1

    def allocate(self, count: int) -> list[int]:
        """Take `count` blocks from the head of the eviction line; what they held is forgotten.

        Raises:
            RefeedError: kind "engine" when fewer are free; the caller checks first.
        """
        if count > len(self._free):
            raise RefeedError("engine", f"{count} KV blocks asked for, {len(self._free)} of {self.num_blocks} free")
        blocks = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in blocks:
            self._forget(block)
            self._references[block] = 1
        return blocks

    def store(self, block: int, block_hash: bytes, origin: BlockOrigin) -> None:
        """Make a full block in use findable."""
        if self._references[block] == 0 or self._hash[block] is not None:
            state = "free" if self._references[block] == 0 else "stored already"
            raise RefeedError("engine", f"KV block {block} of {origin.owner} cannot be stored: it is {state}")
        self._hash[block] = block_hash
        self._origin[block] = origin
        self._by_hash.setdefault(block_hash, OrderedDict())[block] = None

    def release(self, blocks: Sequence[int]) -> None:
        """Drop one reference of each block of a sequence, tail first."""
        for block in reversed(blocks):
            if self._references[block] == 0:
                raise RefeedError("engine", f"KV block {block} is released twice")
            self._references[block] -= 1
            if self._references[block] == 0:
                self._free[block] = None

    def reset(self) -> bool:
        """Forget every cached block; False, with nothing forgotten, while any block is in use."""
        if self.used > 0:
            return False
        for block in range(self.num_blocks):
            self._forget(block)
        return True

    def _forget(self, block: int) -> None:
        block_hash = self._hash[block]
        if block_hash is None:
            return
        same = self._by_hash[block_hash]
        del same[block]
        if len(same) == 0:
            del self._by_hash[block_hash]
        self._hash[block] = None
        self._origin[block] = None

    def check_integrity(self, holders: Sequence[Sequence[int]] = ()) -> None:
        """Check that the books balance; `holders` are the block lists of all running requests.

        Raises:
            RefeedError: kind "engine", with the counts, when they do not.
        """
        held = np.zeros(self.num_blocks, dtype=np.int64)
        for blocks in holders:
            np.add.at(held, np.asarray(blocks, dtype=np.int64), 1)
        references = np.asarray(self._references)
        free = np.asarray([block in self._free for block in range(self.num_blocks)], dtype=bool)
        hashed = sum(block_hash is not None for block_hash in self._hash)
        listed = sum(self._hash[block] == key for key, blocks in self._by_hash.items() for block in blocks)
        empty = sum(len(blocks) == 0 for blocks in self._by_hash.values())
        owned = sum((o is None) != (h is None) for o, h in zip(self._origin, self._hash, strict=True))
        faults = {
            "blocks both free and in use": int(np.sum(free & (references > 0))),
            "blocks neither free nor in use": int(np.sum(~free & (references <= 0))),
            "blocks whose references differ from their holders": int(np.sum(references != held)),
            "hashes without a findable block": hashed - listed,
            "findable blocks under a wrong hash": self.cached - listed,
            "empty hash entries": empty,
            "blocks with a hash or an owner alone": owned,
        }
        wrong = [f"{count} {name}" for name, count in faults.items() if count != 0]
        if wrong:
            counts = f"{self.num_blocks} blocks, {len(self._free)} free, {int(np.sum(references > 0))} in use"
            raise RefeedError("engine", f"the KV ledger does not balance: {', '.join(wrong)} ({counts})")
