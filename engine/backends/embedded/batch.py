"""One step's work as arrays: flat tokens for the linears, padded groups for attention.

Decode tokens come first, then the chunks of prefill. Everything that layers share (gather indices, masks) is made
once here. Group boundaries follow from lengths alone and bound the workspace.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from engine.backends.embedded.numerics import Shapes
    from engine.backends.embedded.pages import Pages

GROUP_BYTES: Final = 32 * 2**20  # gathered keys and values, or mask, of one attention call


class Piece(NamedTuple):
    """`size` tokens of one sequence from index `start`: its table row, in decode or in prefill."""

    row: int
    start: int
    size: int
    decode: bool
    tokens: Sequence[int]


class Group(NamedTuple):
    """Entries of one attention call.

    Shapes: m entries of up to q query tokens, `length` keys.
        queries   int64 [m * q], flat rows; padding repeats the entry's first row
        targets   int64 [tokens], flat rows that the outputs belong to
        sources   int64 [tokens] places in [m * q] of these outputs; None when all are in order
        gather    int64, rows of the pages
        mask      additive: fp32 [m, 1, length] for the decode kernel, else model dtype [m, 1, q, length]
        contiguous  first flat row when the queries are consecutive rows, else -1
        row_multiple  query rows of SDPA are padded to a multiple of it
    """

    entries: int
    width: int
    length: int
    queries: torch.Tensor
    targets: torch.Tensor
    sources: torch.Tensor | None
    gather: torch.Tensor
    mask: torch.Tensor
    contiguous: int
    row_multiple: int


class Batch(NamedTuple):
    """A step for the model.

    Shapes: n real tokens, R >= n rows.
        tokens, positions  int64 [R]
        slots              int64 [n], where keys and values go
        decode, prefill    attention groups; `decode` ones run the kernel of their own
        wanted             int64 [s], rows whose logits are wanted, padded to the row multiple
        wanted_count       how many of them are real
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    decode: tuple[Group, ...]
    prefill: tuple[Group, ...]
    wanted: torch.Tensor
    wanted_count: int


class _Entries(NamedTuple):
    """Attention entries before grouping, each [m]: table row, first position, tokens, first flat row."""

    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    counts: NDArray[np.int64]
    flats: NDArray[np.int64]

    def pick(self, order: NDArray[np.int64]) -> _Entries:
        return _Entries(*(column[order] for column in self))


class _Layout(NamedTuple):
    """Where keys are and how shapes are padded."""

    tables: NDArray[np.int64]
    pages: Pages
    shapes: Shapes


