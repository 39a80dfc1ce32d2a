from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.algorithms import overlong
from agentmath.config.algorithm import AlgorithmSection
from agentmath.core.types import Group, Reward, SpanKind, StopReason, Task, Tokens, Trajectory, Turn

SECTION = AlgorithmSection.model_validate({"overlong_buffer_tokens": 20, "overlong_penalty": 1.0})


def tokens(num_sampled: int, num_inserted: int) -> Tokens:
    sampled = Tokens.inserted([1] * num_sampled, SpanKind.THINK)
    return Tokens.concatenate([sampled, Tokens.inserted([2] * num_inserted, SpanKind.INTERPRETER)])


def group(lengths: list[tuple[int, int]], *, scored: bool = True) -> Group:
    """Each trajectory has so many sampled tokens and so many of tool output."""
    task = Task(id="t", question="q", answer="1")
    made: list[Trajectory] = []
    for i, (sampled, inserted) in enumerate(lengths):
        turn = Turn(role="reasoning", agent="a", tokens=tokens(sampled, inserted), stop_reason=StopReason.EOS)
        reward = Reward(total=1.11, parts={"accuracy": 1.0, "tool": 0.11}) if scored else None
        made.append(
            Trajectory(
                task=task,
                sample_index=i,
                ordinal=0,
                prompt=Tokens.inserted([0] * 50, SpanKind.PROMPT),
                turns=[turn],
                stop_reason=StopReason.EOS,
                reward=reward,
            )
        )
    return Group(task=task, ordinal=0, trajectories=made)


def rewards(g: Group) -> list[Any]:
    return [t.reward for t in g.trajectories]


@pytest.mark.parametrize(
    ("length", "expected"), [(0, 0.0), (80, 0.0), (81, -0.05), (85, -0.25), (100, -1.0), (120, -1.0)]
)
def test_by_hand(length: int, expected: float) -> None:
    got = overlong.punishment(length, max_sampled_tokens=100, buffer_tokens=20, largest=1.0)
    assert got == pytest.approx(expected)
    assert str(got) != "-0.0"


@given(st.integers(0, 200), st.integers(0, 200), st.integers(1, 100), st.floats(0.1, 5))
def test_longer_is_never_cheaper(a: int, b: int, buffer: int, largest: float) -> None:
    short, long = (
        overlong.punishment(n, max_sampled_tokens=100, buffer_tokens=buffer, largest=largest) for n in sorted((a, b))
    )
    assert -largest <= long <= short <= 0.0


def test_the_total_falls_and_the_part_is_named() -> None:
    g = group([(90, 0), (10, 0)])
    overlong.punish([g], SECTION, max_sampled_tokens=100)
    assert [r.total for r in rewards(g)] == pytest.approx([0.61, 1.11])
    assert [r.parts["overlong"] for r in rewards(g)] == [-0.5, 0.0]
    assert [r.accuracy for r in rewards(g)] == [1.0, 1.0]


def test_tool_output_and_prompt_are_no_length_of_the_models() -> None:
    g = group([(60, 300)])
    overlong.punish([g], SECTION, max_sampled_tokens=100)
    assert rewards(g)[0].parts["overlong"] == 0.0


def test_twice_is_once() -> None:
    g = group([(90, 0)])
    overlong.punish([g], SECTION, max_sampled_tokens=100)
    once = rewards(g)
    overlong.punish([g], SECTION, max_sampled_tokens=100)
    assert rewards(g)[0].total == pytest.approx(once[0].total)
    assert rewards(g)[0].parts == once[0].parts


def test_without_a_buffer_or_a_reward_nothing_is_changed() -> None:
    g = group([(100, 0)])
    before = rewards(g)
    overlong.punish([g], AlgorithmSection(), max_sampled_tokens=100)
    assert rewards(g)[0] is before[0]
    unscored = group([(100, 0)], scored=False)
    overlong.punish([unscored], SECTION, max_sampled_tokens=100)
    assert rewards(unscored) == [None]
