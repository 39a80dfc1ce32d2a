from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.algorithms.curriculum import Progress, advance


def steps(rates: list[float], *, window: int = 1, num_stages: int = 3) -> list[int]:
    """Stage in force after each step of 100 trajectories."""
    progress, stages = Progress(), []
    for rate in rates:
        cut = [True] * round(100 * rate) + [False] * (100 - round(100 * rate))
        progress = advance(progress, cut, num_stages=num_stages, window=window)
        stages.append(progress.stage)
    return stages


def test_stages_end_above_a_tenth_and_not_at_it() -> None:
    assert steps([0.1, 0.09, 0.11, 0.0, 0.2, 0.9]) == [0, 0, 1, 1, 2, 2]


def test_a_window_takes_the_mean_and_starts_anew_with_each_stage() -> None:
    assert steps([0.08, 0.14, 0.5, 0.0, 0.3], window=2) == [0, 1, 1, 2, 2]


def test_one_bad_step_of_many_does_not_end_a_stage() -> None:
    assert steps([0.3, 0.0, 0.0, 0.0, 0.0, 0.0], window=4) == [0] * 6


def test_the_last_stage_does_not_end() -> None:
    assert steps([1.0] * 5, num_stages=2) == [1] * 5
    assert steps([1.0] * 5, num_stages=1) == [0] * 5


def test_a_step_without_finished_trajectories_says_nothing() -> None:
    progress = Progress(stage=1, rates=(0.2,))
    assert advance(progress, [], num_stages=3) == progress


def test_progress_survives_a_checkpoint() -> None:
    progress = Progress(stage=1, rates=(0.05, 0.08))
    data = json.loads(json.dumps(asdict(progress)))
    assert Progress(stage=data["stage"], rates=tuple(data["rates"])) == progress


@given(st.lists(st.lists(st.booleans(), max_size=8), max_size=30), st.integers(1, 4), st.integers(1, 4))
def test_stages_never_fall_and_grow_by_one(history: list[list[bool]], window: int, num_stages: int) -> None:
    progress = Progress()
    for truncated in history:
        after = advance(progress, truncated, num_stages=num_stages, window=window)
        assert 0 <= after.stage - progress.stage <= 1
        assert after.stage < num_stages
        assert len(after.rates) <= window
        progress = after


@pytest.mark.parametrize(("num_stages", "window"), [(0, 1), (3, 0)])
def test_no_stages_or_no_window_is_refused(num_stages: int, window: int) -> None:
    with pytest.raises(ValueError, match="needs stages and a window"):
        advance(Progress(), [True], num_stages=num_stages, window=window)
