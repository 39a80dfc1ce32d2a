"""A vocabulary head whose rows are spread over ranks, and how figures of parts become figures of the whole.

Shapes: C rows of one chunk, K ranks. With z_k the log-normaliser of part k alone:

    log w_k  = z_k - log sum_j exp z_j                  w_k: share of the probability that lies in part k
    log-prob = log-prob in its own part + log w         of the part that holds the target
    entropy  = sum_k w_k (entropy_k - log w_k)

Every rank sees the same hidden states and comes to the same loss. Five numbers a row are exchanged and put together in
the order of ranks, so they do not depend on who was first. Vocabulary parallelism: Megatron-LM, section 3; normalisers
of parts put together: Online normalizer calculation for softmax, section 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from agentmath_kernels.row_operator import RowFigures, Slopes


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Which rows of the head this rank holds."""

    first_id: int
    """Vocabulary id of its first row."""
    num_ids: int
    """Rows of the whole head."""
    group: Any = None
    """torch.distributed process group of all parts; None is the default one."""

    @property
    def mean_rows(self) -> int:
        """Rows of a part, on average, rounded up: the same number on every rank."""
        return -(-self.num_ids // dist.get_world_size(self.group))

    def locate(self, targets: Tensor, num_rows: int) -> tuple[Tensor, Tensor]:
        """(row of each target in this part, 0 where it lies elsewhere; True where it lies here), each [C]."""
        row = targets - self.first_id
        here = (row >= 0) & (row < num_rows)
        return torch.where(here, row, 0), here

    def gather(self, figures: RowFigures, here: Tensor) -> Whole:
        """Figures of the whole from those of all parts; every rank of the group must call it."""
        entropy = figures.entropy if figures.entropy.numel() else torch.zeros_like(figures.logprob)
        mine = torch.stack([figures.peak, figures.log_sum, figures.logprob, entropy, here.to(figures.logprob.dtype)])
        parts = [torch.empty_like(mine) for _ in range(dist.get_world_size(self.group))]
        dist.all_gather(parts, mine, group=self.group)
        return join(torch.stack(parts), dist.get_rank(self.group))

    def sum(self, partial: Tensor) -> None:
        """Add up over all ranks, in place."""
        dist.all_reduce(partial, group=self.group)


class Whole(NamedTuple):
    """Of the rows of one chunk, each [C]."""

    logprob: Tensor
    entropy: Tensor
    log_share: Tensor
    """log w of this rank's part."""


def join(parts: Tensor, rank: int) -> Whole:
    """Figures of the whole from [K, 5, C] figures of parts: peak, log_sum, log-prob, entropy, 1 where the target is.

    A part whose row holds NaN makes the row's figures NaN on every rank.
    """
    peak, log_sum, logprob, entropy, here = parts.unbind(1)
    # Peaks are taken off before anything is added: sums of large peaks and small logarithms lose digits.
    relative = (peak - peak.amax(0)) + log_sum
    log_share = relative - relative.logsumexp(0)
    of_target = torch.where(here > 0, logprob + log_share, 0).sum(0) + 0 * log_share.sum(0)
    total = (log_share.exp() * (entropy - log_share)).sum(0)
    return Whole(of_target, total, log_share[rank])


class Part(NamedTuple):
    """What a part of the head knows of the whole, for the rows of one chunk."""

    whole: Whole
    here: Tensor
    """[C] True where the target lies in this part."""

    def slopes(self, slopes: Slopes, own: RowFigures) -> tuple[Slopes, Tensor]:
        """Slopes for the row operator of this part, and what is still to be added at each target, [C].

        The operator knows the part's own p = softmax(x); the whole's is w p. So the gradient by logits,
        a (onehot - w p) - b w p (log p + log w + entropy), is the operator's formula with slopes a w and b w and with
        the entropy raised by log w, which is written into `own`, but for the onehot: it gets a where the target lies
        here and nothing elsewhere.
        """
        share = self.whole.log_share.exp().nan_to_num(0.0)
        by_logprob, by_entropy = slopes.by_logprob * share, None
        if slopes.by_entropy is not None:
            by_entropy = slopes.by_entropy * share
            own.entropy.copy_(self.whole.entropy + self.whole.log_share)
        return Slopes(by_logprob, by_entropy), torch.where(self.here, slopes.by_logprob, 0) - by_logprob
