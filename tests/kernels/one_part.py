"""One process of several that each hold a part of the vocabulary head: prints what it comes to.

    python tests/kernels/one_part.py FILE RANK NUM_RANKS DTYPE

FILE is where the processes meet. With one rank the head is whole and nothing is exchanged. Parts differ in size.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from agentmath_kernels import Clip, Correction, Gspo, Kl, policy_loss, token_logprobs
from agentmath_kernels.head import Options, Rows, head_logprobs
from agentmath_kernels.vocabulary import Shard
from loss_cases import case

VOCAB = 37
CUTS = {1: (0, VOCAB), 2: (0, 29, VOCAB), 3: (0, 1, 20, VOCAB)}
"""First id of each part, by number of ranks; then the end."""
CALLS: dict[str, dict[str, Any]] = {
    "clip": {"surrogate": Clip(low=0.2, high=0.28, dual=10.0), "correction": Correction(high=2.0), "temperature": 0.7},
    "entropy": {"surrogate": Clip(), "correction": Correction(), "entropy_coef": 0.4, "on_policy": True},
    "gspo": {"surrogate": Gspo(low=0.05, high=0.05), "correction": Correction(name="none")},
    "kl": {"surrogate": Clip(), "correction": Correction(), "kl": Kl(estimate="k3", coef=0.3), "on_policy": True},
}


def inputs(dtype: torch.dtype) -> dict[str, Any]:
    """A case with far logits, one broken row of hidden states, and targets in every part."""
    c = case(5, tokens=24, vocab=VOCAB, dtype=dtype)
    c["hidden"][:8] *= 20
    c["hidden"][11, 2] = torch.nan
    c["targets"][:4] = torch.tensor([0, 28, 29, 36])
    c["mask"][:12] = True
    return c


def losses(c: dict[str, Any], own: slice, shard: Shard | None) -> dict[str, Any]:
    found = {}
    for name, options in CALLS.items():
        hidden, weight = c["hidden"].clone().requires_grad_(), c["weight"][own].clone().requires_grad_()
        rest = {k: c[k] for k in ("advantages", "behaviour_logprobs", "proximal_logprobs")}
        if options.get("on_policy"):
            rest.pop("proximal_logprobs")
        out = policy_loss(
            hidden,
            weight,
            c["targets"],
            c["mask"],
            num_trainable_tokens=9,
            sequences=torch.arange(24) // 6,
            reference_logprobs=c["proximal_logprobs"],
            chunk_bytes=5 * 29 * 8,
            shard=shard,
            **rest,
            **options,
        )
        (2 * out.loss).backward()
        assert hidden.grad is not None
        assert weight.grad is not None
        found[name] = {
            "loss": out.loss.tolist(),
            "rows": [out.num_rows, out.num_nonfinite],
            "entropy": out.entropy.nan_to_num(-1).tolist(),
            "hidden": hidden.grad.tolist(),
            "weight": weight.grad.tolist(),
        }
    return found


def recomputed(c: dict[str, Any], own: slice, shard: Shard | None) -> dict[str, Any]:
    hidden, weight = c["hidden"].clone().requires_grad_(), c["weight"][own].clone().requires_grad_()
    options = Options(temperature=1.3, chunk_bytes=5 * 29 * 8, shard=shard)
    rows = Rows.select(hidden, weight, c["targets"], c["mask"], options)
    logprobs, entropy = head_logprobs(hidden, weight, rows, want_entropy=True)
    kept = logprobs.isfinite()
    (logprobs[kept].sum() + 0.3 * entropy[kept].square().sum()).backward()
    assert hidden.grad is not None
    assert weight.grad is not None
    plain = token_logprobs(c["hidden"], c["weight"][own], c["targets"], temperature=1.3, shard=shard)
    return {
        "logprobs": logprobs.detach().nan_to_num(-1).tolist(),
        "plain": plain.nan_to_num(-1).tolist(),
        "hidden": hidden.grad.tolist(),
        "weight": weight.grad.tolist(),
    }


def main() -> None:
    file, rank, num_ranks, dtype = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), getattr(torch, sys.argv[4])
    dist.init_process_group(
        "gloo", init_method=f"file://{file}", rank=rank, world_size=num_ranks, timeout=timedelta(seconds=60)
    )
    own = slice(*CUTS[num_ranks][rank : rank + 2])
    shard = None if num_ranks == 1 else Shard(first_id=own.start, num_ids=VOCAB)
    c = inputs(dtype)
    print(json.dumps({**losses(c, own, shard), "recomputed": recomputed(c, own, shard)}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
