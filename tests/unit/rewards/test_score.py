from __future__ import annotations

import numpy as np
import pytest

from agentmath.config.grading import GradingSection
from agentmath.config.reward import RewardSection
from agentmath.core.types import (
    Group,
    Reward,
    SpanKind,
    StopReason,
    Task,
    Tokens,
    ToolCall,
    ToolResult,
    ToolStatus,
    Trajectory,
    Turn,
)
from agentmath.rewards.answer import Verdict, failed
from agentmath.rewards.grader import Grader
from agentmath.rewards.score import score, tool_reward

TASK = Task(id="t", question="6*7?", answer="42")
SECTION = RewardSection()


def trajectory(stop_reason: StopReason | None, num_calls: int = 0) -> Trajectory:
    tokens = Tokens.inserted(np.array([1]), SpanKind.ANSWER)
    call, result = ToolCall(tool="code", source="print(42)"), ToolResult(status=ToolStatus.OK, stdout="42")
    turns = [
        Turn(role="reasoning", agent="solver", tokens=tokens, stop_reason=StopReason.STOP, call=call, result=result)
        for _ in range(num_calls)
    ]
    return Trajectory(task=TASK, sample_index=0, ordinal=0, prompt=tokens, turns=turns, stop_reason=stop_reason)


def scored(sample: Trajectory, text: str) -> Reward | None:
    with Grader(GradingSection()) as grader:
        score([Group(task=TASK, ordinal=0, trajectories=[sample])], SECTION, lambda _: text, grader)
    return sample.reward


def test_a_right_answer_without_calls_earns_one() -> None:
    reward = scored(trajectory(StopReason.ANSWER), r"\boxed{42}")
    assert reward is not None
    assert reward.total == 1.0
    assert reward.parts == {"accuracy": 1.0, "tool": 0.0, "num_tool_calls": 0.0}
    assert reward.extracted == "42"


def test_a_right_answer_with_calls_earns_the_tool_part_too() -> None:
    reward = scored(trajectory(StopReason.ANSWER, num_calls=3), r"\boxed{42}")
    assert reward is not None
    assert reward.total == pytest.approx(1.13)
    assert reward.parts["tool"] == pytest.approx(0.13)
    assert reward.parts["num_tool_calls"] == 3.0


def test_calls_do_not_pay_where_the_answer_is_wrong() -> None:
    reward = scored(trajectory(StopReason.ANSWER, num_calls=9), r"\boxed{41}")
    assert reward is not None
    assert (reward.total, reward.accuracy, reward.parts["num_tool_calls"]) == (0.0, 0.0, 9.0)


def test_the_tool_part_is_capped() -> None:
    assert tool_reward(0, SECTION) == 0.0
    assert tool_reward(1000, SECTION) == SECTION.tool_max


@pytest.mark.parametrize("stop_reason", [StopReason.ERROR, StopReason.ABORTED, StopReason.SEGMENT, None])
def test_failures_and_unfinished_trajectories_get_no_reward(stop_reason: StopReason | None) -> None:
    assert scored(trajectory(stop_reason), r"\boxed{42}") is None


@pytest.mark.parametrize("stop_reason", [StopReason.LENGTH, StopReason.MAX_TOOL_CALLS, StopReason.EOS])
def test_a_trajectory_that_ran_out_of_budget_is_simply_wrong(stop_reason: StopReason) -> None:
    reward = scored(trajectory(stop_reason), r"it is \boxed{4")
    assert reward is not None
    assert reward.total == 0.0 and reward.extracted is None


def test_a_grader_that_fails_is_a_failure_of_the_infrastructure(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(_: str, __: str, ___: GradingSection) -> Verdict:
        return failed("42", "the answer took longer than 5 seconds")

    monkeypatch.setattr("agentmath.rewards.grader.quick_verdict", lost)
    sample = trajectory(StopReason.ANSWER)
    assert scored(sample, r"\boxed{42}") is None
    assert sample.stop_reason is StopReason.ERROR
    assert sample.error == "grading: the answer took longer than 5 seconds"


def test_samples_of_all_groups_are_graded_in_their_order() -> None:
    samples = [trajectory(StopReason.ANSWER) for _ in range(6)]
    groups = [Group(task=TASK, ordinal=k, trajectories=samples[2 * k : 2 * k + 2]) for k in range(3)]
    texts = {id(s): rf"\boxed{{{n}}}" for s, n in zip(samples, ("42", "x", r"\sqrt2", "42.0", "41", "42"), strict=True)}
    with Grader(GradingSection()) as grader:
        score(groups, SECTION, lambda t: texts[id(t)], grader)
    assert [s.reward and s.reward.accuracy for s in samples] == [1.0, 0.0, 0.0, 1.0, 0.0, 1.0]
