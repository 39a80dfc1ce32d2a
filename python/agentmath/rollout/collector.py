"""Groups of trajectories over the steps of a run: begun, run, kept between steps, handed out when they have ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from agentmath.core.types import Group, Task, Trajectory
from agentmath.rollout.episode import Stage
from agentmath.rollout.passes import Passes
from agentmath.rollout.scheduling import (
    SAMPLES_PER_GROUP,
    Scheduler,
    State,
    budgets_of,
    has_quota,
    history_of,
    new_scheduler,
)

Draw = Callable[[int], Sequence[tuple[int, Task]]]
"""Asked for n new tasks, gives n of them with their ordinals."""


class Collector:
    """Runs passes and keeps groups between steps: unfinished ones, and those that are fit but not yet trained on.

    A step is begin_step, then advance until is_step_over, then end_step. What advance returns has left the collector;
    keep gives back what a later step may train on.
    """

    def __init__(self, *, stage: Stage, group_size: int) -> None:
        self.stage = stage
        self.group_size = group_size
        self.scheduler: Scheduler = new_scheduler(stage.section)
        self._passes = Passes(self.scheduler)
        self._groups: dict[int, Group] = {}
        self._ready: list[Group] = []
        self._deadline = 0.0

    @property
    def has_quota(self) -> bool:
        """True where a step trains on just as many groups as it asks for."""
        return has_quota(self.stage.section)

    @property
    def unfinished(self) -> list[Group]:
        """Groups that were begun and have not ended, oldest first."""
        return [self._groups[ordinal] for ordinal in sorted(self._groups)]

    @property
    def kept(self) -> list[Group]:
        """What a checkpoint must hold: unfinished groups, and those that wait to be trained on."""
        return [*self.unfinished, *self._ready]

    def enter_stage(self, stage: Stage) -> None:
        """Go on with other budgets, or another engine."""
        self.stage = stage
        self.scheduler.set_budgets(budgets_of(stage.section))

    def restore(self, groups: Sequence[Group]) -> None:
        """Take over what an earlier life has kept."""
        self._ready = [g for g in groups if _is_judged(g)]
        for group in (g for g in groups if not _is_judged(g)):
            self._submit(group)

    def begin_step(self, version: int) -> list[Group]:
        """Weights have this version now. Returns groups that ended earlier and are to be looked at first."""
        self._deadline = time.monotonic() + self.stage.section.deadline_seconds
        self.scheduler.begin_step(version)
        ready, self._ready = self._ready, []
        return ready

    async def advance(self, draw: Draw, *, step: int) -> list[Group]:
        """Run until the round is over, or enough groups have ended; returns those, oldest first.

        Raises EngineError when the step's deadline passes.
        """

        def refill() -> None:
            for ordinal, task in draw(self.scheduler.num_wanted()):
                self._submit(self._new_group(ordinal, task))

        self.scheduler.begin_round()
        await self._passes.run(
            self.stage, step=step, until=self.scheduler.is_round_over, refill=refill, deadline=self._deadline
        )
        return self._release()

    def credit(self, num_kept: int) -> None:
        """So many of the groups that were handed out are to be trained on in this step."""
        self.scheduler.credit(num_kept)

    @property
    def is_step_over(self) -> bool:
        return self.scheduler.is_step_over()

    async def end_step(self) -> list[Group]:
        """Where a step leaves groups unfinished, interrupt what runs, async but for a checkpoint's sake; returns groups
        that ended just then."""
        if self.has_quota and self.stage.section.mode != "async":
            await self._passes.interrupt(self.stage)
        return self._release()

    async def interrupt(self) -> None:
        """Bring everything that runs to a state that a checkpoint can hold."""
        await self._passes.interrupt(self.stage)

    def keep(self, groups: Sequence[Group]) -> None:
        """Groups for a later step to train on."""
        self._ready += groups

    def drop_stale(self, groups: Sequence[Group]) -> tuple[list[Group], int]:
        """Groups fit for training now, and how many are too old by their oldest sampled token."""
        fresh = [g for g in groups if all(self._is_fresh(t) for t in g.trajectories)]
        return fresh, len(groups) - len(fresh)

    def _is_fresh(self, trajectory: Trajectory) -> bool:
        return self.scheduler.is_fresh(history_of(trajectory).oldest_version)

    def _release(self) -> list[Group]:
        released = [self._groups.pop(ordinal) for ordinal in self.scheduler.release()]
        for group in released:
            for t in group.trajectories:
                del self._passes.trajectories[_key(t)]
        return released

    def _submit(self, group: Group) -> None:
        self._groups[group.ordinal] = group
        self._passes.trajectories.update({_key(t): t for t in group.trajectories})
        self.scheduler.submit(group.ordinal, [history_of(t) for t in group.trajectories])
        for t in group.trajectories:
            if t.is_finished:
                self.scheduler.end(_key(t), State.DONE)

    def _new_group(self, ordinal: int, task: Task) -> Group:
        prompt = self.stage.agent.prompt(task)
        return Group(
            task=task,
            ordinal=ordinal,
            trajectories=[
                Trajectory(task=task, sample_index=i, ordinal=ordinal, prompt=prompt) for i in range(self.group_size)
            ],
        )


def _is_judged(group: Group) -> bool:
    return all(t.reward is not None for t in group.trajectories)


def _key(trajectory: Trajectory) -> int:
    return trajectory.ordinal * SAMPLES_PER_GROUP + trajectory.sample_index
