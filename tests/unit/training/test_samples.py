from __future__ import annotations

import math

import numpy as np
import pytest

from agentmath.core.errors import TrainingError
from agentmath.core.types import Group, SpanKind, StopReason, Task, Tokens, Trajectory, Turn
from agentmath.training.samples import from_groups, num_targets, prompt_of

KINDS = {"t": SpanKind.THINK, "c": SpanKind.CODE, "a": SpanKind.ANSWER, "I": SpanKind.INTERPRETER}


def tokens(letters: str, *, version: int = 7) -> Tokens:
    """One token per letter; sampled ones get a log-prob of minus their position."""
    n = len(letters)
    kinds = np.array([KINDS[c] for c in letters], dtype=np.uint8)
    sampled = kinds != SpanKind.INTERPRETER
    return Tokens(
        ids=np.arange(n, dtype=np.int32),
        logprobs=np.where(sampled, -np.arange(n), np.nan).astype(np.float32),
        kinds=kinds,
        versions=np.where(sampled, version, -1).astype(np.int32),
    )


def trajectory(
    turns: list[tuple[str, str]], *, prompt: int = 3, advantage: float | None = 0.5, sample_index: int = 0
) -> Trajectory:
    return Trajectory(
        task=Task(id="t", question="q", answer="1"),
        sample_index=sample_index,
        ordinal=4,
        prompt=Tokens.inserted([9] * prompt, SpanKind.PROMPT),
        turns=[
            Turn(role="reasoning", agent=agent, tokens=tokens(letters), stop_reason=StopReason.EOS)
            for agent, letters in turns
        ],
        stop_reason=StopReason.EOS,
        advantage=advantage,
    )


def group(*trajectories: Trajectory) -> Group:
    return Group(task=trajectories[0].task, ordinal=4, trajectories=list(trajectories))


def letters(mask: np.ndarray) -> str:
    return "".join("x" if m else "." for m in mask)


def test_the_worked_example_has_nine_trainable_tokens_of_sixteen() -> None:
    made = from_groups([group(trajectory([("solver", "ttccccIIII"), ("solver", "aaa")]))], {"solver": "main"})
    (sample,) = made.samples
    assert letters(sample.trainable) == "...xxxxxx....xxx"
    assert num_targets(sample) == 9
    assert (sample.policy, sample.key, sample.advantage) == ("main", "4/0", 0.5)
    assert prompt_of(sample) == "4"
    assert sample.ids.tolist() == [9, 9, 9, *range(10), *range(3)]
    assert np.isnan(sample.behaviour_logprobs[~sample.trainable]).all()
    assert sample.versions[sample.trainable].tolist() == [7] * 9


def test_two_policies_in_one_trajectory_train_on_their_own_turns_only() -> None:
    made = from_groups(
        [group(trajectory([("thinker", "tt"), ("coder", "ccII"), ("thinker", "a")]))],
        {"thinker": "big", "coder": "small"},
    )
    assert [(s.policy, letters(s.trainable)) for s in made.samples] == [("big", "...xx....x"), ("small", ".....xx...")]
    assert np.array_equal(made.samples[0].ids, made.samples[1].ids)
    assert [s.policy for s in made.of_policy("small")] == ["small"]


def test_two_agents_of_one_policy_make_one_sample() -> None:
    made = from_groups([group(trajectory([("a", "tt"), ("b", "cI")]))], {"a": "shared", "b": "shared"})
    assert [letters(s.trainable) for s in made.samples] == ["...xxx."]


@pytest.mark.parametrize("turns", [[], [("solver", "")], [("solver", "III")]])
def test_a_trajectory_without_a_sampled_token_is_left_out_and_counted(turns: list[tuple[str, str]]) -> None:
    made = from_groups([group(trajectory(turns), trajectory([("solver", "t")]))], {"solver": "main"})
    assert len(made.samples) == 1
    assert made.num_untrainable == 1


def test_zero_advantage_stays_since_it_is_part_of_the_denominator() -> None:
    made = from_groups([group(trajectory([("solver", "tt")], advantage=0.0))], {"solver": "main"})
    assert [s.advantage for s in made.samples] == [0.0]


def test_a_first_token_without_context_is_no_target() -> None:
    made = from_groups([group(trajectory([("solver", "ttt")], prompt=0))], {"solver": "main"})
    assert letters(made.samples[0].trainable) == ".xx"


@pytest.mark.parametrize("advantage", [None, math.nan, math.inf])
def test_a_missing_advantage_is_refused(advantage: float | None) -> None:
    with pytest.raises(TrainingError, match="trajectory 4/2 has advantage"):
        from_groups([group(trajectory([("solver", "t")], advantage=advantage, sample_index=2))], {"solver": "main"})


def test_an_agent_without_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(TrainingError, match="'tool' has no policy; agents with one: coder, solver"):
        from_groups([group(trajectory([("tool", "t")]))], {"solver": "main", "coder": "main"})


def test_a_sampled_token_without_behaviour_logprob_is_refused() -> None:
    broken = trajectory([("solver", "ttt")])
    broken.turns[0].tokens.logprobs[1] = np.nan
    with pytest.raises(
        TrainingError, match="1 sampled tokens have no finite behaviour log-prob, the first at position 4"
    ):
        from_groups([group(broken)], {"solver": "main"})


def test_no_groups_give_no_samples() -> None:
    assert from_groups([], {}).samples == []
