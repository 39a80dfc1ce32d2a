"""One forward pass of the embedded engine: which tokens are fed, where they lie, and what comes out.

A pass feeds the newest token of every decoding row and, within a budget, tokens of contexts that are not cached yet.
Names in shapes: A decoding rows, T tokens of the pass, H hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from agentmath.engines.requests import Request
from agentmath.engines.rows import Rows
from agentmath_kernels.rows import (
    CachedRows,
    CacheShape,
    KeyValueCache,
    OneTokenAttention,
    PackedRows,
    continued_batches,
)

Longs = npt.NDArray[np.int64]
Forward = Callable[[Tensor, Tensor, CachedRows], Tensor]
"""(ids [T], positions [T], rows) -> hidden [T, H]."""
PrepareOneToken = Callable[[Longs, CacheShape], OneTokenAttention]
"""(context lengths [A], shape) -> attention of the decoding rows, for one pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Part of a context that one pass adds to the cache."""

    request: Request
    ids: npt.NDArray[np.int32]
    start: int
    """Position of its first token."""
    is_last: bool
    """Whether the next token can be sampled after it."""


def next_chunks(waiting: Sequence[Request], budget: int) -> list[Chunk]:
    """Chunks of contexts, first come first served, of at most `budget` tokens together; whole contexts first."""
    chunks: list[Chunk] = []
    for request in waiting:
        if budget <= 0:
            break
        feed, start = request.feed, request.session.num_cached
        stop = min(len(feed), start + budget)
        budget -= stop - start
        chunks.append(Chunk(request=request, ids=feed[start:stop], start=start, is_last=stop == len(feed)))
    return sorted(chunks, key=lambda c: c.start > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """Tokens of a pass on the host."""

    ids: Longs
    positions: Longs
    slots: Longs
    num_decoding: int
    chunks: Sequence[Chunk]

    @staticmethod
    def of(rows: Rows, chunks: Sequence[Chunk]) -> Pass:
        size = rows.size
        ids, positions, slots = [rows.token[:size]], [rows.position[:size]], [np.arange(size)]
        for chunk in chunks:
            assert chunk.request.session.slot is not None
            ids.append(chunk.ids.astype(np.int64))
            positions.append(np.arange(chunk.start, chunk.start + len(chunk.ids)))
            slots.append(np.full(len(chunk.ids), chunk.request.session.slot))
        return Pass(
            ids=np.concatenate(ids),
            positions=np.concatenate(positions),
            slots=np.concatenate(slots),
            num_decoding=size,
            chunks=chunks,
        )

    def cached_rows(self, cache: KeyValueCache, prepare: PrepareOneToken) -> CachedRows:
        """The record that the attention reads."""
        device = cache.shape.device
        fresh = [len(c.ids) for c in self.chunks if c.start == 0]
        continued = [(c.request.session.slot or 0, c.start, len(c.ids)) for c in self.chunks if c.start > 0]
        contexts = self.positions[: self.num_decoding] + 1
        return CachedRows(
            cache=cache,
            write_index=torch.from_numpy(self.slots * cache.num_positions + self.positions).to(device),
            num_decoding=self.num_decoding,
            decode=prepare(contexts, cache.shape) if self.num_decoding else _nothing_to_decode,
            fresh=PackedRows.of(fresh, device) if fresh else None,
            continued=continued_batches(continued, device),
            num_positions=int(self.positions.max()) + 1,
        )

    def run(self, forward: Forward, cache: KeyValueCache, prepare: PrepareOneToken) -> tuple[Tensor, list[Request]]:
        """Hidden states [A + L, H] of the decoding rows and then of the L contexts that are complete, and those L."""
        device = cache.shape.device
        ids, positions = (torch.from_numpy(x).to(device) for x in (self.ids, self.positions))
        hidden = forward(ids, positions, self.cached_rows(cache, prepare))
        ends = self.num_decoding + np.cumsum([len(c.ids) for c in self.chunks], dtype=np.int64) - 1
        last = [i for i, c in enumerate(self.chunks) if c.is_last]
        if len(self.chunks):
            index = np.concatenate([np.arange(self.num_decoding), ends[last]])
            hidden = hidden.index_select(0, torch.from_numpy(index).to(device))
        return hidden, [self.chunks[i].request for i in last]


def _nothing_to_decode(query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    raise AssertionError("no row decodes in this pass")
