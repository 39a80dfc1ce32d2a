"""From the trainer's weights to an engine's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from torch import Tensor

from agentmath.core.interfaces import RolloutEngine


class PublishedPolicy(Protocol):
    """What publishing needs of a policy."""

    version: int

    def named_parameters(self) -> Iterable[tuple[str, Tensor]]: ...


async def publish(policy: PublishedPolicy, engine: RolloutEngine, version: int, *, shared: bool = True) -> None:
    """Make the policy's weights, now called `version`, those that later tokens come from.

    shared: the engine decodes with the policy's own tensors, so nothing is moved and it only drops what it cached under
    the old ones. Otherwise it is given every weight by name. Returns when the engine is ready.
    """
    tensors = None if shared else {name: p.detach() for name, p in policy.named_parameters()}
    await engine.update_weights(version, tensors)
    policy.version = version
