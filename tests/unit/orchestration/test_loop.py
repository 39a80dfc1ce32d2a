"""Collecting one step: refills are bounded, nothing that was finished is lost, and rewards are punished once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("torch")

from agentmath.config.load import load_recipe
from agentmath.config.rollout import RolloutSection
from agentmath.core.types import Group, Reward, Segment, SpanKind, StopReason, Task, Tokens, Trajectory, Turn
from agentmath.orchestration.loop import Collected, collect
from agentmath.orchestration.state import RunState
from agentmath.rollout import passes
from agentmath.rollout.collector import Collector
from agentmath.telemetry.stages import StageClock

Accuracies = Callable[[int], Sequence[float | None]]
"""Ordinal of a task -> accuracy of each of its samples, None for one that the infrastructure lost."""
MIXED: Sequence[float | None] = (1.0, 0.0)
WRONG: Sequence[float | None] = (0.0, 0.0)


class Tasks:
    """An endless stream."""

    def task_at(self, ordinal: int) -> Task:
        return Task(id=f"t{ordinal}", question="q", answer="1")


class Rollouts(Collector):
    """Groups that end as they are told to; those of the first `slow` ordinals are parked after their first pass."""

    def __init__(self, section: RolloutSection, accuracies: Accuracies, slow: int) -> None:
        agent = SimpleNamespace(prompt=lambda task: Tokens.inserted([1], SpanKind.PROMPT))
        super().__init__(stage=cast(Any, SimpleNamespace(section=section, agent=agent)), group_size=2)
        self.accuracies, self.slow = accuracies, slow

    def _new_group(self, ordinal: int, task: Task) -> Group:
        self.group_size = len(self.accuracies(ordinal))
        return super()._new_group(ordinal, task)

    async def pass_of(self, trajectory: Trajectory, *_: Any, **__: Any) -> None:
        passes = len(trajectory.segments)
        trajectory.segments.append(Segment(first_turn=0, num_turns=1, step=0, num_sampled_tokens=0, num_tool_calls=0))
        if trajectory.ordinal < self.slow and not passes:
            trajectory.stop_reason = StopReason.SEGMENT
            return
        words = Tokens.inserted([1] * 60, SpanKind.THINK)
        trajectory.turns = [Turn(role="reasoning", agent="a", tokens=words, stop_reason=StopReason.EOS)]
        lost = self.accuracies(trajectory.ordinal)[trajectory.sample_index] is None
        trajectory.stop_reason = StopReason.ERROR if lost else StopReason.EOS


class Recorded(RunState):
    """Knows what was drawn, draw by draw."""

    def draw(self, tasks: Any, count: int) -> list[tuple[int, Task]]:
        found = super().draw(tasks, count)
        if found:
            DRAWN.append([ordinal for ordinal, _ in found])
        return found


DRAWN: list[list[int]] = []


@pytest.fixture(autouse=True)
def _nothing_drawn() -> None:
    DRAWN.clear()


def run_collect(accuracies: Accuracies, *overrides: str, slow: int = 0) -> tuple[Collected, list[list[int]], RunState]:
    """One step that wants 3 groups."""
    bounds = ["--rollout.mode=segments", "--rollout.segment_sampled_tokens=32"] if slow else []
    words = [*bounds, "--rollout.groups_per_step=3", *(f"--{o}" for o in overrides)]
    recipe = load_recipe("quickstart", words)
    rollouts, state = Rollouts(recipe.rollout, accuracies, slow), Recorded()

    def score(groups: Sequence[Group]) -> None:
        for group in groups:
            for trajectory, accuracy in zip(group.trajectories, accuracies(group.ordinal), strict=True):
                if accuracy is not None:
                    trajectory.reward = Reward(total=accuracy, parts={"accuracy": accuracy})

    with asyncio.Runner() as runner, pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "run_pass", rollouts.pass_of)
        parts: Any = SimpleNamespace(
            recipe=recipe,
            rollout=recipe.rollout,
            state=state,
            collector=rollouts,
            tasks=Tasks(),
            run=runner.run,
            score=score,
        )
        return collect(parts, StageClock()), [*DRAWN], state


def ordinals(groups: Sequence[Group]) -> list[int]:
    return [g.ordinal for g in groups]


def test_a_full_step_draws_once() -> None:
    collected, drawn, state = run_collect(lambda _: MIXED, "rollout.max_refills=5")
    assert drawn == [[0, 1, 2]]
    assert ordinals(collected.kept) == [0, 1, 2]
    assert state.next_ordinal == 3


def test_a_refill_draws_what_is_missing_and_no_more() -> None:
    collected, drawn, _ = run_collect(lambda n: WRONG if n in (0, 2, 3) else MIXED, "rollout.max_refills=5")
    assert drawn == [[0, 1, 2], [3, 4], [5]]
    assert ordinals(collected.kept) == [1, 4, 5]
    assert collected.counts["groups_in"] == 6
    assert collected.counts["groups_all_wrong"] == 3


@pytest.mark.parametrize("refills", [0, 1, 4])
def test_refills_are_bounded_when_no_group_teaches_anything(refills: int) -> None:
    collected, drawn, state = run_collect(lambda _: WRONG, f"rollout.max_refills={refills}")
    assert len(drawn) == refills + 1
    assert collected.kept == []
    assert len(collected.seen) == state.next_ordinal == 3 * (refills + 1)
    assert collected.counts["groups_all_wrong"] == 3 * (refills + 1)


def test_what_was_kept_is_trained_on_although_the_step_is_not_full() -> None:
    collected, _, _ = run_collect(lambda n: MIXED if n == 4 else WRONG, "rollout.max_refills=1")
    assert ordinals(collected.kept) == [4]


def test_without_dynamic_sampling_nothing_is_drawn_again() -> None:
    collected, drawn, _ = run_collect(lambda _: WRONG, "rollout.max_refills=5", "algorithm.dynamic_sampling=false")
    assert drawn == [[0, 1, 2]]
    assert len(collected.kept) == 3


def test_parked_groups_count_as_on_their_way() -> None:
    collected, drawn, _ = run_collect(lambda n: WRONG if n == 2 else MIXED, "rollout.max_refills=5", slow=2)
    # Two of the first three are parked; the third teaches nothing, so one is missing. Both come back with it.
    assert drawn == [[0, 1, 2], [3]]
    assert ordinals(collected.kept) == [0, 1, 3]


def test_lost_samples_shrink_a_group_and_lost_groups_are_drawn_anew() -> None:
    lost = {0: (1.0, 0.0, None), 1: (1.0, None, None)}
    collected, _, _ = run_collect(lambda n: lost.get(n, MIXED), "rollout.max_refills=5")
    assert ordinals(collected.kept) == [0, 2, 3]
    assert [len(g.trajectories) for g in collected.kept] == [2, 2, 2]
    assert collected.counts["samples_failed"] == 3
    assert collected.counts["groups_failed"] == 1


def test_no_ordinal_is_drawn_twice() -> None:
    _, drawn, state = run_collect(lambda n: MIXED if n % 4 == 3 else WRONG, "rollout.max_refills=9")
    flat = [o for several in drawn for o in several]
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
