"""Figures of an evaluation, from trajectories made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from agentmath.core.types import (
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
from agentmath.evaluation.evaluate import summarise

TASK = Task(id="t", question="Q", answer="1")


def trajectory(
    *, score: float | None, calls: int = 0, tokens: int = 3, stop: StopReason = StopReason.ANSWER
) -> Trajectory:
    sampled = Tokens(
        ids=np.zeros(tokens, dtype=np.int32),
        logprobs=np.zeros(tokens, dtype=np.float32),
        kinds=np.full(tokens, SpanKind.ANSWER, dtype=np.uint8),
        versions=np.zeros(tokens, dtype=np.int32),
    )
    called = Turn(
        role="reasoning",
        agent="solver",
        tokens=Tokens.inserted([], SpanKind.INTERPRETER),
        stop_reason=StopReason.STOP,
        call=ToolCall(tool="code", source="1"),
        result=ToolResult(status=ToolStatus.OK),
    )
    last = Turn(role="reasoning", agent="solver", tokens=sampled, stop_reason=stop)
    return Trajectory(
        task=TASK,
        sample_index=0,
        ordinal=0,
        prompt=Tokens.inserted([1], SpanKind.PROMPT),
        turns=[called] * calls + [last],
        stop_reason=stop,
        reward=None if score is None else Reward(total=score, parts={"accuracy": score}),
    )


def test_figures_are_shares_of_graded_samples():
    result = summarise(
        "set",
        [
            trajectory(score=1.0, calls=2, tokens=5),
            trajectory(score=0.0, tokens=1, stop=StopReason.LENGTH),
            trajectory(score=1.0, calls=1, tokens=3),
            trajectory(score=None, stop=StopReason.ERROR),
        ],
        seconds=2.0,
    )
    assert (result.num_graded, result.num_failed) == (3, 1)
    assert result.accuracy == pytest.approx(2 / 3)
    assert result.accuracy_low < 2 / 3 < result.accuracy_high
    assert result.tool_use == pytest.approx(2 / 3)
    assert result.tool_calls_mean == pytest.approx(1.0)
    assert result.sampled_tokens_mean == pytest.approx(3.0)
    assert result.truncated == pytest.approx(1 / 3)


def test_nothing_graded_is_no_accuracy():
    result = summarise("set", [trajectory(score=None, stop=StopReason.ERROR)], seconds=0.0)
    assert (result.num_graded, result.num_failed) == (0, 1)
    assert (result.accuracy_low, result.accuracy_high) == (0.0, 1.0)
