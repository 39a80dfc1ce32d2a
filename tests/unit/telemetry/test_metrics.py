from __future__ import annotations

from dataclasses import replace

import numpy as np

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
from agentmath.telemetry.metrics import group_metrics

TASK = Task(id="t", question="q", answer="1")


def sampled(n: int) -> Tokens:
    return Tokens(
        ids=np.zeros(n, np.int32),
        logprobs=np.zeros(n, np.float32),
        kinds=np.full(n, SpanKind.ANSWER, np.uint8),
        versions=np.zeros(n, np.int32),
    )


def trajectory(right: bool, statuses: list[ToolStatus], num_tokens: int, stop: StopReason) -> Trajectory:
    call = ToolCall(tool="code", source="1")
    turns = [
        Turn(
            role="r",
            agent="a",
            tokens=Tokens.inserted([1], SpanKind.INTERPRETER),
            stop_reason=StopReason.STOP,
            call=call,
            result=ToolResult(status=status),
        )
        for status in statuses
    ]
    turns.append(Turn(role="r", agent="a", tokens=sampled(num_tokens), stop_reason=stop))
    bonus = {"tool": 0.11} if right and statuses else {}
    parts = {"accuracy": float(right), **bonus}
    return Trajectory(
        task=TASK,
        sample_index=0,
        ordinal=0,
        prompt=Tokens.inserted([1, 2], SpanKind.PROMPT),
        turns=turns,
        stop_reason=stop,
        reward=Reward(total=sum(parts.values()), parts=parts),
    )


def test_the_numbers_of_a_step_by_hand() -> None:
    ok, broken = ToolStatus.OK, ToolStatus.EXCEPTION
    mixed = [
        trajectory(True, [ok], 10, StopReason.ANSWER),
        trajectory(False, [ok, broken, broken], 30, StopReason.LENGTH),
    ]
    equal = [trajectory(True, [], 5, StopReason.ANSWER), trajectory(True, [], 3, StopReason.EOS)]
    metrics = group_metrics(
        [Group(task=TASK, ordinal=0, trajectories=mixed), Group(task=TASK, ordinal=1, trajectories=equal)]
    )
    expected = {
        "groups": 2,
        "trajectories": 4,
        "reward": (1.11 + 0 + 1 + 1) / 4,
        "reward/accuracy": 0.75,
        "reward/tool": 0.11 / 4,
        "accuracy": 0.75,
        "mixed_groups": 0.5,
        "tool_calls": 1.0,
        "tool_use": 0.5,
        "tool_ok": 0.5,
        "sampled_tokens": 12.0,
        "context_tokens": (13 + 35 + 7 + 5) / 4,
        "segments": 0,
        "truncated": 0.25,
        "stop/answer": 0.5,
        "stop/eos": 0.25,
        "stop/length": 0.25,
    }
    assert set(metrics) == set(expected)
    assert all(abs(metrics[name] - value) < 1e-12 for name, value in expected.items())


def test_a_fault_of_form_is_counted_once_a_trajectory_and_absent_where_there_is_none() -> None:
    odd = trajectory(False, [ToolStatus.OK] * 2, 1, StopReason.EOS)
    odd.turns = [replace(turn, faults=("stray_tag", "unclosed_box")) for turn in odd.turns]
    fine = trajectory(True, [], 1, StopReason.ANSWER)
    metrics = group_metrics([Group(task=TASK, ordinal=0, trajectories=[odd, fine, fine, fine])])
    assert {name: value for name, value in metrics.items() if name.startswith("fault/")} == {
        "fault/stray_tag": 0.25,
        "fault/unclosed_box": 0.25,
    }


def test_the_parts_of_the_reward_add_up_to_it() -> None:
    group = Group(
        task=TASK,
        ordinal=0,
        trajectories=[
            trajectory(True, [ToolStatus.OK], 1, StopReason.ANSWER),
            trajectory(False, [], 1, StopReason.EOS),
        ],
    )
    metrics = group_metrics([group])
    parts = [value for name, value in metrics.items() if name.startswith("reward/")]
    assert abs(sum(parts) - metrics["reward"]) < 1e-12


def test_what_has_no_value_is_absent() -> None:
    assert group_metrics([]) == {"groups": 0.0, "trajectories": 0.0}
    failed = Trajectory(
        task=TASK, sample_index=0, ordinal=0, prompt=Tokens.inserted([], SpanKind.PROMPT), stop_reason=StopReason.ERROR
    )
    assert group_metrics([Group(task=TASK, ordinal=0, trajectories=[failed])]) == {"groups": 1.0, "trajectories": 0.0}
    without_calls = Group(task=TASK, ordinal=0, trajectories=[trajectory(True, [], 1, StopReason.ANSWER)])
    assert "tool_ok" not in group_metrics([without_calls])
