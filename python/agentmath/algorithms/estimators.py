"""How much better a reward is than others, by name. All in float64; equal rewards give exactly 0.

Shapes: G samples of one group, B trajectories of a step.

    grpo                 (R - mean) / max(std, floor)        DeepSeekMath, section 4.1.2; the floor is ours
    dr_grpo              R - mean                            Understanding R1-Zero-Like Training, section 3.2
    rloo                 R - mean of the others              Back to Basics: Revisiting REINFORCE, "RLOO"
    leave_one_out        that over the std of the others, where it is above the floor; else as it is
    reinforce_plus_plus  (R - mean) / max(std, floor) over all sampled tokens of the step
                                                             REINFORCE++, "global advantage normalization"

std is the unbiased standard deviation. Rewards such as 1.11 have no exact mean: what rounding leaves over, divided by
itself, would pass for an advantage, so equality is tested on the rewards and not on their deviation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from agentmath.config.algorithm import AlgorithmSection

Floats = npt.NDArray[np.float64]


def of_group(rewards: Sequence[float], section: AlgorithmSection) -> Floats:
    """Advantages [G] of one group's rewards [G], by an estimator that compares within the group.

    Example: rewards (1, 1, 0, 0) have mean 1/2 and std sqrt(1/3): grpo gives +-0.866, dr_grpo +-0.5, rloo +-2/3; the
    others of a 1 are (1, 0, 0) with mean 1/3 and std sqrt(1/3): leave_one_out gives +-1.155.
    """
    r = np.asarray(rewards, dtype=np.float64)
    if r.size == 0 or r.max() == r.min():
        return np.zeros_like(r)
    centred = r - r.mean()
    match section.advantage:
        case "dr_grpo":
            return centred
        case "grpo":
            return centred / max(float(r.std(ddof=1)), section.std_floor)
        case "rloo":
            return centred * (r.size / (r.size - 1))
        case "leave_one_out":
            return np.array([_against(r[i], np.delete(r, i), section.std_floor) for i in range(r.size)])
        case "reinforce_plus_plus":
            raise ValueError("reinforce_plus_plus compares over a whole step: use of_step")


def of_step(rewards: Sequence[float], num_tokens: Sequence[int], section: AlgorithmSection) -> Floats:
    """Advantages [B] of a step's rewards [B], normalised over all sampled tokens: num_tokens [B] of each trajectory.

    The return of a token is what its trajectory earns from there on, undiscounted: the reward, which comes at the end.
    Tool output in between is no token of the model's, so it takes no part and cuts nothing off.

    Example: rewards (1, 0) of 1 and 3 tokens are the returns (1, 0, 0, 0): mean 1/4, std 1/2, advantages 1.5 and -0.5.
    """
    r, n = np.asarray(rewards, dtype=np.float64), np.asarray(num_tokens, dtype=np.float64)
    total = n.sum()
    counted = r[n > 0]
    if counted.size == 0 or counted.max() == counted.min():
        return np.zeros_like(r)
    centred = r - (n * r).sum() / total
    std = np.sqrt((n * centred**2).sum() / (total - 1))
    return centred / max(float(std), section.std_floor)


def _against(reward: float, others: Floats, floor: float) -> float:
    """One reward against the others' mean and deviation. A deviation below the floor says that they do not differ."""
    if others.max() == others.min():
        return float(reward - others[0])
    std = float(others.std(ddof=1))
    return float((reward - others.mean()) / (std if std > floor else 1.0))
