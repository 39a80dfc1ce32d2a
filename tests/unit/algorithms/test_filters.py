from __future__ import annotations

import copy
from collections.abc import Sequence

import pytest

from agentmath.algorithms import filters
from agentmath.config.algorithm import AlgorithmSection
from agentmath.core.errors import TrainingError
from agentmath.core.types import Group, Reward, SpanKind, StopReason, Task, Tokens, Trajectory

DYNAMIC = AlgorithmSection.model_validate({})
ALL = AlgorithmSection.model_validate({"dynamic_sampling": False})


def group(samples: Sequence[tuple[float, float] | StopReason | None], ordinal: int = 0) -> Group:
    """Each sample is (accuracy, total), or a stop reason without reward."""
    task = Task(id=f"t{ordinal}", question="q", answer="1")
    trajectories = []
    for i, sample in enumerate(samples):
        scored = isinstance(sample, tuple)
        trajectories.append(
            Trajectory(
                task=task,
                sample_index=i,
                ordinal=ordinal,
                prompt=Tokens.inserted([1], SpanKind.PROMPT),
                stop_reason=StopReason.ANSWER if scored else sample,
                reward=Reward(total=sample[1], parts={"accuracy": sample[0]}) if scored else None,
            )
        )
    return Group(task=task, ordinal=ordinal, trajectories=trajectories)


def test_groups_without_contrast_are_dropped_and_counted() -> None:
    groups = [group([(1, 1), (0, 0)], 0), group([(1, 1), (1, 1)], 1), group([(0, 0), (0, 0)], 2)]
    kept = filters.keep(groups, DYNAMIC)
    assert [g.ordinal for g in kept.groups] == [0]
    assert kept.counts == {
        "groups_in": 3,
        "groups_kept": 1,
        "samples_failed": 0,
        "groups_failed": 0,
        "groups_all_correct": 1,
        "groups_all_wrong": 1,
    }


def test_a_tool_bonus_does_not_make_an_all_correct_group_worth_training() -> None:
    assert filters.keep([group([(1, 1.11), (1, 1.12)])], DYNAMIC).groups == []


def test_equal_totals_with_unequal_accuracy_are_kept() -> None:
    assert len(filters.keep([group([(1, 0.5), (0, 0.5)])], DYNAMIC).groups) == 1


def test_without_dynamic_sampling_everything_finished_is_kept() -> None:
    groups = [group([(1, 1), (1, 1)]), group([(0, 0), (0, 0)], 1)]
    assert filters.keep(groups, ALL).groups == groups


def test_failed_samples_leave_and_survivors_stay() -> None:
    given = group([(1, 1), StopReason.ERROR, (0, 0), StopReason.ABORTED])
    before = list(given.trajectories)
    kept = filters.keep([given], DYNAMIC)
    assert [t.sample_index for t in kept.groups[0].trajectories] == [0, 2]
    assert kept.groups[0].trajectories[0] is before[0]
    assert kept.counts["samples_failed"] == 2
    assert given.trajectories == before


@pytest.mark.parametrize(
    ("survivors", "minimum", "is_kept"), [(2, 2, True), (1, 2, False), (2, 3, False), (0, 2, False)]
)
def test_too_few_survivors_drop_the_group(survivors: int, minimum: int, is_kept: bool) -> None:
    samples = [*[(1.0, 1.0), (0.0, 0.0)][:survivors], *[StopReason.ERROR] * (4 - survivors)]
    kept = filters.keep([group(samples)], DYNAMIC, min_survivors=minimum)
    assert bool(kept.groups) == is_kept
    assert kept.counts["groups_failed"] == int(not is_kept)
    assert kept.counts["samples_failed"] == 4 - survivors


def test_a_failure_is_not_a_wrong_answer() -> None:
    # Were the failed sample scored 0, the group would look as if it had contrast.
    kept = filters.keep([group([(1, 1), (1, 1), StopReason.ERROR])], DYNAMIC)
    assert kept.groups == []
    assert kept.counts["groups_all_correct"] == 1


def test_nothing_that_was_dropped_is_changed() -> None:
    groups = [group([(1, 1), (1, 1)]), group([StopReason.ERROR, (1, 1)], 1)]
    shadows = [[(t.stop_reason, copy.copy(t.reward), t.advantage) for t in g.trajectories] for g in groups]
    filters.keep(groups, DYNAMIC)
    assert [[(t.stop_reason, t.reward, t.advantage) for t in g.trajectories] for g in groups] == shadows


@pytest.mark.parametrize("unfinished", [None, StopReason.SEGMENT])
def test_an_unfinished_trajectory_is_refused(unfinished: StopReason | None) -> None:
    with pytest.raises(TrainingError, match="sample 1 is unfinished"):
        filters.keep([group([(1, 1), unfinished])], DYNAMIC)


def test_an_unscored_survivor_is_refused() -> None:
    with pytest.raises(TrainingError, match="no reward"):
        filters.keep([group([(1, 1), StopReason.EOS])], DYNAMIC)


def test_no_groups_is_fine() -> None:
    assert filters.keep([], DYNAMIC).counts["groups_in"] == 0
