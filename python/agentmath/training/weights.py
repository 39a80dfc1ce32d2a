"""From the trainer's weights to an engine's."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from agentmath.core.interfaces import RolloutEngine


async def publish(tensors: Mapping[str, Tensor] | None, engine: RolloutEngine, version: int) -> None:
    """Make `version` the weights that later tokens come from; returns when the engine has them.

    tensors: name -> weight for an engine with weights of its own; None for one that decodes with the trainer's own
    tensors, where there is nothing to move and only the version changes (cached keys and values are the engine's to drop).
    """
    detached = None if tensors is None else {name: t.detach() for name, t in tensors.items()}
    await engine.update_weights(version, detached)
