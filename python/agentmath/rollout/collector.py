"""Groups of trajectories for the trainer, step after step; those that are not released are kept for a later one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentmath.core.types import Group, Task, Trajectory
from agentmath.rollout import parking
from agentmath.rollout.crew import Crew
from agentmath.rollout.episode import Stage
from agentmath.rollout.scheduler import Scheduler, trajectory_id

Draw = Callable[[int], Sequence[tuple[int, Task]]]
"""The next so many tasks with their ordinals, which rise; fewer when there are no more."""


class Collector:
    """Collects what steps are to train on, by the rules of rollout.mode."""

    def __init__(self, *, stage: Stage, scheduler: Scheduler, pauses: bool = True) -> None:
        """pauses: whether nothing may run while the weights change, see crew.py."""
        self.groups: dict[int, Group] = {}
        """Not released, by ordinal: parked, under way, or finished and waiting for their step."""
        self._scheduler = scheduler
        self._crew = Crew(stage=stage, scheduler=scheduler, pauses=pauses)

    @property
    def stage(self) -> Stage:
        """What the episodes share; a new one holds for those that begin or go on from now on."""
        return self._crew.stage

    @stage.setter
    def stage(self, stage: Stage) -> None:
        self._crew.stage = stage

    @property
    def pauses(self) -> bool:
        """Whether nothing runs between two rounds."""
        return self._crew.pauses

    @property
    def budget_stage(self) -> int:
        """Stage of [curriculum] in force."""
        return self._scheduler.core.stage

    @property
    def parked(self) -> list[Group]:
        """Groups with at least one unfinished trajectory, oldest first."""
        return [group for _, group in sorted(self.groups.items()) if not group.is_finished]

    async def collect(self, draw: Draw, *, wanted: int, step: int, version: int) -> list[Group]:
        """One round for a step that still wants so many groups and trains on them at weights `version`.

        Returns groups that are finished, ordered by ordinal: `wanted` of them or a few more (quota, async), or all that
        ended (batch, segments). Raises EngineError when the step's deadline passes.
        """

        def supply(count: int) -> None:
            drawn = draw(count)
            for ordinal, task in drawn:
                self._submit(self._new_group(ordinal, task))
            if len(drawn) < count:
                self._scheduler.core.close_intake()

        released = await self._crew.run_round(supply, wanted=wanted, step=step, version=version)
        groups = [self.groups.pop(name) for name in sorted(r.group for r in released)]
        for name in self._names(groups):
            del self._crew.trajectories[name]
        return groups

    async def pause(self) -> None:
        """Park all that still runs between two rounds, tokens kept; nothing does where rollouts pause anyhow."""
        await self._crew.pause()

    async def close(self) -> None:
        """End what still runs."""
        await self._crew.close()

    def end_step(self) -> bool:
        """Count how the step's trajectories ended; True when the budgets grow to the next stage of [curriculum]."""
        return self._scheduler.core.end_step()

    def drop_stale(self, groups: Sequence[Group], *, version: int) -> tuple[list[Group], int]:
        """Groups fit for training at `version`, and how many were too old by their oldest sampled token."""
        oldest = version - self.stage.section.max_staleness
        fresh = [g for g in groups if all(_is_fresh(t, oldest) for t in g.trajectories)]
        return fresh, len(groups) - len(fresh)

    def dump(self) -> str:
        """Each unfinished trajectory with its state, since when and why, as JSON for a person."""
        return self._scheduler.dump()

    def figures(self) -> dict[str, float]:
        """Where the rollouts stand between two rounds: metrics of a step."""
        stats = self._scheduler.core.stats()
        return {"groups_in_flight": float(stats.num_groups_in_flight), "groups_ready": float(stats.num_groups_ready)}

    def snapshot(self) -> bytes:
        """All groups that are not released and the scheduler's own state, for a checkpoint between two rounds."""
        groups = [group for _, group in sorted(self.groups.items())]
        return parking.to_bytes(groups, scheduler=self._scheduler.core.snapshot())

    def restore(self, data: bytes) -> None:
        """Go on from a snapshot. Raises CheckpointError when it is damaged."""
        groups, scheduler = parking.read(data)
        if scheduler:
            parking.restore_scheduler(self._scheduler.core, scheduler)
        self.groups = {group.ordinal: group for group in groups}
        self._crew.trajectories = {
            trajectory_id(t.ordinal, t.sample_index): t for group in groups for t in group.trajectories
        }

    def _submit(self, group: Group) -> None:
        self.groups[group.ordinal] = group
        self._crew.trajectories.update(zip(self._names([group]), group.trajectories, strict=True))
        self._scheduler.submit(group)

    def _names(self, groups: Sequence[Group]) -> list[int]:
        return [trajectory_id(t.ordinal, t.sample_index) for group in groups for t in group.trajectories]

    def _new_group(self, ordinal: int, task: Task) -> Group:
        prompt = self.stage.agent.prompt(task)
        return Group(
            task=task,
            ordinal=ordinal,
            trajectories=[
                Trajectory(task=task, sample_index=i, ordinal=ordinal, prompt=prompt)
                for i in range(self.stage.section.group_size)
            ],
        )


def _is_fresh(trajectory: Trajectory, oldest: int) -> bool:
    version = trajectory.oldest_version
    return version is None or version >= oldest
