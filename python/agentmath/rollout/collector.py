"""Groups of trajectories, run side by side on one event loop; what a segment bound cut short is parked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentmath.core.types import Group, Task, Trajectory
from agentmath.rollout.episode import Stage, run_all


@dataclass(kw_only=True)
class Collector:
    """Runs passes and keeps unfinished groups between steps."""

    stage: Stage
    parked: list[Group] = field(default_factory=list)
    """Groups with at least one unfinished trajectory, oldest first."""

    @property
    def num_parked(self) -> int:
        return len(self.parked)

    async def collect(self, tasks: Sequence[tuple[int, Task]], *, group_size: int, step: int) -> list[Group]:
        """Run one pass of every parked group and of new groups for (ordinal, task); return those that are finished.

        Groups come back ordered by ordinal. Raises EngineError when the step's deadline passes.
        """
        groups = [*self.parked, *(self._new_group(ordinal, task, group_size) for ordinal, task in tasks)]
        running = [t for group in groups for t in group.trajectories if not t.is_finished]
        await run_all(running, self.stage, step=step)
        self.parked = [g for g in groups if not g.is_finished]
        return [g for g in groups if g.is_finished]

    def drop_stale(self, groups: Sequence[Group], *, version: int) -> tuple[list[Group], int]:
        """Groups fit for training at `version`, and how many were too old by their oldest sampled token."""
        oldest = version - self.stage.section.max_staleness
        fresh = [g for g in groups if all(_is_fresh(t, oldest) for t in g.trajectories)]
        return fresh, len(groups) - len(fresh)

    def _new_group(self, ordinal: int, task: Task, group_size: int) -> Group:
        prompt = self.stage.agent.prompt(task)
        return Group(
            task=task,
            ordinal=ordinal,
            trajectories=[
                Trajectory(task=task, sample_index=i, ordinal=ordinal, prompt=prompt) for i in range(group_size)
            ],
        )


def _is_fresh(trajectory: Trajectory, oldest: int) -> bool:
    version = trajectory.oldest_version
    return version is None or version >= oldest
