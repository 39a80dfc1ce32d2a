"""The weights that reinforcement learning started from, for a KL penalty."""

from __future__ import annotations

import copy

from agentmath.core.errors import CheckpointError
from agentmath.orchestration.saving import Run
from agentmath.training import checkpoint
from agentmath.training.policy import Policy


def reference_policy(run: Run) -> Policy | None:
    """A frozen copy of the run's policy as the supervised stage left it; None where nothing is measured from it.

    The checkpoint that ends that stage stays in the run directory, so a resumed run finds the same weights.
    """
    if run.parts.recipe.algorithm.kl == "none":
        return None
    folder = run.directory.checkpoints / "sft"
    path = checkpoint.latest(folder)
    if path is None:
        raise CheckpointError(
            f"{folder} holds no checkpoint of the weights that reinforcement learning started from, and algorithm.kl "
            'measures from them: start the run anew, or set algorithm.kl = "none" in a new one'
        )
    _, held = checkpoint.load(path)
    policy = run.parts.policy
    reference = copy.deepcopy(policy, {id(policy.tokenizer): policy.tokenizer})
    reference.module.load_state_dict(held.model)
    reference.module.requires_grad_(False)
    return reference
