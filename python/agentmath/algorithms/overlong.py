"""A soft punishment of trajectories that come near to the longest generation allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentmath.config.algorithm import AlgorithmSection
from agentmath.core.types import Group

PART = "overlong"
"""Name of the part of a reward."""


def punish(groups: Sequence[Group], section: AlgorithmSection, *, max_sampled_tokens: int) -> None:
    """Lower the total of every reward by the punishment, and give it as a part of its own; 0 where it does not act.

    The length is that of what the model generated: tool output and prompt are no fault of it. Without a buffer nothing
    is changed. Doing it twice is doing it once.
    """
    if not section.overlong_buffer_tokens:
        return
    for trajectory in (t for group in groups for t in group.trajectories):
        reward = trajectory.reward
        if reward is None:
            continue
        loss = punishment(
            trajectory.num_sampled_tokens,
            max_sampled_tokens=max_sampled_tokens,
            buffer_tokens=section.overlong_buffer_tokens,
            largest=section.overlong_penalty,
        )
        total = reward.total - reward.parts.get(PART, 0.0) + loss
        trajectory.reward = replace(reward, total=total, parts={**reward.parts, PART: loss})


def punishment(num_tokens: int, *, max_sampled_tokens: int, buffer_tokens: int, largest: float) -> float:
    """0 before the buffer, falling linearly to -largest at its end (DAPO, section 3.4, on generated tokens).

    Example: at most 100 tokens, a buffer of 20: 80 tokens cost 0, 85 cost 1/4, 100 cost 1.
    """
    into = num_tokens - (max_sampled_tokens - buffer_tokens)
    return -largest * min(max(into / buffer_tokens, 0.0), 1.0) if into > 0 else 0.0
