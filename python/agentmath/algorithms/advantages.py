"""How much better a sample was than the others of its group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from agentmath.config.algorithm import AlgorithmSection
from agentmath.core.errors import TrainingError
from agentmath.core.types import Group, Trajectory


def assign(groups: Sequence[Group], section: AlgorithmSection) -> None:
    """Set the advantage of every trajectory of every group.

    Raises TrainingError for a trajectory without a finite reward: it should have been scored, or dropped as a failure.
    """
    for group in groups:
        rewards = [_total(t) for t in group.trajectories]
        for trajectory, advantage in zip(group.trajectories, of_group(rewards, section), strict=True):
            trajectory.advantage = float(advantage)


def of_group(rewards: Sequence[float], section: AlgorithmSection) -> npt.NDArray[np.float64]:
    """Advantages [G] of one group's rewards [G]; exactly 0 where all rewards are equal.

    dr_grpo: R - mean (Understanding R1-Zero-Like Training, section 3.2). grpo: that over max(std, std_floor), with the
    unbiased standard deviation (DeepSeekMath, section 4.1.2; the floor is ours).

    Example: rewards (1, 1, 0, 0) have mean 1/2 and std sqrt(1/3): grpo gives +-0.866, dr_grpo +-0.5.
    """
    r = np.asarray(rewards, dtype=np.float64)
    # Rewards such as 1.11 have no exact mean: what is left by rounding, over a tiny std, would pass for an advantage.
    if r.size == 0 or r.max() == r.min():
        return np.zeros_like(r)
    centred = r - r.mean()
    if section.advantage == "dr_grpo":
        return centred
    return centred / max(float(r.std(ddof=1)), section.std_floor)


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
