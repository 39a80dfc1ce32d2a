"""One process of several that share a step: prints the gradient that all of them come to together.

    python tests/kernels/one_rank.py FILE RANK NUM_RANKS

FILE is where the processes meet. Every rank takes its own sequences; only counts and gradients are exchanged.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from agentmath.algorithms.losses import count, sample_weights
from agentmath.config.algorithm import Aggregation
from agentmath_kernels import Clip, Correction, policy_loss

LENGTHS = (5, 1, 7, 3)
"""Sampled tokens of each sequence."""


def gradient(rank: int, num_ranks: int, aggregation: Aggregation) -> Tensor:
    """d loss / d head [V, D] of the whole step, from the sequences of this rank and what the others send."""
    g = torch.Generator().manual_seed(0)
    total = sum(LENGTHS)
    hidden, weight = (torch.randn(rows, 4, generator=g, dtype=torch.float64) for rows in (total, 11))
    targets = torch.randint(11, (total,), generator=g)
    behaviour, advantages = torch.randn(total, generator=g) * 0.1 - 2.4, torch.randn(len(LENGTHS), generator=g)
    sequence = torch.repeat_interleave(torch.arange(len(LENGTHS)), torch.tensor(LENGTHS))
    totals = count(LENGTHS, ["a", "a", "b", "b"])
    mine = [s for s in range(len(LENGTHS)) if s % num_ranks == rank]
    weights = torch.zeros(len(LENGTHS), dtype=torch.float64)
    prompts = ["ab"[s // 2] for s in mine]
    weights[mine] = torch.from_numpy(sample_weights(aggregation, [LENGTHS[s] for s in mine], prompts, totals))
    tokens = torch.isin(sequence, torch.tensor(mine))
    weight.requires_grad_()
    policy_loss(
        hidden,
        weight,
        targets,
        tokens,
        advantages=advantages[sequence],
        behaviour_logprobs=behaviour,
        num_trainable_tokens=totals.num_trainable_tokens,
        surrogate=Clip(low=0.2, high=0.28, dual=10.0),
        correction=Correction(name="none"),
        row_weights=weights[sequence],
    ).loss.backward()
    assert weight.grad is not None
    return weight.grad


def main() -> None:
    file, rank, num_ranks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    dist.init_process_group(
        "gloo", init_method=f"file://{file}", rank=rank, world_size=num_ranks, timeout=timedelta(seconds=60)
    )
    found = {}
    modes: tuple[Aggregation, ...] = ("token-mean", "seq-mean-token-mean", "prompt-token-mean")
    for aggregation in modes:
        grad = gradient(rank, num_ranks, aggregation)
        dist.all_reduce(grad)
        found[aggregation] = grad.tolist()
    dist.destroy_process_group()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
