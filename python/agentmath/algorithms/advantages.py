"""How much better a sample was than what it is compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentmath.algorithms.estimators import of_group, of_step
from agentmath.config.algorithm import AlgorithmSection
from agentmath.core.errors import TrainingError
from agentmath.core.types import Group, Trajectory


def assign(groups: Sequence[Group], section: AlgorithmSection) -> None:
    """Set the advantage of every trajectory of every group.

    Raises TrainingError for a trajectory without a finite reward: it should have been scored, or dropped as a failure.
    """
    rewards = [[_total(t) for t in group.trajectories] for group in groups]
    if section.advantage == "reinforce_plus_plus":
        trajectories = [t for group in groups for t in group.trajectories]
        tokens = [t.num_sampled_tokens for t in trajectories]
        advantages = of_step([r for of_one in rewards for r in of_one], tokens, section)
        _set(trajectories, advantages.tolist())
        return
    for group, of_one in zip(groups, rewards, strict=True):
        _set(group.trajectories, of_group(of_one, section).tolist())


def _set(trajectories: Sequence[Trajectory], advantages: Sequence[float]) -> None:
    for trajectory, advantage in zip(trajectories, advantages, strict=True):
        trajectory.advantage = advantage


def _total(trajectory: Trajectory) -> float:
    where = f"task {trajectory.task.id!r}, sample {trajectory.sample_index}"
    if trajectory.reward is None:
        raise TrainingError(
            f"{where} has no reward: score groups, and drop what failed, before advantages are assigned"
        )
    total = trajectory.reward.total
    if not np.isfinite(total):
        raise TrainingError(f"{where} has reward {total}: fix the reward function, an advantage needs finite numbers")
    return total
