"""What is measured, and what is refused."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from agentmath.core.errors import EngineError
from agentmath.core.types import Group, SpanKind, StopReason, Task, Tokens, Trajectory
from agentmath.orchestration.measure import refuse_dead_infrastructure

TASK = Task(id="t", question="Q", answer="1")


def group(*ends: StopReason) -> Group:
    prompt = Tokens.inserted([1], SpanKind.PROMPT)
    made = [
        Trajectory(task=TASK, sample_index=i, ordinal=0, prompt=prompt, stop_reason=end, error="no sandbox")
        for i, end in enumerate(ends)
    ]
    return Group(task=TASK, ordinal=0, trajectories=made)


def test_nothing_but_failures_is_an_error_and_no_accuracy_of_zero() -> None:
    with pytest.raises(
        EngineError, match="all 3 trajectories were lost to the infrastructure; the first said: no sand"
    ):
        refuse_dead_infrastructure([group(StopReason.ERROR, StopReason.ERROR), group(StopReason.ERROR)])


def test_one_survivor_or_no_trajectory_is_none() -> None:
    refuse_dead_infrastructure([group(StopReason.ERROR), group(StopReason.ANSWER)])
    refuse_dead_infrastructure([])
