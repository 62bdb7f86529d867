"""Which tokens run in the next step: strict admission order, chunked prefill, preemption by recomputation.

Running requests go first, oldest first; when blocks run out the youngest loses all of its blocks and returns to the
head of the waiting line. Then waiting requests are admitted strictly in order. Both rules depend on token counts
alone, so a repeated call makes the same steps.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from engine.backend import BlockOrigin
from engine.backends.embedded.ledger import chain_block, chain_root, hit_limit
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.backend import Finish, Request, TokenLogprobs
    from engine.backends.embedded.ledger import Ledger


@dataclass(slots=True, eq=False)
class Running:
    """A request on its way.

    Attributes:
        request: what was asked.
        index: its place in the call.
        tokens: prompt and generated tokens.
        computed: tokens whose KV is in blocks.
        blocks: its blocks, in order.
        hashes: chained hashes of its full blocks, as far as needed yet.
        stored: blocks, from the first, that the ledger can find.
        row: its row of the block tables; -1 while waiting.
        decode_from: tokens from this index on were written in decode (since its last admission).
        cached_tokens: hit at first admission; None before it.
        origins: whose blocks those were.
        preemptions: times it lost its blocks.
        reported: whether its first token was reported.
        finish: why it ended; None while unfinished.
    """

    request: Request
    index: int
    tokens: list[int]
    computed: int = 0
    blocks: list[int] = field(default_factory=list)
    hashes: list[bytes] = field(default_factory=list)
    stored: int = 0
    row: int = -1
    decode_from: int = 0
    cached_tokens: int | None = None
    origins: tuple[BlockOrigin, ...] | None = None
    preemptions: int = 0
    reported: bool = False
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    finish: Finish | None = None

    @property
    def generated(self) -> int:
        """Tokens sampled so far."""
        return len(self.tokens) - len(self.request.prompt)


class Work(NamedTuple):
    """Tokens of one request in one step: `size` of them from index `start`, in decode or in prefill."""

    seq: Running
    start: int
    size: int
    decode: bool


class Scheduler:
    """Waiting and running requests, and the block tables of the running ones.

    Attributes:
        tables: int64 [max_num_seqs, width], block ids by row; unused entries hold the null block.
        preemptions: preemptions since the last `submit`.
        finished: requests that ended since then.
    """

    def __init__(
        self, ledger: Ledger, block_size: int, max_num_seqs: int, max_num_batched_tokens: int, table_width: int
    ) -> None:
        """An idle scheduler; the null block is the one after the ledger's last."""
        self.ledger = ledger
        self.block_size = block_size
        self.token_budget = max_num_batched_tokens
        self.null_block = ledger.num_blocks
        self.tables = np.full((max_num_seqs, table_width), self.null_block, dtype=np.int64)
        self.waiting: deque[Running] = deque()
        self.running: list[Running] = []
        self.preemptions = 0
        self.finished = 0
        self._rows = list(range(max_num_seqs - 1, -1, -1))

    @property
    def unfinished(self) -> bool:
        """Whether anything waits or runs."""
        return len(self.waiting) > 0 or len(self.running) > 0

    def submit(self, requests: Sequence[Request]) -> list[Running]:
        """Queue the requests of a call, in order."""
        self.preemptions = 0
        self.finished = 0
        seqs = [Running(request, index, list(request.prompt)) for index, request in enumerate(requests)]
        self.waiting.extend(seqs)
        return seqs

    def schedule(self) -> list[Work]:
        """Choose the next step's tokens and take their blocks. Never empty while anything is unfinished."""
        before = self.preemptions
        work = self._continue_running()
        if self.preemptions == before:
            self._admit(work)
        if not work and self.unfinished:
            counts = f"{len(self.running)} running, {len(self.waiting)} waiting, {self.ledger.free} blocks free"
            raise RefeedError("engine", f"the scheduler made no progress ({counts})")
        return work

    def finish(self, seq: Running, reason: Finish) -> None:
        """End a request and free its blocks, wherever it is."""
        seq.finish = reason
        self.finished += 1
        if seq.row >= 0:
            self._free(seq)
        else:
            self.waiting.remove(seq)

    def drop_finished(self) -> None:
        """Take ended requests off the running list."""
        self.running = [seq for seq in self.running if seq.finish is None]

    def abort_all(self) -> None:
        """End everything that is unfinished as "aborted" and free its blocks."""
        for seq in (*self.running, *self.waiting):
            if seq.finish is None:
                self.finish(seq, "aborted")
        self.drop_finished()

    def _continue_running(self) -> list[Work]:
        work: list[Work] = []
        budget = self.token_budget
        place = 0
        while place < len(self.running) and budget > 0:
            seq = self.running[place]
            count = min(len(seq.tokens) - seq.computed, budget)
            if not self._make_room(seq, count):
                break
            work.append(self._plan(seq, count))
            budget -= count
            place += 1
        return work

    def _admit(self, work: list[Work]) -> None:
        budget = self.token_budget - sum(item.size for item in work)
        while self.waiting and self._rows and budget > 0:
            seq = self.waiting[0]
            self._extend_hashes(seq)
            hits = self.ledger.match(seq.hashes, hit_limit(len(seq.tokens), self.block_size))
            cached = len(hits) * self.block_size
            count = min(len(seq.tokens) - cached, budget)
            if self._blocks_for(cached + count) - len(hits) > self.ledger.fresh_after(hits):
                break
            self._start(self.waiting.popleft(), hits)
            work.append(self._plan(seq, count))
            budget -= count

    def _start(self, seq: Running, hits: list[int]) -> None:
        if seq.cached_tokens is None:
            seq.cached_tokens = len(hits) * self.block_size
            seq.origins = self.ledger.origins(hits)
        self.ledger.take(hits)
        seq.row = self._rows.pop()
        seq.computed = len(hits) * self.block_size
        seq.stored = len(hits)
        seq.decode_from = len(seq.tokens)
        self._append_blocks(seq, hits)
        self.running.append(seq)

    def _make_room(self, seq: Running, count: int) -> bool:
        need = self._blocks_for(seq.computed + count) - len(seq.blocks)
        while self.ledger.free < need:
            victim = self.running.pop()
            self._preempt(victim)
            if victim is seq:
                return False
        return True

    def _preempt(self, seq: Running) -> None:
        self._free(seq)
        seq.computed = seq.stored = 0
        seq.preemptions += 1
        self.preemptions += 1
        self.waiting.appendleft(seq)

    def _plan(self, seq: Running, count: int) -> Work:
        start = seq.computed
        need = self._blocks_for(start + count) - len(seq.blocks)
        if need > 0:
            self._append_blocks(seq, self.ledger.allocate(need))
        if (start + count) // self.block_size > seq.stored:
            self._store_full(seq, (start + count) // self.block_size)
        return Work(seq, start, count, start >= seq.decode_from)

    def _store_full(self, seq: Running, full: int) -> None:
        self._extend_hashes(seq)
        size = self.block_size
        for place in range(seq.stored, full):
            decoded = min(size, max(0, (place + 1) * size - seq.decode_from))
            origin = BlockOrigin(seq.request.id, place * size, decoded)
            self.ledger.store(seq.blocks[place], seq.hashes[place], origin)
        seq.stored = full

    def _extend_hashes(self, seq: Running) -> None:
        size = self.block_size
        for place in range(len(seq.hashes), len(seq.tokens) // size):
            parent = seq.hashes[-1] if place > 0 else chain_root(seq.request.salt)
            seq.hashes.append(chain_block(parent, seq.tokens[place * size : (place + 1) * size]))

    def _append_blocks(self, seq: Running, blocks: list[int]) -> None:
        first = len(seq.blocks)
        seq.blocks.extend(blocks)
        self.tables[seq.row, first : len(seq.blocks)] = blocks

    def _free(self, seq: Running) -> None:
        self.ledger.release(seq.blocks)
        seq.blocks = []
        self.tables[seq.row] = self.null_block
        self._rows.append(seq.row)
        seq.row = -1

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_size)
