"""Carries out what the scheduler decides: begins and interrupts episodes on the running event loop.

    scheduler.decide -> new groups submitted, episodes begun, requests aborted -> reports -> scheduler.decide -> ...

Where the engine decodes with the trainer's own weights everything pauses between rounds: what runs when a round is over
is interrupted, keeps its tokens and is parked. Decisions then follow each report at once, so that what an engine step
holds is a function of tokens alone. Elsewhere episodes go on while the trainer trains, and decisions are made once for
all that the loop's last turn brought, upon the scheduler's wake-up descriptor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentmath._C import rollout
from agentmath.core.errors import EngineError
from agentmath.core.types import Trajectory
from agentmath.rollout.episode import Stage, engine_session, run_pass
from agentmath.rollout.scheduler import Scheduler, one_pass_of, stop_reason

Supply = Callable[[int], None]
"""Submits so many new groups to the scheduler."""


def _nothing() -> None:
    pass


@dataclass(kw_only=True)
class Crew:
    """The episodes under way."""

    stage: Stage
    scheduler: Scheduler
    pauses: bool = True
    """Whether nothing may run between rounds."""
    look: Callable[[], None] = _nothing
    """Called whenever an episode has ended."""
    trajectories: dict[int, Trajectory] = field(default_factory=dict[int, Trajectory])
    """By the scheduler's ids: all that were submitted and not released."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _failure: BaseException | None = None
    _is_over: bool = False
    _watched: asyncio.AbstractEventLoop | None = None
    _step: int = 0
    _supply: Supply | None = None

    async def run_round(self, supply: Supply, *, wanted: int, step: int, version: int) -> list[rollout.Released]:
        """One round from its beginning to its end; the groups that it released.

        Raises EngineError when rollout.deadline_seconds pass. Whatever is raised, no episode is left behind.
        """
        self._supply, self._step, self._is_over, self._news = supply, step, False, asyncio.Event()
        seconds = self.stage.section.deadline_seconds
        try:
            async with asyncio.timeout(seconds):
                self._listen()
                self.scheduler.begin_round(wanted, version=version)
                self._act()
                await self._until(lambda: self._is_over)
                if self.pauses:
                    await self._until(lambda: not self._tasks)
        except TimeoutError as error:
            text = self._overdue(seconds)
            await self.close()
            raise EngineError(text) from error
        except BaseException:
            await self.close()
            raise
        return self.scheduler.core.take_groups()

    async def pause(self) -> None:
        """Bring all that runs to a state that a checkpoint can hold; it goes on with the next round.

        Raises EngineError when that takes longer than rollout.deadline_seconds.
        """
        seconds = self.stage.section.deadline_seconds
        try:
            async with asyncio.timeout(seconds):
                self._abort(self.scheduler.interrupt())
                await self._until(lambda: not self._tasks)
        except TimeoutError as error:
            text = self._overdue(seconds)
            await self.close()
            raise EngineError(text) from error

    async def close(self) -> None:
        """End all episodes; their trajectories keep what they have."""
        if self._watched is not None and not self._watched.is_closed():
            self._watched.remove_reader(self.scheduler.core.wakeup_fd())
        self._watched = self.scheduler.on_change = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _listen(self) -> None:
        """Hear of changes: at once, or once for many."""
        loop = asyncio.get_running_loop()
        if self.pauses:
            self.scheduler.on_change = self._act
        elif self._watched is not loop:
            loop.add_reader(self.scheduler.core.wakeup_fd(), self._wake)
            self._watched = loop

    def _wake(self) -> None:
        """Act from a callback of the loop: what goes wrong is raised where the round is awaited."""
        try:
            self._act()
        except Exception as error:
            self._failure = self._failure or error
            self._news.set()

    def _act(self) -> None:
        """Do what is to be done now."""
        while True:
            todo = self.scheduler.decide()
            for end in todo.ended:
                self.trajectories[end.id].stop_reason = stop_reason(end.reason)
            for grant in todo.grants:
                trajectory = self.trajectories[grant.id]
                self._start(run_pass(trajectory, self.stage, self.scheduler, grant.verdict, step=self._step))
            self._abort(todo.interrupts)
            if todo.round_is_over and not self._is_over:
                self._is_over = True
                self._news.set()
                if self.pauses:
                    self._abort(self.scheduler.interrupt())
                    return
            if todo.num_groups_wanted:
                assert self._supply is not None
                self._supply(todo.num_groups_wanted)
            elif not todo.has_more_grants:
                return

    def _abort(self, ids: Sequence[int]) -> None:
        for name in ids:
            self._start(self.stage.engine.abort(engine_session(self.trajectories[name])))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        self._failure = self._failure or error
        self._news.set()

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self.look()
            if self._failure is not None:
                raise self._failure
            if not self._tasks:
                raise EngineError("no trajectory runs, and yet the step has not all it needs.")
            self._news.clear()
            await self._news.wait()
        self.look()

    def _overdue(self, seconds: float) -> str:
        begun = list(self.trajectories.values())
        waiting = [f"{t.ordinal}/{t.sample_index}" for t in begun if t.stop_reason is None]
        return (
            f"step {self._step}: {len(waiting)} of {len(begun)} trajectories did not end within "
            f"rollout.deadline_seconds = {seconds:g} (first: {', '.join(waiting[:5])}). "
            "Raise the deadline, or lower rollout.max_sampled_tokens or rollout.groups_per_step."
        )


async def run_all(
    trajectories: Sequence[Trajectory], stage: Stage, *, step: int, look: Callable[[], None] = _nothing
) -> None:
    """One pass of every trajectory; all end together or the deadline says which did not. look is called whenever some
    have ended."""
    scheduler = Scheduler(one_pass_of(stage.section))
    crew = Crew(stage=stage, scheduler=scheduler, look=look)
    for name, trajectory in enumerate(trajectories):
        crew.trajectories[scheduler.submit_alone(name, trajectory)] = trajectory
    await crew.run_round(lambda _: None, wanted=0, step=step, version=0)
