"""Collecting one step: refills are bounded, nothing that was finished is lost, and rewards are punished once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from agentmath.config.load import load_recipe
from agentmath.core.types import Group, Reward, SpanKind, StopReason, Task, Tokens, Trajectory, Turn
from agentmath.orchestration.loop import Collected, collect
from agentmath.orchestration.state import RunState
from agentmath.rollout.collector import Draw
from agentmath.telemetry.stages import StageClock

Accuracies = Callable[[int], Sequence[float | None]]
"""Ordinal of a task -> accuracy of each of its samples, None for one that the infrastructure lost."""
MIXED: Sequence[float | None] = (1.0, 0.0)
WRONG: Sequence[float | None] = (0.0, 0.0)


class Tasks:
    """An endless stream."""

    def task_at(self, ordinal: int) -> Task:
        return Task(id=f"t{ordinal}", question="q", answer="1")


class Rollouts:
    """Finished groups of whatever is asked for; the first `slow` groups of the run are parked for one pass."""

    def __init__(self, accuracies: Accuracies, slow: int) -> None:
        self.accuracies, self.slow = accuracies, slow
        self.parked: list[Group] = []
        self.drawn: list[list[int]] = []

    async def collect(self, draw: Draw, *, wanted: int, step: int, version: int) -> list[Group]:
        tasks = draw(max(wanted - len(self.parked), 0))
        self.drawn.append([ordinal for ordinal, _ in tasks])
        made = [self._group(ordinal, task) for ordinal, task in tasks]
        done, self.parked = [*self.parked, *made[self.slow :]], made[: self.slow]
        self.slow = 0
        return done

    def drop_stale(self, groups: list[Group], *, version: int) -> tuple[list[Group], int]:
        return groups, 0

    def _group(self, ordinal: int, task: Task) -> Group:
        words = Tokens.inserted([1] * 60, SpanKind.THINK)
        turn = Turn(role="reasoning", agent="a", tokens=words, stop_reason=StopReason.EOS)
        prompt = Tokens.inserted([1], SpanKind.PROMPT)
        made = [
            Trajectory(
                task=task,
                sample_index=i,
                ordinal=ordinal,
                prompt=prompt,
                turns=[turn],
                stop_reason=StopReason.EOS if accuracy is not None else StopReason.ERROR,
            )
            for i, accuracy in enumerate(self.accuracies(ordinal))
        ]
        return Group(task=task, ordinal=ordinal, trajectories=made)


def run_collect(accuracies: Accuracies, *overrides: str, slow: int = 0) -> tuple[Collected, Rollouts, RunState]:
    """One step that wants 3 groups."""
    recipe = load_recipe("quickstart", ["--rollout.groups_per_step=3", *(f"--{o}" for o in overrides)])
    rollouts, state = Rollouts(accuracies, slow), RunState()

    def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(coroutine)

    def score(groups: Sequence[Group]) -> None:
        for group in groups:
            for trajectory, accuracy in zip(group.trajectories, accuracies(group.ordinal), strict=True):
                if accuracy is not None:
                    trajectory.reward = Reward(total=accuracy, parts={"accuracy": accuracy})

    parts: Any = SimpleNamespace(
        recipe=recipe, rollout=recipe.rollout, state=state, collector=rollouts, tasks=Tasks(), run=run, score=score
    )
    return collect(parts, StageClock()), rollouts, state


def ordinals(groups: Sequence[Group]) -> list[int]:
    return [g.ordinal for g in groups]


def test_a_full_step_draws_once() -> None:
    collected, rollouts, state = run_collect(lambda _: MIXED, "rollout.max_refills=5")
    assert rollouts.drawn == [[0, 1, 2]]
    assert ordinals(collected.kept) == [0, 1, 2]
    assert state.next_ordinal == 3


def test_a_refill_draws_what_is_missing_and_no_more() -> None:
    collected, rollouts, _ = run_collect(lambda n: WRONG if n in (0, 2, 3) else MIXED, "rollout.max_refills=5")
    assert rollouts.drawn == [[0, 1, 2], [3, 4], [5]]
    assert ordinals(collected.kept) == [1, 4, 5]
    assert collected.counts["groups_in"] == 6
    assert collected.counts["groups_all_wrong"] == 3


@pytest.mark.parametrize("refills", [0, 1, 4])
def test_refills_are_bounded_when_no_group_teaches_anything(refills: int) -> None:
    collected, rollouts, state = run_collect(lambda _: WRONG, f"rollout.max_refills={refills}")
    assert len(rollouts.drawn) == refills + 1
    assert collected.kept == []
    assert len(collected.seen) == state.next_ordinal == 3 * (refills + 1)
    assert collected.counts["groups_all_wrong"] == 3 * (refills + 1)


def test_what_was_kept_is_trained_on_although_the_step_is_not_full() -> None:
    collected, _, _ = run_collect(lambda n: MIXED if n == 4 else WRONG, "rollout.max_refills=1")
    assert ordinals(collected.kept) == [4]


def test_without_dynamic_sampling_nothing_is_drawn_again() -> None:
    collected, rollouts, _ = run_collect(lambda _: WRONG, "rollout.max_refills=5", "algorithm.dynamic_sampling=false")
    assert rollouts.drawn == [[0, 1, 2]]
    assert len(collected.kept) == 3


def test_parked_groups_count_as_on_their_way() -> None:
    collected, rollouts, _ = run_collect(lambda n: WRONG if n == 2 else MIXED, "rollout.max_refills=5", slow=2)
    # Two of the first three are parked; the third teaches nothing, so one is missing. Both come back with it.
    assert rollouts.drawn == [[0, 1, 2], [3]]
    assert ordinals(collected.kept) == [0, 1, 3]


def test_lost_samples_shrink_a_group_and_lost_groups_are_drawn_anew() -> None:
    lost = {0: (1.0, 0.0, None), 1: (1.0, None, None)}
    collected, _, _ = run_collect(lambda n: lost.get(n, MIXED), "rollout.max_refills=5")
    assert ordinals(collected.kept) == [0, 2, 3]
    assert [len(g.trajectories) for g in collected.kept] == [2, 2, 2]
    assert collected.counts["samples_failed"] == 3
    assert collected.counts["groups_failed"] == 1


def test_no_ordinal_is_drawn_twice() -> None:
    _, rollouts, state = run_collect(lambda n: MIXED if n % 4 == 3 else WRONG, "rollout.max_refills=9")
    flat = [o for drawn in rollouts.drawn for o in drawn]
    assert flat == list(range(state.next_ordinal))


def test_overlong_trajectories_are_punished_once_and_filtered_on_accuracy_all_the_same() -> None:
    # 60 of at most 64 tokens, a buffer of 16: 12 of 16 into it.
    collected, _, _ = run_collect(
        lambda n: MIXED if n else WRONG, "rollout.max_refills=1", "algorithm.overlong_buffer_tokens=16"
    )
    rewards = [t.reward for g in collected.kept for t in g.trajectories]
    assert [r and r.total for r in rewards] == [0.25, -0.75] * 3
    assert all(r is not None and r.parts["overlong"] == -0.75 for r in rewards)
    assert collected.counts["groups_all_wrong"] == 1


def test_resampled_groups_are_smaller_and_repeatable() -> None:
    chosen = []
    for _ in range(2):
        collected, _, _ = run_collect(lambda _: (1.0, 0.0, 0.0, 0.0, 1.0, 0.0), "algorithm.resample_to=4")
        chosen.append([[t.sample_index for t in g.trajectories] for g in collected.kept])
    assert chosen[0] == chosen[1]
    assert all(len(group) == 4 for group in chosen[0])
    assert collected.counts["samples_resampled"] == 6
