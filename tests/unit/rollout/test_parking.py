from __future__ import annotations

import math
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmath.core.errors import CheckpointError
from agentmath.core.types import (
    Group,
    Reward,
    Segment,
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
from agentmath.rollout.parking import from_bytes, to_bytes

TEXT = st.text(st.characters(), max_size=8)
INT32 = st.integers(-(2**31), 2**31 - 1)
COUNT = st.integers(0, 2**40)


@st.composite
def tokens(draw: st.DrawFn) -> Tokens:
    n = draw(st.integers(0, 5))
    return Tokens(
        ids=np.array(draw(st.lists(INT32, min_size=n, max_size=n)), np.int32),
        logprobs=np.array(draw(st.lists(st.floats(width=32), min_size=n, max_size=n)), np.float32),
        kinds=np.array(draw(st.lists(st.sampled_from(SpanKind), min_size=n, max_size=n)), np.uint8),
        versions=np.array(draw(st.lists(INT32, min_size=n, max_size=n)), np.int32),
    )


TASKS = st.builds(
    Task,
    id=TEXT,
    question=TEXT,
    answer=TEXT,
    source=TEXT,
    difficulty=st.none() | st.floats(),
    intermediate=st.lists(TEXT, max_size=2).map(tuple),
    solution=st.none() | TEXT,
)
RESULTS = st.builds(
    ToolResult,
    status=st.sampled_from(ToolStatus),
    stdout=TEXT,
    stderr=TEXT,
    stdout_bytes=COUNT,
    stderr_bytes=COUNT,
    value=st.none() | TEXT,
    error=st.none() | TEXT,
    exit_code=st.none() | INT32,
    signal=st.none() | INT32,
    cpu_seconds=st.floats(),
    wall_seconds=st.floats(),
    queue_seconds=st.floats(),
    peak_memory_bytes=COUNT,
    layers=st.lists(TEXT, max_size=2).map(tuple),
)
TURNS = st.builds(
    Turn,
    role=TEXT,
    agent=TEXT,
    tokens=tokens(),
    stop_reason=st.sampled_from(StopReason),
    call=st.none() | st.builds(ToolCall, tool=TEXT, source=TEXT),
    result=st.none() | RESULTS,
)
SEGMENTS = st.builds(
    Segment, first_turn=COUNT, num_turns=COUNT, step=COUNT, num_sampled_tokens=COUNT, num_tool_calls=COUNT
)
REWARDS = st.builds(
    Reward,
    total=st.floats(),
    parts=st.dictionaries(TEXT, st.floats(), max_size=2),
    extracted=st.none() | TEXT,
    rule=TEXT,
)
TRAJECTORIES = st.builds(
    Trajectory,
    task=TASKS,
    sample_index=COUNT,
    ordinal=COUNT,
    prompt=tokens(),
    turns=st.lists(TURNS, max_size=2),
    segments=st.lists(SEGMENTS, max_size=2),
    stop_reason=st.none() | st.sampled_from(StopReason),
    reward=st.none() | REWARDS,
    advantage=st.none() | st.floats(),
    error=st.none() | TEXT,
)
GROUPS = st.lists(
    st.builds(Group, task=TASKS, ordinal=COUNT, trajectories=st.lists(TRAJECTORIES, max_size=2)), max_size=2
)


def same(a: object, b: object) -> bool:
    """Equal in type and in every bit that a person could ask for; NaN equals NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return a == b


@settings(max_examples=60, deadline=None)
@given(GROUPS)
def test_groups_come_back_as_they_were(groups: list[Group]) -> None:
    data = to_bytes(groups)
    back = from_bytes(data)
    assert same(groups, back)
    assert to_bytes(back) == data


def example() -> Group:
    task = Task(id="t", question="q", answer="1")
    turn = Turn(
        role="r", agent="a", tokens=Tokens.inserted([1, 2], SpanKind.INTERPRETER), stop_reason=StopReason.SEGMENT
    )
    prompt = Tokens.inserted([9, 8, 7], SpanKind.PROMPT)
    made = [Trajectory(task=task, sample_index=i, ordinal=4, prompt=prompt, turns=[turn]) for i in range(2)]
    return Group(task=task, ordinal=4, trajectories=made)


def test_a_trajectory_can_grow_after_it_came_back() -> None:
    [group] = from_bytes(to_bytes([example()]))
    first, second = group.trajectories
    first.turns.append(second.turns[0])
    first.turns[0].tokens.ids[0] = 77
    assert (len(first.turns), len(second.turns)) == (2, 1)
    assert second.turns[0].tokens.ids.tolist() == [1, 2]
    assert np.isnan(first.prompt.logprobs).all()


def test_a_task_object_that_was_shared_is_shared_again() -> None:
    [group] = from_bytes(to_bytes([example()]))
    assert all(t.task is group.task for t in group.trajectories)


def test_two_surrogates_in_a_row_do_not_become_one_character() -> None:
    group = example()
    group.trajectories[0].error = "\ud83d\ude00"
    [back] = from_bytes(to_bytes([group]))
    assert back.trajectories[0].error == "\ud83d\ude00"
    assert len(back.trajectories[0].error) == 2


def test_no_groups_are_no_groups() -> None:
    assert from_bytes(to_bytes([])) == []


@pytest.mark.parametrize("keep", [0, 10, 200, -10])
def test_damaged_bytes_are_one_clear_error(keep: int) -> None:
    with pytest.raises(CheckpointError, match="older checkpoint"):
        from_bytes(to_bytes([example()])[:keep])


def test_any_flipped_bit_is_noticed() -> None:
    data = to_bytes([example()])
    for position in range(len(data)):
        broken = bytearray(data)
        broken[position] ^= 0x40
        with pytest.raises(CheckpointError):
            from_bytes(bytes(broken))


def test_a_record_with_fields_of_another_version_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    data = to_bytes([example()])
    monkeypatch.setattr("agentmath.rollout.parking.Task", lambda **_: _refuse())
    with pytest.raises(CheckpointError, match="other fields"):
        from_bytes(data)


def _refuse() -> None:
    raise TypeError("got an unexpected keyword argument")
