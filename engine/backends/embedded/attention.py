"""The two attention kernels, on gathered pages.

Query heads of one KV head are rows of one matrix product, so keys are never repeated. `own_decode` rounds scores to the
model's dtype before an fp32 softmax; `tiles` is torch's scaled_dot_product_attention, which keeps scores in fp32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from engine.backends.embedded.batch import Group
    from engine.backends.embedded.pages import Pages


def own_decode(queries: torch.Tensor, pages: Pages, layer: int, group: Group, out: torch.Tensor) -> None:
    """One query token per entry, batched products over (entry, KV head).

    Args:
        queries: [rows, heads, head_dim], rotated.
        pages: keys and values.
        layer: which.
        group: the entries.
        out: [rows, heads * head_dim]; the group's rows are written.
    """
    picked = _pick(queries, group)
    entries, heads, head_dim = picked.shape
    keys, values = pages.gather(layer, group.gather, entries * pages.kv_heads)
    grouped = picked.view(entries * pages.kv_heads, heads // pages.kv_heads, head_dim)
    scores = torch.bmm(grouped, keys.transpose(1, 2)).view(entries, heads, group.length)
    weights = torch.softmax(torch.add(group.mask, scores, alpha=head_dim**-0.5), -1).to(queries.dtype)
    mixed = torch.bmm(weights.view(entries * pages.kv_heads, -1, group.length), values)
    _put(out, group, mixed.view(entries, heads * head_dim))


def tiles(queries: torch.Tensor, pages: Pages, layer: int, group: Group, out: torch.Tensor) -> None:
    """Up to `group.width` query tokens per entry through SDPA; arguments as in `own_decode`."""
    heads, head_dim = queries.shape[1:]
    m, width, kv_heads = group.entries, group.width, pages.kv_heads
    keys, values = pages.gather(layer, group.gather, m * kv_heads)
    size = (m, kv_heads, -1, head_dim)
    keys, values = keys.view(size)[:, :, : group.length], values.view(size)[:, :, : group.length]
    share = heads // kv_heads
    rows = width * share
    grouped = _pick(queries, group).view(m, width, kv_heads, share, head_dim).transpose(1, 2)
    grouped = grouped.reshape(m, kv_heads, rows, head_dim)
    mask = group.mask.repeat_interleave(share, dim=2) if share > 1 and width > 1 else group.mask
    padding = -rows % group.row_multiple
    if padding > 0:
        grouped = functional.pad(grouped, (0, 0, 0, padding))
        mask = functional.pad(mask.expand(-1, -1, rows, -1), (0, 0, 0, padding))
    if m * kv_heads == 1 and group.row_multiple > 1:
        # A single entry would run outside of torch's parallel region, where the products may be split differently.
        grouped, keys, values, mask = (one.expand(2, *one.shape[1:]) for one in (grouped, keys, values, mask))
    mixed = functional.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask)
    flat = mixed[:m, :, :rows].reshape(m, kv_heads, width, share, head_dim).transpose(1, 2)
    _put(out, group, flat.reshape(m * width, heads * head_dim))


def _pick(queries: torch.Tensor, group: Group) -> torch.Tensor:
    if group.contiguous >= 0:
        return queries[group.contiguous : group.contiguous + len(group.queries)]
    return queries.index_select(0, group.queries)


def _put(out: torch.Tensor, group: Group, mixed: torch.Tensor) -> None:
    if group.contiguous >= 0 and group.sources is None:
        out[group.contiguous : group.contiguous + len(group.queries)] = mixed
        return
    out.index_copy_(0, group.targets, mixed if group.sources is None else mixed.index_select(0, group.sources))
