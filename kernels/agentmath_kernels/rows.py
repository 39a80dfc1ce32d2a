"""Where one row of flat tokens ends and the next begins, and where earlier keys and values are kept.

- PackedRows: whole sequences end to end; gradients flow (training);
- CachedRows: a decoding step; keys and values of earlier tokens lie in a KeyValueCache.

Names in shapes: T flat tokens, Q query heads, K key/value heads (Q a multiple of K), D head size, S cache slots,
C cache positions per slot, A rows that decode one token each, R rows of one padded batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

MAX_WASTE = 0.25
"""Rows are padded together when the shortest lacks at most this share of the longest."""
MAX_MASK_ELEMENTS = 1 << 22
"""Bound on one mask of continued rows."""
MAX_PIECE_TOKENS = 512
"""Longest run of new tokens that a continued row brings into one mask."""

Ints = npt.NDArray[np.int64]
OneTokenAttention = Callable[[Tensor, Tensor, Tensor, float], Tensor]
"""(query [A, Q, D], keys [S, C, K * D], values likewise, scale) -> [A, Q * D]: one query token of each of the first A
slots. Prepared for one step; PlainOneToken is the plain one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheShape:
    """What a model asks of its cache."""

    num_layers: int
    num_key_value_heads: int
    head_dim: int
    dtype: torch.dtype
    device: torch.device


