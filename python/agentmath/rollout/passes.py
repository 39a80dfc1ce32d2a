"""Passes that run side by side on one event loop, each begun when the scheduler admits it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from agentmath.core.errors import EngineError
from agentmath.core.types import StopReason, Trajectory
from agentmath.rollout.episode import Stage, engine_session, run_pass
from agentmath.rollout.scheduling import SAMPLES_PER_GROUP, Scheduler, history_of, new_scheduler, outcome_of


class Passes:
    """Tasks of trajectories that run. One wake-up serves everything that ended since the one before."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.trajectories: dict[int, Trajectory] = {}
        """By the scheduler's key; who is done with one takes it out."""
        self._tasks: dict[asyncio.Task[None], int] = {}
        self._news: asyncio.Event | None = None

    @property
    def num_running(self) -> int:
        return len(self._tasks)

    async def run(
        self, stage: Stage, *, step: int, until: Callable[[], bool], refill: Callable[[], None], deadline: float
    ) -> None:
        """Start what is admitted and wait, over and over, until `until` says so; refill() comes before each look.

        deadline: of time.monotonic(). Raises EngineError, with who was waited for, when it passes; everything that runs
        is then ended, as it is when the caller is cancelled.
        """
        self._news = self._news or asyncio.Event()
        try:
            async with asyncio.timeout(max(deadline - time.monotonic(), 0)):
                while True:
                    refill()
                    self._start(stage, step)
                    if until():
                        return
                    await self._news.wait()
                    self._news.clear()
                    self._collect()
        except TimeoutError as error:
            waiting = self._waiting()
            await self.cancel()
            raise EngineError(
                f"step {step}: {len(waiting)} of {len(self.trajectories)} trajectories did not end within "
                f"rollout.deadline_seconds = {stage.section.deadline_seconds:g} (first: {', '.join(waiting[:5])}). "
                "Raise the deadline, or lower rollout.max_sampled_tokens or rollout.groups_per_step."
            ) from error
        except BaseException:
            await self.cancel()
            raise

    async def interrupt(self, stage: Stage) -> None:
        """End every pass at once; what was sampled so far is kept, and the trajectory goes on in a later pass."""
        self._collect()
        for key in self.scheduler.interrupt():
            await stage.engine.abort(engine_session(self.trajectories[key]))
        if self._tasks:
            await asyncio.wait([*self._tasks])
        self._collect()

    async def cancel(self) -> None:
        """End every task; what it had not yet handed over is lost."""
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()

    def _start(self, stage: Stage, step: int) -> None:
        for key in self.scheduler.admit():
            task = asyncio.get_running_loop().create_task(
                run_pass(self.trajectories[key], stage, self.scheduler, key=key, step=step)
            )
            self._tasks[task] = key
            task.add_done_callback(self._wake)

    def _wake(self, task: asyncio.Task[None]) -> None:
        if self._news is not None:
            self._news.set()

    def _collect(self) -> None:
        """Tell the scheduler what has ended; what a task died of is raised."""
        for task in [task for task in self._tasks if task.done()]:
            key = self._tasks.pop(task)
            task.result()
            trajectory = self.trajectories[key]
            if trajectory.stop_reason is StopReason.SEGMENT:
                self.scheduler.park(key)
            else:
                self.scheduler.end(key, outcome_of(trajectory.stop_reason))

    def _waiting(self) -> list[str]:
        found = (t for t in self.trajectories.values() if not t.is_finished)
        return [f"{t.ordinal}/{t.sample_index}" for t in found]


async def run_all(trajectories: Sequence[Trajectory], stage: Stage, *, step: int) -> None:
    """One pass of every trajectory; all end together or the deadline says which did not."""
    mode = "segments" if stage.section.mode == "segments" else "batch"
    section = stage.section.model_copy(update={"groups_per_step": max(len(trajectories), 1), "mode": mode})
    passes = Passes(new_scheduler(section))
    for number, trajectory in enumerate(trajectories):
        passes.trajectories[number * SAMPLES_PER_GROUP] = trajectory
        passes.scheduler.submit(number, [history_of(trajectory)])
    await passes.run(
        stage,
        step=step,
        until=passes.scheduler.is_round_over,
        refill=lambda: None,
        deadline=time.monotonic() + section.deadline_seconds,
    )
