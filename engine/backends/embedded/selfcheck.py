"""Proof of batch invariance at start: random compositions and chunkings against whole prefills, bit for bit.

Whether a CPU's kernels give the same bits at the shapes chosen in `numerics` can only be tried, on the machine and with
the weights that will be used. So `invariant` is a name that the engine takes only after this check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import torch

from engine.backends.embedded.batch import Piece, build
from engine.backends.embedded.pages import Pages
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from engine.backends.embedded.model import Model

    Progress = Callable[[str, float], None]

TRIALS: Final = 3
SEQUENCES: Final = 24
SHORTEST: Final = 17
LONGEST: Final = 96
ONE_LONG: Final = 560  # passes the KV split of SDPA at 512
MOST_CHUNK: Final = 40
WHOLE_VOCAB: Final = 8192
DECODE_SHARE: Final = 0.6


class Checked(NamedTuple):
    """What was compared: logit rows and KV elements, and how many of each differed in any bit."""

    logit_rows: int
    kv_elements: int
    logit_rows_differing: int
    kv_elements_differing: int

    @property
    def passed(self) -> bool:
        """Whether nothing differed."""
        return self.logit_rows_differing == 0 and self.kv_elements_differing == 0


class _Run(NamedTuple):
    """Per sequence: hashes of looked-at logit rows [rows]; by layer keys and values [kv_heads, length, head_dim]."""

    logits: list[torch.Tensor]
    states: list[list[tuple[torch.Tensor, torch.Tensor]]]


def check_invariance(model: Model, block_size: int, max_model_len: int, progress: Progress) -> Checked:
    """Compare whole prefills, each alone, with random mixtures of decode steps and prefill chunks.

    Memory: pages of its own for about 2,000 tokens, and the logits of one step's looked-at rows, freed on return.
    """
    rng = np.random.default_rng(20_240_607)
    longest = min(max_model_len, ONE_LONG)
    lengths = [longest, *rng.integers(min(SHORTEST, longest), min(LONGEST, longest) + 1, SEQUENCES - 1).tolist()]
    prompts = [rng.integers(0, model.config.vocab_size, length).tolist() for length in lengths]
    bench = _Bench(model, block_size, prompts)
    progress("self-check", 0.0)
    reference = bench.run(rng, alone=True)
    totals = np.zeros(4, dtype=np.int64)
    for trial in range(TRIALS):
        totals += _compare(reference, bench.run(rng, alone=False))
        progress("self-check", (trial + 1) / TRIALS)
    return Checked(*totals.tolist())


def require_invariance(checked: Checked) -> None:
    """Refuse the name "invariant" where the check failed.

    Raises:
        RefeedError: kind "engine", with the counts.
    """
    if not checked.passed:
        message = (
            f"numerics is 'invariant', but here {checked.logit_rows_differing} of {checked.logit_rows} logit rows and "
            f" {checked.kv_elements_differing} of {checked.kv_elements} KV elements depend on the batch"
        )
        raise RefeedError("engine", message, "use numerics = 'split', one thread, bfloat16, or another machine")


class _Bench:
    """Sequences with block tables of their own, run step by step outside of any scheduler."""

    def __init__(self, model: Model, block_size: int, prompts: list[list[int]]) -> None:
        self.model = model
        self.prompts = prompts
        blocks = [-(-len(prompt) // block_size) for prompt in prompts]
        # A large vocabulary's logits are looked at where a fixed sieve of positions lets them through.
        stride = max(1, model.config.vocab_size // WHOLE_VOCAB)
        self.looked_at = [{*range(row % stride, len(one), stride), len(one) - 1} for row, one in enumerate(prompts)]
        self.pages = Pages(model.config, sum(blocks), block_size, model.dtype)
        width = model.shapes.table_width(max(len(prompt) for prompt in prompts), block_size)
        self.tables = np.full((len(prompts), width), sum(blocks), dtype=np.int64)
        for row, (count, last) in enumerate(zip(blocks, np.cumsum(blocks).tolist(), strict=True)):
            self.tables[row, :count] = np.arange(last - count, last)

    def run(self, rng: np.random.Generator, *, alone: bool) -> _Run:
        logits: list[list[torch.Tensor]] = [[] for _ in self.prompts]
        done = [0] * len(self.prompts)
        order = range(len(self.prompts))
        if alone:
            for row in order:
                self._step([Piece(row, 0, len(self.prompts[row]), False, self.prompts[row])], logits)  # noqa: FBT003
        while not alone and any(done[row] < len(self.prompts[row]) for row in order):
            self._step(self._mixture(rng, done), logits)
        return _Run([torch.stack(rows) for rows in logits], [self._states(row) for row in order])

    def _mixture(self, rng: np.random.Generator, done: list[int]) -> list[Piece]:
        open_rows = [row for row, prompt in enumerate(self.prompts) if done[row] < len(prompt)]
        size = int(rng.integers(1, len(open_rows) + 1))
        pieces = []
        for row in rng.permutation(open_rows)[:size].tolist():
            decode = bool(done[row] > 0 and rng.random() < DECODE_SHARE)
            left = len(self.prompts[row]) - done[row]
            count = 1 if decode else min(left, int(rng.integers(1, MOST_CHUNK + 1)))
            pieces.append(Piece(row, done[row], count, decode, self.prompts[row][done[row] : done[row] + count]))
            done[row] += count
        return sorted(pieces, key=lambda piece: not piece.decode)

    def _step(self, pieces: list[Piece], logits: list[list[torch.Tensor]]) -> None:
        places = [(piece.row, piece.start + offset) for piece in pieces for offset in range(piece.size)]
        wanted = [flat for flat, (row, position) in enumerate(places) if position in self.looked_at[row]]
        # A step may want nothing; its first row is then computed and dropped.
        batch = build(pieces, self.tables, self.pages, self.model.shapes, wanted or [0])
        hashes = _hash_rows(self.model.forward(batch, self.pages))
        for flat, one in zip(wanted, hashes, strict=False):
            logits[places[flat][0]].append(one)

    def _states(self, row: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        places: NDArray[np.int64] = np.arange(len(self.prompts[row]))
        size = self.pages.block_size
        slots = torch.from_numpy(self.tables[row, places // size] * size + places % size)
        return [self.pages.read(layer, slots) for layer in range(self.model.config.layers)]


def _hash_rows(logits: torch.Tensor) -> torch.Tensor:
    """64 bits of each row's bits: a random odd multiplier for each column, summed modulo 2**64."""
    weights = torch.from_numpy(np.random.default_rng(1).integers(-(2**62), 2**62, logits.shape[1]) * 2 + 1)
    return (logits.view(torch.int32).to(torch.int64) * weights).sum(-1)


def _compare(first: _Run, second: _Run) -> NDArray[np.int64]:
    rows = sum(len(part) for part in first.logits)
    rows_differing = sum(int((a != b).sum()) for a, b in zip(first.logits, second.logits, strict=True))
    pairs = [
        (one, other)
        for mine, theirs in zip(first.states, second.states, strict=True)
        for layer_mine, layer_theirs in zip(mine, theirs, strict=True)
        for one, other in zip(layer_mine, layer_theirs, strict=True)
    ]
    elements = sum(one.numel() for one, _ in pairs)
    differing = sum(int((one != other).sum()) for one, other in pairs)
    return np.array([rows, elements, rows_differing, differing], dtype=np.int64)
