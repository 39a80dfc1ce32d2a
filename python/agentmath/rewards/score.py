"""The reward of finished trajectories: R = R_acc + [R_acc = 1][N > 0] min(tool_max, tool_alpha + tool_beta N).

AgentMath, "Stage 2 - Agentic RL". N is the number of executed tool calls. The tool part pays for calls, so N is logged
beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentmath.config.reward import RewardSection
from agentmath.core.types import INFRASTRUCTURE_ENDS, Group, Reward, StopReason, Trajectory
from agentmath.rewards.answer import Verdict
from agentmath.rewards.grader import Grader, Question


def score(
    groups: Sequence[Group], section: RewardSection, model_text: Callable[[Trajectory], str], grader: Grader
) -> None:
    """Set the reward of every finished trajectory; None for the unfinished and for failures of the infrastructure.

    A grader that fails is such a failure: the trajectory ends with stop reason ERROR and is dropped and counted with
    the others. model_text gives what the model itself wrote, outside of programs and tool output.
    """
    finished: list[Trajectory] = []
    for trajectory in (t for group in groups for t in group.trajectories):
        trajectory.reward = None
        if trajectory.is_finished and trajectory.stop_reason not in INFRASTRUCTURE_ENDS:
            finished.append(trajectory)
    questions = (Question(gold=t.task.answer, prediction=model_text(t)) for t in finished)
    for trajectory, verdict in zip(finished, grader.grade_many(questions), strict=True):
        if verdict.error is None:
            trajectory.reward = reward_of(trajectory, section, verdict)
        else:
            trajectory.stop_reason, trajectory.error = StopReason.ERROR, f"grading: {verdict.error}"


def reward_of(trajectory: Trajectory, section: RewardSection, verdict: Verdict) -> Reward:
    """Parts: "accuracy" 0 or 1, "tool" what the calls earned, "num_tool_calls" N, which is no part of the total."""
    accuracy = float(verdict.match is True)
    num_calls = trajectory.num_tool_calls
    tool = tool_reward(num_calls, section) if verdict.match else 0.0
    return Reward(
        total=accuracy + tool,
        parts={"accuracy": accuracy, "tool": tool, "num_tool_calls": float(num_calls)},
        extracted=verdict.extracted,
        rule=verdict.rule,
    )


def tool_reward(num_calls: int, section: RewardSection) -> float:
    """What num_calls executed calls earn in a trajectory with a right answer: nothing for none."""
    if num_calls <= 0:
        return 0.0
    return min(section.tool_max, section.tool_alpha + section.tool_beta * num_calls)
