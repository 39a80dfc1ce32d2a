"""Attention over rows of different lengths; everything else in a model sees flat tokens and no padding.

Names in shapes: T flat tokens, Q query heads, K key/value heads (Q a multiple of K), D head size, S cache slots,
C cache positions per slot, A rows that decode one token each, R rows of one padded batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from agentmath_kernels.branches import BranchedRows
from agentmath_kernels.rows import CachedRows, CacheShape, ContinuedRows, Ints, PackedRows

MAX_JOINT_WIDTH = 64
"""Up to this K * D all heads of a row go through one matrix product with zeros off the diagonal: the number of small
products costs a CPU more than the added arithmetic."""


def ragged_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    rows: PackedRows | BranchedRows | CachedRows,
    *,
    layer: int,
    scale: float,
) -> Tensor:
    """Causal attention within each row. query [T, Q, D], key and value [T, K, D] -> [T, Q * D].

    With CachedRows the keys and values are stored first, then looked at together with what the cache holds.
    """
    if isinstance(rows, PackedRows):
        return _packed(query, key, value, rows, scale)
    if isinstance(rows, BranchedRows):
        return _branched(query, key, value, rows, scale)
    rows.cache.write(layer, rows.write_index, key, value)
    begin = rows.num_decoding
    parts: list[Tensor] = []
    if begin:
        parts.append(rows.decode(query[:begin], *rows.cache.rows(layer), scale))
    if rows.fresh is not None:
        end = begin + sum(rows.fresh.lengths)
        parts.append(_packed(query[begin:end], key[begin:end], value[begin:end], rows.fresh, scale))
        begin = end
    for batch in rows.continued:
        end = begin + batch.padding.cell_of_token.shape[0]
        parts.append(_continue(query[begin:end], batch, rows.cache.rows(layer), scale))
        begin = end
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _packed(query: Tensor, key: Tensor, value: Tensor, rows: PackedRows, scale: float) -> Tensor:
    num_tokens = query.shape[0]
    if rows.padding is None:
        shape = (len(rows.lengths), rows.lengths[0])
        out = _causal(query.unflatten(0, shape), key.unflatten(0, shape), value.unflatten(0, shape), scale)
        return out.reshape(num_tokens, -1)
    pad = rows.padding.batches
    batches = zip(pad(query), pad(key), pad(value), strict=True)
    return rows.padding.flatten([_causal(q, k, v, scale) for q, k, v in batches]).view(num_tokens, -1)


def _causal(query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    """[R, n, heads, D] each -> [R, n, Q, D]."""
    q, k, v = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    out = functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=True)
    return out.transpose(1, 2)


def _branched(query: Tensor, key: Tensor, value: Tensor, rows: BranchedRows, scale: float) -> Tensor:
    cut, tail = rows.num_root_tokens, query.shape[0] - rows.num_root_tokens
    roots = _packed(query[:cut], key[:cut], value[:cut], rows.roots, scale)
    pad = rows.padding.batches
    parts: list[Tensor] = []
    for batch, q, k, v in zip(rows.batches, pad(query[cut:]), pad(key[cut:]), pad(value[cut:]), strict=True):
        keys, values = (
            torch.cat((x.index_select(0, batch.root_tokens).view(q.shape[0], -1, *x.shape[1:]), own), dim=1)
            for x, own in ((key, k), (value, v))
        )
        out = functional.scaled_dot_product_attention(
            q.transpose(1, 2),
            keys.transpose(1, 2),
            values.transpose(1, 2),
            attn_mask=batch.mask,
            scale=scale,
            enable_gqa=True,
        )
        parts.append(out.transpose(1, 2))
    return torch.cat((roots, rows.padding.flatten(parts).view(tail, -1)))


def _continue(query: Tensor, batch: ContinuedRows, cached: tuple[Tensor, Tensor], scale: float) -> Tensor:
    context, dim = batch.mask.shape[-1], query.shape[-1]
    (padded,) = batch.padding.batches(query)
    keys, values = (
        x[:, :context].index_select(0, batch.slots).unflatten(-1, (-1, dim)).transpose(1, 2) for x in cached
    )
    out = functional.scaled_dot_product_attention(
        padded.transpose(1, 2), keys, values, attn_mask=batch.mask, scale=scale, enable_gqa=True
    )
    return batch.padding.flatten([out.transpose(1, 2)]).view(query.shape[0], -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainOneToken:
    """OneTokenAttention in plain torch."""

    bias: Tensor
    """[A, 1, span]: 0 where a row has a token, -inf elsewhere."""

    @staticmethod
    def of(contexts: Ints, shape: CacheShape) -> PlainOneToken:
        """contexts [A]: positions each row looks at, its new token included."""
        bias = np.where(np.arange(contexts.max()) < contexts[:, None], np.float32(0), np.float32(-np.inf))
        return PlainOneToken(bias=torch.from_numpy(bias[:, None]).to(shape.device, shape.dtype))

    def __call__(self, query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
        num_rows, dim = query.shape[0], query.shape[-1]
        num_key_heads, span = keys.shape[-1] // dim, self.bias.shape[-1]
        # Keys are never repeated: the query heads of a key head are treated as that many query tokens.
        grouped = query.view(num_rows, num_key_heads, -1, dim)
        keys, values = keys[:num_rows, :span], values[:num_rows, :span]
        if num_key_heads * dim <= MAX_JOINT_WIDTH and query.device.type == "cpu":
            return _joint(grouped, keys, values, self.bias, scale)
        k, v = (x.unflatten(-1, (num_key_heads, dim)).transpose(1, 2) for x in (keys, values))
        mask = self.bias[:, None]
        return functional.scaled_dot_product_attention(grouped, k, v, attn_mask=mask, scale=scale).reshape(num_rows, -1)


def _joint(grouped: Tensor, keys: Tensor, values: Tensor, bias: Tensor, scale: float) -> Tensor:
    num_rows, num_key_heads, group, dim = grouped.shape
    eye = torch.eye(num_key_heads, dtype=grouped.dtype).view(1, num_key_heads, 1, num_key_heads, 1)
    spread = (grouped.unsqueeze(3) * eye).view(num_rows, num_key_heads * group, -1)
    scores = torch.baddbmm(bias, spread, keys.transpose(1, 2), alpha=scale)
    mixed = torch.bmm(torch.softmax(scores, -1), values).view(num_rows, num_key_heads, group, num_key_heads, dim)
    return mixed.diagonal(dim1=1, dim2=3).permute(0, 3, 1, 2).reshape(num_rows, -1)
