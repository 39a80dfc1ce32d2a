"""Rows that go on from a common beginning: the samples of one prompt, whose prompt is computed once.

A root is a whole sequence or a common beginning; a branch goes on from its root and sees all of it. The gradient of
a root's keys and values is the sum over its branches, so the numbers are those of whole sequences, at
prompt + samples x answer tokens instead of samples x (prompt + answer).

Names in shapes: T flat tokens, R branches of one padded batch, P longest root of a batch, N longest branch of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from agentmath_kernels.rows import Ints, PackedRows, Padding, buckets

NO_PARENT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchBatch:
    """What branches of similar length look at."""

    root_tokens: Tensor
    """[R * P] int64: flat tokens of each branch's root; a shorter root repeats its last token, hidden by the mask."""
    mask: Tensor
    """[R, 1, N, P + N] bool: True where a query may look, first at the root, then at the branch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchedRows:
    """Roots laid end to end, then branches laid end to end, T tokens in all."""

    roots: PackedRows
    padding: Padding
    """Of the branches, one padded batch for each entry of batches."""
    batches: tuple[BranchBatch, ...]
    num_positions: int
    """Bound above every position."""

    @staticmethod
    def of(lengths: Sequence[int], parents: Sequence[int], device: torch.device | str = "cpu") -> BranchedRows:
        """From the lengths of rows and the row each goes on from, NO_PARENT for roots, which come first.

        Raises ValueError for an empty row, a root behind a branch, or a parent that is no root.
        """
        sizes, above = np.asarray(lengths, dtype=np.int64), np.asarray(parents, dtype=np.int64)
        num_roots = int((above == NO_PARENT).sum())
        if sizes.min(initial=1) < 1 or (above[:num_roots] != NO_PARENT).any() or (above[num_roots:] >= num_roots).any():
            raise ValueError(
                f"rows of lengths {list(lengths)[:8]} with parents {list(parents)[:8]} are no roots-first tree"
            )
        place = torch.device(device)
        starts = np.cumsum(sizes) - sizes
        own, root = sizes[num_roots:], above[num_roots:]
        groups = buckets(own)
        return BranchedRows(
            roots=PackedRows.of(sizes[:num_roots].tolist(), place),
            padding=Padding.of(groups, own, place),
            batches=tuple(_batch(starts[root[g]], sizes[root[g]], own[g], place) for g in groups),
            num_positions=int(max(sizes.max(), (sizes[root] + own).max())),
        )

    @property
    def num_root_tokens(self) -> int:
        return sum(self.roots.lengths)


def _batch(starts: Ints, roots: Ints, own: Ints, device: torch.device) -> BranchBatch:
    column, query = np.arange(int(roots.max())), np.arange(int(own.max()))
    tokens = starts[:, None] + np.minimum(column, roots[:, None] - 1)
    sees_root = np.broadcast_to((column < roots[:, None])[:, None, :], (len(own), len(query), len(column)))
    sees_own = np.broadcast_to(query[:, None] >= query, (len(own), len(query), len(query)))
    mask = np.concatenate([sees_root, sees_own], axis=2)[:, None]
    return BranchBatch(root_tokens=torch.from_numpy(tokens.ravel()).to(device), mask=torch.from_numpy(mask).to(device))
