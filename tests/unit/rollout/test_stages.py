"""Budgets that grow: the scheduler's rule against a few lines of Python."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentmath._C import rollout

Step = list[bool]
"""Of each trajectory that ended: was it cut off by a budget."""


def twin(history: list[Step], *, window: int, num_stages: int, threshold: float) -> list[int]:
    """Stage in force after each step (AgentMath: more than 10 % cut off)."""
    stage, rates, stages = 0, [], []
    for step in history:
        if step:
            rates = [*rates, sum(step) / len(step)][-window:]
            if len(rates) == window and sum(rates) / window > threshold and stage + 1 < num_stages:
                stage, rates = stage + 1, []
        stages.append(stage)
    return stages


def scheduled(
    history: list[Step], *, window: int = 1, num_stages: int = 3, threshold: float = 0.1, restart: bool = False
) -> list[int]:
    """The same by a scheduler, to which every step is a group."""
    settings = rollout.Settings()
    settings.stages = [rollout.Budgets() for _ in range(num_stages)]
    settings.window_steps, settings.truncation_rate = window, threshold
    core, stages = rollout.Scheduler(settings), []
    for group, step in enumerate(history):
        core.begin_round(min(len(step), 1), 0)
        if step:
            core.submit(group, 5, len(step), 0)
        for grant, is_cut in zip(core.decide(0).grants, step, strict=True):
            outcome = rollout.Outcome.LENGTH if is_cut else rollout.Outcome.FINISHED
            core.generated(grant.verdict.ticket, 6, 1, 1, 0, 0, outcome, 0)
        assert len(core.take_groups()) == min(len(step), 1)
        before = core.stage
        assert core.end_step() == (core.stage != before)
        stages.append(core.stage)
        if restart:
            bytes_ = core.snapshot()
            core = rollout.Scheduler(settings)
            core.restore(bytes_)
    return stages


def cut(share: float) -> Step:
    return [True] * round(100 * share) + [False] * (100 - round(100 * share))


def test_stages_end_above_a_tenth_and_not_at_it() -> None:
    assert scheduled([cut(r) for r in (0.1, 0.09, 0.11, 0.0, 0.2, 0.9)]) == [0, 0, 1, 1, 2, 2]


def test_a_window_takes_the_mean_and_starts_anew_with_each_stage() -> None:
    assert scheduled([cut(r) for r in (0.08, 0.14, 0.5, 0.0, 0.3)], window=2) == [0, 1, 1, 2, 2]


def test_the_last_stage_does_not_end() -> None:
    assert scheduled([cut(1.0)] * 5, num_stages=2) == [1] * 5
    assert scheduled([cut(1.0)] * 5, num_stages=1) == [0] * 5


@given(
    st.lists(st.lists(st.booleans(), max_size=6), max_size=20),
    st.integers(1, 4),
    st.integers(1, 4),
    st.floats(0, 1),
    st.booleans(),
)
def test_any_history_gives_what_the_twin_gives(
    history: list[Step], window: int, num_stages: int, threshold: float, restart: bool
) -> None:
    expected = twin(history, window=window, num_stages=num_stages, threshold=threshold)
    found = scheduled(history, window=window, num_stages=num_stages, threshold=threshold, restart=restart)
    assert found == expected
