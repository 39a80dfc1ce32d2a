from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.algorithms.estimators import of_group, of_step
from agentmath.config.algorithm import Advantage, AlgorithmSection


def section(advantage: str, **more: Any) -> AlgorithmSection:
    return AlgorithmSection.model_validate({"advantage": advantage, **more})


OF_GROUP = [name for name in get_args(Advantage) if name != "reinforce_plus_plus"]
PLUS = section("reinforce_plus_plus")


def masked_returns(rewards: list[float], mask: list[bool]) -> list[float]:
    """Undiscounted returns of the tokens in mask; the others take no part and reset nothing."""
    total, found = 0.0, []
    for reward, counts in zip(reversed(rewards), reversed(mask), strict=True):
        if counts:
            total += reward
            found.append(total)
    return found[::-1]


def test_rloo_by_hand() -> None:
    # The others of 2 are (1, 0): 2 - 1/2; of 1: 1 - 1; of 0: 0 - 3/2.
    assert of_group([2, 1, 0], section("rloo")) == pytest.approx([1.5, 0.0, -1.5])


def test_leave_one_out_by_hand() -> None:
    # The others of a 1 are (1, 0, 0): mean 1/3, std sqrt(1/3).
    a = (1 - 1 / 3) / math.sqrt(1 / 3)
    assert of_group([1, 1, 0, 0], section("leave_one_out")) == pytest.approx([a, a, -a, -a])


def test_leave_one_out_does_not_divide_by_others_that_do_not_differ() -> None:
    got = of_group([1.11] * 7 + [0.0], section("leave_one_out"))
    assert got[7] == -1.11
    # Six of 1.11 and one 0 have mean 0.951... and std 1.11 sqrt(1/7).
    assert got[0] == pytest.approx((1.11 - 1.11 * 6 / 7) / (1.11 * math.sqrt(1 / 7)))
    assert of_group([1.0, 1.0 + 1e-6, 1.0, 0.0], section("leave_one_out"))[3] == pytest.approx(-1.0, abs=1e-5)


def test_a_pair_has_one_other_each() -> None:
    for name in ("rloo", "leave_one_out"):
        assert of_group([1.0, 0.25], section(name)).tolist() == [0.75, -0.75]


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=12))
def test_rloo_is_dr_grpo_on_a_larger_scale(rewards: list[float]) -> None:
    n = len(rewards)
    expected = of_group(rewards, section("dr_grpo")) * n / (n - 1)
    assert of_group(rewards, section("rloo")) == pytest.approx(expected)


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=12), st.sampled_from(OF_GROUP))
def test_advantages_are_finite_and_bounded_by_the_floor(rewards: list[float], name: str) -> None:
    got = of_group(rewards, section(name))
    assert bool(np.isfinite(got).all())
    assert np.abs(got).max() <= 6 / 1e-3 + 1e-9


@given(st.lists(st.sampled_from([0.0, 1.11, 1.12, 1.18]), min_size=1, max_size=8), st.sampled_from(OF_GROUP))
def test_equal_samples_get_equal_advantages(rewards: list[float], name: str) -> None:
    got = of_group(rewards, section(name))
    for value in set(rewards):
        same = got[np.asarray(rewards) == value]
        assert same == pytest.approx(same[0])


@pytest.mark.parametrize("name", OF_GROUP)
@pytest.mark.parametrize("rewards", [[], [0.7], [1.11] * 7])
def test_nothing_to_compare_with_is_zero(name: str, rewards: list[float]) -> None:
    assert of_group(rewards, section(name)).tolist() == [0.0] * len(rewards)


def test_a_step_is_not_a_group() -> None:
    with pytest.raises(ValueError, match="of_step"):
        of_group([1, 0], PLUS)


def test_reinforce_plus_plus_by_hand() -> None:
    # Returns (1, 0, 0, 0): mean 1/4, unbiased std 1/2.
    assert of_step([1.0, 0.0], [1, 3], PLUS) == pytest.approx([1.5, -0.5])


def test_reinforce_plus_plus_equals_whitened_returns_that_skip_tool_tokens() -> None:
    # Two calls with tool output (False) in between: tokens before a call see the reward that comes after it.
    masks = [[True, True, False, False, True, False, True], [False, True, True], [True, False, True]]
    rewards = [1.11, 0.0, 1.0]
    returns = [
        masked_returns([0.0] * (len(mask) - 1) + [reward] if mask[-1] else [0.0], mask)
        for reward, mask in zip(rewards, masks, strict=True)
    ]
    assert returns[0] == [1.11] * 4
    every = np.concatenate(returns)
    white = (every - every.mean()) / every.std(ddof=1)
    got = of_step(rewards, [sum(m) for m in masks], PLUS)
    assert np.repeat(got, [sum(m) for m in masks]) == pytest.approx(white)


@pytest.mark.parametrize(
    ("rewards", "tokens"), [([], []), ([1.0], [5]), ([1.11] * 6, [1, 2, 3, 4, 5, 6]), ([1.0, 0.0], [4, 0])]
)
def test_a_step_without_contrast_has_no_advantage(rewards: list[float], tokens: list[int]) -> None:
    assert of_step(rewards, tokens, PLUS).tolist() == [0.0] * len(rewards)


@given(st.lists(st.tuples(st.floats(-3, 3), st.integers(1, 50)), min_size=1, max_size=10))
def test_advantages_of_a_step_have_mean_zero_over_its_tokens(pairs: list[tuple[float, int]]) -> None:
    rewards, tokens = [r for r, _ in pairs], [n for _, n in pairs]
    got = of_step(rewards, tokens, PLUS)
    assert abs(float((got * tokens).sum()) / sum(tokens)) < 1e-9
    assert float((got**2 * tokens).sum() / max(1, sum(tokens) - 1)) <= 1 + 1e-9


def test_two_trajectories_of_one_token_each_have_a_deviation() -> None:
    assert of_step([1.0, 0.0], [1, 1], PLUS) == pytest.approx([math.sqrt(0.5), -math.sqrt(0.5)])
