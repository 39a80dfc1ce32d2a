"""From the trainer's weights to an engine's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from agentmath.core.interfaces import RolloutEngine


class PublishedPolicy(Protocol):
    """What publishing needs of a policy."""

    version: int

    def named_parameters(self) -> Iterable[tuple[str, Tensor]]: ...


class ScoredPolicy(Protocol):
    """What log-probs need of a policy."""

    def forward_hidden(self, ids: Tensor, positions: Tensor, lengths: Sequence[int]) -> Tensor: ...

    def head_weight(self) -> Tensor: ...


def logprobs_of(policy: ScoredPolicy, rows: Sequence[npt.NDArray[np.int32]]) -> list[npt.NDArray[np.float32]]:
    """Log-probs at temperature 1 of the tokens of each row but its first: [n - 1] for a row of n."""
    return [_row_logprobs(policy, torch.from_numpy(np.asarray(row, dtype=np.int64))) for row in rows]


@torch.no_grad()
def _row_logprobs(policy: ScoredPolicy, row: Tensor) -> npt.NDArray[np.float32]:
    head = policy.head_weight()
    ids = row.to(head.device)
    hidden = policy.forward_hidden(ids, torch.arange(len(ids), device=head.device), [len(ids)])
    logits = torch.mm(hidden[:-1].float(), head.float().t())
    return torch.log_softmax(logits, dim=-1).gather(1, ids[1:, None]).squeeze(1).cpu().numpy()


async def publish(policy: PublishedPolicy, engine: RolloutEngine, version: int, *, shared: bool = True) -> None:
    """Make the policy's weights, now called `version`, those that later tokens come from.

    shared: the engine decodes with the policy's own tensors, so nothing is moved and it only drops what it cached under
    the old ones. Otherwise it is given every weight by name. Returns when the engine is ready.
    """
    tensors = None if shared else {name: p.detach() for name, p in policy.named_parameters()}
    await engine.update_weights(version, tensors)
    policy.version = version
