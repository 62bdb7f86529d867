"""KV pages: a row per block and KV head, so that one index_select gathers keys in the layout that kernels want."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from engine.backends.embedded.config import ModelConfig


class Pages:
    """Keys and values of every block of every layer.

    Block `num_blocks`, one more than the ledger has, is the null block: padding reads it, and it stays zero.

    Shapes: `keys`, `values` [layers][kv_heads * (num_blocks + 1), block_size * head_dim].
    """

    def __init__(self, config: ModelConfig, num_blocks: int, block_size: int, dtype: torch.dtype) -> None:
        """Allocate zeroed pages: padding is multiplied by 0, which would not silence a NaN."""
        self.blocks = num_blocks + 1
        self.block_size = block_size
        self.kv_heads = config.kv_heads
        self.head_dim = config.head_dim
        self.share = config.heads // config.kv_heads
        shape = (config.kv_heads * self.blocks, block_size * config.head_dim)
        self.keys = [torch.zeros(shape, dtype=dtype) for _ in range(config.layers)]
        self.values = [torch.zeros(shape, dtype=dtype) for _ in range(config.layers)]
        self._head_offsets = (torch.arange(config.kv_heads) * self.blocks)[:, None]
        self._work = (torch.empty(0, dtype=dtype), torch.empty(0, dtype=dtype))

    @staticmethod
    def block_bytes(config: ModelConfig, block_size: int, dtype: torch.dtype) -> int:
        """Bytes of one block over all layers, keys and values."""
        return 2 * config.layers * config.kv_heads * block_size * config.head_dim * dtype.itemsize

    def write(self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Write tokens' keys and values [n, kv_heads, head_dim] to slots [n] (block * block_size + offset)."""
        shape = (self.kv_heads, self.blocks * self.block_size, self.head_dim)
        self.keys[layer].view(shape).index_copy_(1, slots, keys.transpose(0, 1))
        self.values[layer].view(shape).index_copy_(1, slots, values.transpose(0, 1))

    def index(self, tables: torch.Tensor) -> torch.Tensor:
        """Rows of the pages for block tables [m, blocks], in the order (sequence, KV head, block)."""
        return (tables[:, None, :] + self._head_offsets).reshape(-1)

    def gather(self, layer: int, index: torch.Tensor, entries: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values [entries, length, head_dim] at `index`, valid until the next gather."""
        rows = index.shape[0]
        if self._work[0].numel() < rows * self.block_size * self.head_dim:
            size, dtype = rows * self.block_size * self.head_dim, self.keys[0].dtype
            self._work = (torch.empty(size, dtype=dtype), torch.empty(size, dtype=dtype))
        keys, values = (
            torch.index_select(pages[layer], 0, index, out=work[: rows * pages[layer].shape[1]].view(rows, -1))
            for pages, work in zip((self.keys, self.values), self._work, strict=True)
        )
        return keys.view(entries, -1, self.head_dim), values.view(entries, -1, self.head_dim)

    def read(self, layer: int, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Copies of keys and values [kv_heads, n, head_dim] at slots [n]."""
        shape = (self.kv_heads, self.blocks * self.block_size, self.head_dim)
        return self.keys[layer].view(shape)[:, slots], self.values[layer].view(shape)[:, slots]