def build(
    pieces: Sequence[Piece],
    tables: NDArray[np.int64],
    pages: Pages,
    shapes: Shapes,
    wanted: Sequence[int] | None = None,
) -> Batch:
    """Arrays of a step.

    Args:
        pieces: the step's work, decode first.
        tables: int64 [rows, width] block tables, padded with the null block.
        pages: whose geometry and dtype are used.
        shapes: the numerics mode's paddings.
        wanted: flat rows whose logits are wanted; by default each piece's last.
    """
    rows = np.array([piece.row for piece in pieces], dtype=np.int64)
    starts = np.array([piece.start for piece in pieces], dtype=np.int64)
    counts = np.array([piece.size for piece in pieces], dtype=np.int64)
    ends = np.cumsum(counts)
    flats = ends - counts
    total = int(ends[-1])
    owner = np.repeat(np.arange(len(pieces)), counts)
    positions = np.arange(total) - flats[owner] + starts[owner]
    slots = tables[rows[owner], positions // pages.block_size] * pages.block_size + positions % pages.block_size
    tokens = np.fromiter((token for piece in pieces for token in piece.tokens), dtype=np.int64, count=total)
    decoded = sum(piece.decode for piece in pieces)
    entries, layout = _Entries(rows, starts, counts, flats), _Layout(tables, pages, shapes)
    decode, prefill = entries.pick(np.arange(decoded)), entries.pick(np.arange(decoded, len(pieces)))
    rows_wanted = ends - 1 if wanted is None else np.array(wanted, dtype=np.int64)
    tile = shapes.tile_of(pages.share)
    padded = _round_up(total, shapes.row_multiple)
    return Batch(
        tokens=_padded(tokens, padded),
        positions=_padded(positions, padded),
        slots=torch.from_numpy(slots),
        decode=tuple(_groups(decode, 1, layout)) if shapes.own_decode else (),
        prefill=(
            *(() if shapes.own_decode else _groups(decode, 1, layout)),
            *_groups(_tiles(prefill, tile), tile, layout),
        ),
        wanted=_padded(rows_wanted, _round_up(len(rows_wanted), shapes.row_multiple)),
        wanted_count=len(rows_wanted),
    )


def _tiles(entries: _Entries, tile: int) -> _Entries:
    """Cut chunks into entries of at most `tile` query tokens, at positions that `tile` divides.

    So the padded KV length of a query follows from its position, however its prompt was cut into chunks.
    """
    first = entries.starts // tile
    pieces = (entries.starts + entries.counts - 1) // tile - first + 1
    owner = np.repeat(np.arange(len(pieces)), pieces)
    number = np.arange(len(owner)) - (np.cumsum(pieces) - pieces)[owner] + first[owner]
    starts = np.maximum(number * tile, entries.starts[owner])
    ends = np.minimum((number + 1) * tile, (entries.starts + entries.counts)[owner])
    return _Entries(entries.rows[owner], starts, ends - starts, entries.flats[owner] + starts - entries.starts[owner])


def _groups(entries: _Entries, tile: int, layout: _Layout) -> Iterator[Group]:
    """Groups of entries of one padded length; in natural mode all together, at their own shapes."""
    if len(entries.rows) == 0:
        return
    natural = layout.shapes.mode == "natural"
    lengths = layout.shapes.padded_lengths(entries.starts + entries.counts, layout.pages.block_size)
    parts = [np.arange(len(lengths))] if natural else [np.flatnonzero(lengths == one) for one in np.unique(lengths)]
    per_key = (2 * layout.pages.kv_heads * layout.pages.head_dim + tile) * layout.pages.keys[0].dtype.itemsize
    for part in parts:
        length = int(lengths[part].max())
        most = max(1, GROUP_BYTES // (per_key * length))
        for begin in range(0, len(part), most):
            chosen = entries.pick(part[begin : begin + most])
            yield _group(chosen, int(chosen.counts.max()) if natural else tile, length, layout)


def _group(entries: _Entries, width: int, length: int, layout: _Layout) -> Group:
    tables, pages, shapes = layout
    own = shapes.own_decode and width == 1  # tiles of prefill are wider wherever decode has its own kernel
    offsets = np.arange(width)
    real = offsets < entries.counts[:, None]
    inside = np.where(real, offsets, 0)
    queries = (entries.flats[:, None] + inside).reshape(-1)
    visible = torch.from_numpy((entries.starts[:, None] + inside)[:, None, :, None]) >= torch.arange(length)
    dtype = torch.float32 if own else pages.keys[0].dtype
    mask = torch.zeros(visible.shape, dtype=dtype).masked_fill_(~visible, -math.inf)
    blocks = -(-length // pages.block_size)
    sources = np.flatnonzero(real)
    consecutive = bool(np.all(np.diff(queries) == 1))
    return Group(
        entries=len(entries.rows),
        width=width,
        length=length,
        queries=torch.from_numpy(queries),
        targets=torch.from_numpy(queries[sources]),
        sources=None if len(sources) == len(queries) else torch.from_numpy(sources),
        gather=pages.index(torch.from_numpy(tables[entries.rows, :blocks])),
        mask=mask[:, 0] if own else mask,
        contiguous=int(queries[0]) if consecutive else -1,
        row_multiple=shapes.row_multiple,
    )


def _padded(values: NDArray[np.int64], size: int) -> torch.Tensor:
    out = np.zeros(size, dtype=np.int64)
    out[: len(values)] = values
    return torch.from_numpy(out)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