class KeyValueCache:
    """Keys and values of S slots, C positions each. Zeros until written: what a mask hides must still be finite."""

    def __init__(self, shape: CacheShape, *, num_slots: int, num_positions: int) -> None:
        self.shape, self.num_slots, self.num_positions = shape, num_slots, num_positions
        width = shape.num_key_value_heads * shape.head_dim
        # zeros() of this size are untouched pages: memory is taken as positions are written.
        self.data = torch.zeros(
            (shape.num_layers, 2, num_slots, num_positions, width), dtype=shape.dtype, device=shape.device
        )
        self._flat = [self.data[i].view(2, num_slots * num_positions, width) for i in range(shape.num_layers)]
        self._rows = [(self.data[i, 0], self.data[i, 1]) for i in range(shape.num_layers)]

    def write(self, layer: int, index: Tensor, keys: Tensor, values: Tensor) -> None:
        """Store keys and values [T, K, D] at flat positions slot * C + position, [T]."""
        flat = self._flat[layer]
        flat[0].index_copy_(0, index, keys.reshape(index.shape[0], -1))
        flat[1].index_copy_(0, index, values.reshape(index.shape[0], -1))

    def rows(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer, each [S, C, K * D]."""
        return self._rows[layer]

    def copy(self, source: int, target: int, num_positions: int) -> None:
        """Make the first positions of slot `target` those of `source`."""
        self.data[:, :, target, :num_positions] = self.data[:, :, source, :num_positions]

    def swap(self, a: int, b: int, num_positions: int) -> None:
        """Exchange the first positions of two slots."""
        kept = self.data[:, :, a, :num_positions].clone()
        self.copy(b, a, num_positions)
        self.data[:, :, b, :num_positions] = kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Padding:
    """How flat tokens become padded batches."""

    shapes: tuple[tuple[int, int], ...]
    """(rows, longest) of each batch; the cells of all batches lie end to end."""
    token_of_cell: Tensor
    """[cells] int64; a cell beyond its row's end repeats the row's last token."""
    cell_of_token: Tensor
    """[T] int64."""

    @staticmethod
    def of(buckets: Sequence[Ints], sizes: Ints, device: torch.device) -> Padding:
        """Padding of rows of `sizes` tokens, end to end; each bucket names the rows of one batch."""
        starts = np.cumsum(sizes) - sizes
        shapes: list[tuple[int, int]] = []
        tokens: list[Ints] = []
        cell_of_token = np.empty(int(sizes.sum()), dtype=np.int64)
        num_cells = 0
        for bucket in buckets:
            longest = int(sizes[bucket].max())
            column = np.arange(longest)
            real = column < sizes[bucket, None]
            token = starts[bucket, None] + np.minimum(column, sizes[bucket, None] - 1)
            cell_of_token[token[real]] = num_cells + np.flatnonzero(real)
            shapes.append((len(bucket), longest))
            tokens.append(token.ravel())
            num_cells += token.size
        return Padding(
            shapes=tuple(shapes),
            token_of_cell=torch.from_numpy(np.concatenate(tokens)).to(device),
            cell_of_token=torch.from_numpy(cell_of_token).to(device),
        )

    def batches(self, x: Tensor) -> list[Tensor]:
        """[T, ...] -> [rows, longest, ...] of each batch."""
        cells = _Pad.apply(x, self.token_of_cell, self.cell_of_token)
        parts = cells.split([r * n for r, n in self.shapes])
        return [p.view(r, n, *x.shape[1:]) for p, (r, n) in zip(parts, self.shapes, strict=True)]

    def flatten(self, batches: Sequence[Tensor]) -> Tensor:
        """[rows, longest, ...] of each batch -> [T, ...]."""
        cells = [b.flatten(0, 1) for b in batches]
        return _Unpad.apply(cells[0] if len(cells) == 1 else torch.cat(cells), self.cell_of_token)


class _Pad(torch.autograd.Function):
    """Gather whose backward is a gather too: repeated cells are never looked at, so their gradient is zero."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, token_of_cell: Tensor, cell_of_token: Tensor) -> Tensor:  # pyright: ignore
        ctx.save_for_backward(cell_of_token)
        return x.index_select(0, token_of_cell)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        (cell_of_token,) = ctx.saved_tensors
        return grad.index_select(0, cell_of_token), None, None


class _Unpad(torch.autograd.Function):
    """Gather of distinct cells; backward writes them back."""

    @staticmethod
    def forward(ctx: Any, cells: Tensor, cell_of_token: Tensor) -> Tensor:  # pyright: ignore
        ctx.save_for_backward(cell_of_token)
        ctx.num_cells = cells.shape[0]
        return cells.index_select(0, cell_of_token)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        (cell_of_token,) = ctx.saved_tensors
        return grad.new_zeros(ctx.num_cells, *grad.shape[1:]).index_copy_(0, cell_of_token, grad), None


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedRows:
    """Whole sequences laid end to end, T tokens in all."""

    lengths: tuple[int, ...]
    padding: Padding | None
    """None when all rows are equally long."""

    @staticmethod
    def of(lengths: Sequence[int], device: torch.device | str = "cpu") -> PackedRows:
        """Raises ValueError without rows or with an empty one."""
        if not lengths or min(lengths) < 1:
            raise ValueError(f"rows need at least one token each, got lengths {list(lengths)[:8]}")
        sizes = np.asarray(lengths, dtype=np.int64)
        even = sizes.min() == sizes.max()
        padding = None if even else Padding.of(buckets(sizes), sizes, torch.device(device))
        return PackedRows(lengths=tuple(map(int, lengths)), padding=padding)

    @property
    def num_positions(self) -> int:
        """Bound above every position."""
        return max(self.lengths)


def buckets(sizes: Ints) -> list[Ints]:
    """Rows, longest first, cut into batches that waste at most MAX_WASTE."""
    order = np.argsort(-sizes, kind="stable")
    out: list[Ints] = []
    begin = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or sizes[order[end]] < (1 - MAX_WASTE) * sizes[order[begin]]:
            out.append(order[begin:end])
            begin = end
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuedRows:
    """Rows whose new tokens look at cached ones, padded into one batch."""

    slots: Tensor
    """[R] int64."""
    padding: Padding
    mask: Tensor
    """[R, 1, new, context] bool, True where a query may look."""

    @staticmethod
    def of(pieces: Sequence[tuple[int, int, int]], device: torch.device) -> ContinuedRows:
        """From (slot, first position, new tokens) of rows that lie end to end."""
        slots, starts, sizes = (np.asarray(x, dtype=np.int64) for x in zip(*pieces, strict=True))
        last = starts[:, None] + np.minimum(np.arange(int(sizes.max())), sizes[:, None] - 1)
        mask = np.arange(int(last.max()) + 1) <= last[:, :, None]
        return ContinuedRows(
            slots=torch.from_numpy(slots).to(device),
            padding=Padding.of([np.arange(len(sizes))], sizes, device),
            mask=torch.from_numpy(mask[:, None]).to(device),
        )


def continued_batches(rows: Sequence[tuple[int, int, int]], device: torch.device) -> tuple[ContinuedRows, ...]:
    """Batches of (slot, first position, new tokens), in order, whose masks stay within MAX_MASK_ELEMENTS.

    All keys are written before any query looks, so one long row may be cut into several pieces.
    """
    pieces = [
        (slot, start + done, min(MAX_PIECE_TOKENS, size - done))
        for slot, start, size in rows
        for done in range(0, size, MAX_PIECE_TOKENS)
    ]
    out: list[ContinuedRows] = []
    batch: list[tuple[int, int, int]] = []
    for piece in pieces:
        grown = [*batch, piece]
        elements = len(grown) * max(n for _, _, n in grown) * max(s + n for _, s, n in grown)
        if batch and elements > MAX_MASK_ELEMENTS:
            out.append(ContinuedRows.of(batch, device))
            grown = [piece]
        batch = grown
    return (*out, ContinuedRows.of(batch, device)) if batch else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedRows:
    """One step over a cache. Flat tokens lie in this order: one of each decoding row (slots 0 to A - 1), then rows that
    start at position 0, then rows that continue."""

    cache: KeyValueCache
    write_index: Tensor
    """[T] int64: slot * C + position of every token."""
    num_decoding: int
    """A."""
    decode: OneTokenAttention
    fresh: PackedRows | None
    continued: tuple[ContinuedRows, ...]
    num_positions: int
    """Bound above every position of the step."""
