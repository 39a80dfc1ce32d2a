"""Which groups are trained on. Nothing that is given is changed; kept groups share their trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentmath.algorithms.resampling import resample
from agentmath.config.algorithm import AlgorithmSection
from agentmath.core.errors import TrainingError
from agentmath.core.types import INFRASTRUCTURE_ENDS, Group, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What passed the filters, and a count of everything that did not."""

    groups: list[Group]
    counts: dict[str, int]
    """groups_in, groups_kept, samples_failed (trajectories lost to the infrastructure), groups_failed (too few
    survivors), groups_all_correct and groups_all_wrong (dropped by dynamic sampling); samples_resampled (left out of
    kept groups by resampling) where samples are resampled at all."""


def keep(groups: Sequence[Group], section: AlgorithmSection, *, min_survivors: int = 2, seed: int = 0) -> Kept:
    """Drop failed samples, then groups with fewer than min_survivors left, then groups that teach nothing; of what is
    left take section.resample_to samples a group, if that is set. seed is the run's.

    Dynamic sampling looks at accuracy, never at the total reward: a tool bonus makes all-correct groups unequal, and
    they would then train on the number of calls alone (DAPO, section 3.2, with the metric "acc").

    Raises TrainingError for an unfinished or, among the survivors, an unscored trajectory.
    """
    names = ("samples_failed", "groups_failed", "groups_all_correct", "groups_all_wrong")
    counts: dict[str, int] = dict.fromkeys((*names, "samples_resampled") if section.resample_to else names, 0)
    kept: list[Group] = []
    for group in groups:
        survivors = [t for t in group.trajectories if not _failed(t)]
        lost = len(group.trajectories) - len(survivors)
        counts["samples_failed"] += lost
        if len(survivors) < min_survivors:
            counts["groups_failed"] += 1
            continue
        verdict = _lesson(survivors) if section.dynamic_sampling else None
        if verdict is not None:
            counts[verdict] += 1
            continue
        chosen = survivors
        if section.resample_to:
            chosen = resample(survivors, section.resample_to, seed=(seed, group.ordinal))
            counts["samples_resampled"] += len(survivors) - len(chosen)
        unchanged = len(chosen) == len(group.trajectories)
        kept.append(group if unchanged else Group(task=group.task, ordinal=group.ordinal, trajectories=chosen))
    return Kept(groups=kept, counts={"groups_in": len(groups), "groups_kept": len(kept), **counts})


def _failed(trajectory: Trajectory) -> bool:
    if not trajectory.is_finished:
        raise TrainingError(
            f"task {trajectory.task.id!r}, sample {trajectory.sample_index} is unfinished "
            f"(stop reason {trajectory.stop_reason}): park it, only finished groups are trained on"
        )
    return trajectory.stop_reason in INFRASTRUCTURE_ENDS


def _lesson(survivors: Sequence[Trajectory]) -> str | None:
    """Name of the count a group without contrast goes to, or None for a group that has some."""
    accuracies = [_accuracy(t) for t in survivors]
    if min(accuracies) != max(accuracies):
        return None
    return "groups_all_correct" if accuracies[0] > 0 else "groups_all_wrong"


def _accuracy(trajectory: Trajectory) -> float:
    if trajectory.reward is None:
        where = f"task {trajectory.task.id!r}, sample {trajectory.sample_index}"
        raise TrainingError(f"{where} has no reward: score groups before filtering")
    return trajectory.reward.accuracy
