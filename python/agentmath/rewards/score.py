"""The reward of finished trajectories: R = R_acc + [R_acc = 1][N > 0] min(tool_max, tool_alpha + tool_beta N).

AgentMath, "Stage 2 - Agentic RL". N is the number of executed tool calls. The tool part pays for calls, so N is logged
beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agentmath.config.reward import RewardSection
from agentmath.core.types import INFRASTRUCTURE_ENDS, Group, Reward, Trajectory
from agentmath.rewards.answer import grade


def score(groups: Iterable[Group], section: RewardSection, model_text: Callable[[Trajectory], str]) -> None:
    """Set the reward of every finished trajectory; None for the unfinished and for failures of the infrastructure.

    model_text gives what the model itself wrote, outside of programs and tool output.
    """
    for group in groups:
        for trajectory in group.trajectories:
            if trajectory.is_finished and trajectory.stop_reason not in INFRASTRUCTURE_ENDS:
                trajectory.reward = reward_of(trajectory, section, model_text(trajectory))
            else:
                trajectory.reward = None


def reward_of(trajectory: Trajectory, section: RewardSection, text: str) -> Reward:
    """Parts: "accuracy" 0 or 1, "tool" what the calls earned, "num_tool_calls" N, which is no part of the total."""
    verdict = grade(trajectory.task.answer, text)
    num_calls = trajectory.num_tool_calls
    tool = tool_reward(num_calls, section) if verdict.score == 1 else 0.0
    return Reward(
        total=verdict.score + tool,
        parts={"accuracy": float(verdict.score), "tool": tool, "num_tool_calls": float(num_calls)},
        extracted=verdict.extracted,
        rule=verdict.rule,
    )


def tool_reward(num_calls: int, section: RewardSection) -> float:
    """What num_calls executed calls earn in a trajectory with a right answer: nothing for none."""
    if num_calls <= 0:
        return 0.0
    return min(section.tool_max, section.tool_alpha + section.tool_beta * num_calls)
