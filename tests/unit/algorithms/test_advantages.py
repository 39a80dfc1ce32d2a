from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.algorithms import advantages
from agentmath.config.algorithm import AlgorithmSection
from agentmath.core.errors import TrainingError
from agentmath.core.types import Group, Reward, SpanKind, StopReason, Task, Tokens, Trajectory

GRPO = AlgorithmSection.model_validate({})
DR_GRPO = AlgorithmSection.model_validate({"advantage": "dr_grpo"})


def group(rewards: list[float | None]) -> Group:
    task = Task(id="t", question="q", answer="1")
    prompt = Tokens.inserted([1], SpanKind.PROMPT)
    return Group(
        task=task,
        ordinal=0,
        trajectories=[
            Trajectory(
                task=task,
                sample_index=i,
                ordinal=0,
                prompt=prompt,
                stop_reason=StopReason.EOS,
                reward=None if r is None else Reward(total=r, parts={"accuracy": float(r >= 1)}),
            )
            for i, r in enumerate(rewards)
        ],
    )


def test_two_right_of_four_by_hand() -> None:
    half = 0.5 / math.sqrt(1 / 3)
    assert advantages.of_group([1, 1, 0, 0], GRPO) == pytest.approx([half, half, -half, -half], abs=1e-15)
    assert advantages.of_group([1, 1, 0, 0], DR_GRPO).tolist() == [0.5, 0.5, -0.5, -0.5]


@pytest.mark.parametrize("value", [0.1, -0.85, 1.11, 1.18, 0.35, 0.0])
@pytest.mark.parametrize("size", [1, 2, 6, 7, 8, 16])
@pytest.mark.parametrize("section", [GRPO, DR_GRPO])
def test_equal_rewards_give_exactly_zero(value: float, size: int, section: AlgorithmSection) -> None:
    assert advantages.of_group([value] * size, section).tolist() == [0.0] * size


def test_a_single_failure_among_tool_rewards_is_not_blown_up() -> None:
    # 7 x 1.11 and one 0: mean 0.97125, unbiased std 1.11 / sqrt(8).
    got = advantages.of_group([1.11] * 7 + [0.0], GRPO)
    std = 1.11 / math.sqrt(8)
    assert got[:7] == pytest.approx(0.13875 / std)
    assert got[7] == pytest.approx(-0.97125 / std)


def test_a_tiny_spread_is_divided_by_the_floor() -> None:
    got = advantages.of_group([1.0, 1.0 + 1e-6], AlgorithmSection.model_validate({"std_floor": 1e-3}))
    assert got == pytest.approx([-5e-4, 5e-4], rel=1e-6)


@given(st.lists(st.floats(-2, 2), min_size=2, max_size=16))
def test_advantages_sum_to_zero_and_keep_the_order_of_rewards(rewards: list[float]) -> None:
    for section in (GRPO, DR_GRPO):
        got = advantages.of_group(rewards, section)
        assert abs(got.sum()) < 1e-9
        assert np.all(np.diff(got[np.argsort(rewards, kind="stable")]) >= 0)


@given(st.lists(st.sampled_from([0.0, 1.11, 1.12]), min_size=2, max_size=8), st.sampled_from([-3.0, 0.25]))
def test_a_constant_added_to_all_rewards_changes_nothing(rewards: list[float], shift: float) -> None:
    moved = advantages.of_group([r + shift for r in rewards], GRPO)
    assert moved == pytest.approx(advantages.of_group(rewards, GRPO), abs=1e-9)


def test_assign_sets_every_trajectory() -> None:
    groups = [group([1.0, 0.0]), group([0.0, 0.0])]
    advantages.assign(groups, DR_GRPO)
    assert [[t.advantage for t in g.trajectories] for g in groups] == [[0.5, -0.5], [0.0, 0.0]]


@pytest.mark.parametrize("bad", [None, math.nan, math.inf])
def test_a_missing_or_broken_reward_is_refused_by_name(bad: float | None) -> None:
    with pytest.raises(TrainingError, match="task 't', sample 1"):
        advantages.assign([group([1.0, bad])], GRPO)


def test_no_groups_is_fine() -> None:
    advantages.assign([], GRPO)
    assert advantages.of_group([], GRPO).tolist() == []
