"""The weights that reinforcement learning started from, for a KL penalty."""

from __future__ import annotations

from agentmath.core.errors import CheckpointError
from agentmath.orchestration.build import build_policy
from agentmath.orchestration.saving import Run
from agentmath.training import checkpoint
from agentmath.training.policy import Policy


def reference_policy(run: Run) -> Policy | None:
    """The run's policy as the supervised stage left it, frozen; None where no penalty is measured from it.

    The checkpoint that ends that stage stays in the run directory, so a resumed run finds the same weights.
    """
    recipe = run.parts.recipe
    if recipe.algorithm.kl == "none":
        return None
    folder = run.directory.checkpoints / "sft"
    path = checkpoint.latest(folder)
    if path is None:
        raise CheckpointError(
            f"{folder} holds no checkpoint of the weights that reinforcement learning started from, and algorithm.kl "
            f'= "{recipe.algorithm.kl}" measures from them: start a new run, or one with algorithm.kl = "none"'
        )
    _, held = checkpoint.load(path)
    policy = build_policy(recipe, run.parts.pool)
    policy.module.load_state_dict(held.model)
    policy.module.requires_grad_(False)
    return policy
