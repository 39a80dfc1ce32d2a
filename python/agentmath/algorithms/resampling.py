"""Resampling on correct: which samples of a group are trained on when more were drawn than are wanted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentmath.core.types import INFRASTRUCTURE_STATUSES, ToolStatus, Trajectory

MIN_WRONG = 2
"""Wrong samples that are kept at least, where there are so many."""
_NO_CALL = 0.5
"""Share of failed calls that stands for a trajectory without one."""


def resample(trajectories: Sequence[Trajectory], count: int, *, seed: Sequence[int]) -> list[Trajectory]:
    """`count` of the scored samples of a group in their order, or all where there are not more.

    Wrong ones keep their share, chosen at random, so that all ways to fail stay in sight; right ones are taken by how
    clean they are (rStar2-Agent, "GRPO-RoC": draw 2 G, train on G). At least MIN_WRONG wrong ones and one right one
    stay, as far as there are.

    The order of right ones: share of calls that failed, by the sandbox's status and not by what was printed, 1/2
    without a call; plus faults of form per turn, at most 1; ties by the order they were drawn in. seed makes the choice
    of wrong ones repeatable.
    """
    if len(trajectories) <= count:
        return list(trajectories)
    right = [i for i, t in enumerate(trajectories) if _is_right(t)]
    wrong = [i for i, t in enumerate(trajectories) if not _is_right(t)]
    num_wrong = round(count * len(wrong) / len(trajectories))
    num_wrong = max(num_wrong, min(MIN_WRONG, len(wrong)), count - len(right))
    num_wrong = min(num_wrong, len(wrong), count - min(1, len(right)))
    order: list[int] = np.random.default_rng(list(seed)).permutation(len(wrong)).tolist()
    cleanest = sorted(right, key=lambda i: (uncleanness(trajectories[i]), i))[: count - num_wrong]
    kept = sorted([*(wrong[i] for i in order[:num_wrong]), *cleanest])
    return [trajectories[i] for i in kept]


def uncleanness(trajectory: Trajectory) -> float:
    """From 0 (every call ran through, every word well formed) to 2."""
    statuses = [turn.result.status for turn in trajectory.turns if turn.result is not None]
    own = [status for status in statuses if status not in INFRASTRUCTURE_STATUSES]
    failed = sum(status is not ToolStatus.OK for status in own) / len(own) if own else _NO_CALL
    return failed + min(1.0, len(trajectory.faults) / max(1, len(trajectory.turns)))


def _is_right(trajectory: Trajectory) -> bool:
    return trajectory.reward is not None and trajectory.reward.accuracy > 0
