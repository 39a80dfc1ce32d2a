"""What a checkpoint keeps of a run's counters."""

from __future__ import annotations

import pytest

from agentmath.core.errors import CheckpointError
from agentmath.core.types import Task
from agentmath.orchestration.state import RunState


class Squares:
    def task_at(self, ordinal: int) -> Task:
        return Task(id=str(ordinal), question="Q", answer=str(ordinal**2))


def test_each_ordinal_is_drawn_once_over_restarts():
    state = RunState()
    first = state.draw(Squares(), 3)
    state = RunState.from_json(state.as_json())
    second = state.draw(Squares(), 2)
    assert [ordinal for ordinal, _ in first + second] == [0, 1, 2, 3, 4]
    assert [task.answer for _, task in second] == ["9", "16"]
    assert state.draw(Squares(), 0) == []


def test_the_latest_evaluation_of_a_stage_is_found():
    state = RunState(evaluations=[{"stage": "sft", "step": 0}, {"stage": "rl", "step": 5}, {"stage": "rl", "step": 9}])
    assert state.evaluation("rl") == {"stage": "rl", "step": 9}
    assert state.evaluation("start") is None


def test_another_versions_state_is_refused():
    data = RunState().as_json()
    with pytest.raises(CheckpointError, match="fields"):
        RunState.from_json(data | {"added": 1})
    del data["step"]
    with pytest.raises(CheckpointError, match="step"):
        RunState.from_json(data)
