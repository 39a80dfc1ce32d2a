"""Draw the samples that an evaluation still lacks.

Our own engine draws in blocks whose members are fixed beforehand: the tokens of a sample depend, by rounding, on who is
decoded beside it, so a block that was cut short is drawn again as a whole and comes out the same. A served model is
asked for single samples, each kept when it is there: what was paid for is never asked for again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agentmath.core.errors import EngineError
from agentmath.core.types import Group, Task, Trajectory
from agentmath.evaluation.store import Key, Store
from agentmath.rollout.crew import run_all
from agentmath.rollout.episode import Stage

Score = Callable[[Sequence[Group]], None]
_FEWEST_FAILURES = 8
"""Samples lost one after another, at least, before the rest is not even tried."""


@dataclass(kw_only=True)
class Draw:
    """One evaluation at work."""

    tasks: Sequence[Task]
    num_samples: int
    stage: Stage
    store: Store
    score: Score
    """Sets the rewards of finished groups."""
    counts: Callable[[], Mapping[str, int]]
    """What the engine has counted since it was made."""
    tell: Callable[[int], None]
    """Called with the number of samples that have ended."""
    lost: dict[Key, Trajectory] = field(default_factory=dict)
    """Samples that the infrastructure lost in this life."""
    _last: float = field(default_factory=time.monotonic)
    _counted: Counter[str] = field(default_factory=Counter)
    _row: int = 0
    """Samples lost since the last one that was not."""

    def __post_init__(self) -> None:
        self._counted = Counter(self.counts())

    @property
    def keys(self) -> list[Key]:
        """All samples, those of a task side by side."""
        return [(o, i) for o in range(len(self.tasks)) for i in range(self.num_samples)]

    def new(self, key: Key) -> Trajectory:
        """A sample that has not begun."""
        task = self.tasks[key[0]]
        prompt = self.stage.agent.prompt(task)
        return Trajectory(task=task, sample_index=key[1], ordinal=key[0], prompt=prompt)

    def finish(self, trajectories: Sequence[Trajectory]) -> None:
        """Grade and keep samples that have ended. Raises EngineError when only failures come."""
        self.score([Group(task=t.task, ordinal=t.ordinal, trajectories=[t]) for t in trajectories])
        now, counted = time.monotonic(), Counter(self.counts())
        self.store.keep(trajectories, seconds=now - self._last, counts=counted - self._counted)
        self._last, self._counted = now, counted
        for t in trajectories:
            if t.reward is None:
                self.lost[t.ordinal, t.sample_index] = t
            self._row = self._row + 1 if t.reward is None else 0
        most = max(_FEWEST_FAILURES, len(trajectories))
        if self._row >= most:
            raise EngineError(
                f"{self._row} samples one after another were lost to the infrastructure; the last said: "
                f"{trajectories[-1].error}. What was drawn before is kept: the same command goes on from there"
            )

    def groups(self) -> list[Group]:
        """All samples of all tasks, those that were lost included."""
        found = {**self.lost, **self.store.done}
        rows = [[found[o, i] for i in range(self.num_samples) if (o, i) in found] for o in range(len(self.tasks))]
        return [Group(task=t, ordinal=o, trajectories=rows[o]) for o, t in enumerate(self.tasks)]


async def draw_blocks(draw: Draw, *, block_samples: int) -> None:
    """Draw what is missing, block by block."""
    for block in _blocks(draw.keys, block_samples):
        missing = [draw.new(key) for key in block if key not in draw.store.done]
        if missing:
            await run_all(missing, draw.stage, step=0, look=_teller(draw, missing))
            draw.finish(missing)


async def draw_singly(draw: Draw, *, max_concurrent: int) -> None:
    """Draw what is missing, so many samples at a time; each is kept as soon as it has ended."""
    keys = iter([key for key in draw.keys if key not in draw.store.done])

    async def work() -> None:
        for key in keys:
            trajectory = draw.new(key)
            await run_all([trajectory], draw.stage, step=0)
            draw.finish([trajectory])
            draw.tell(len(draw.store.done))

    workers = [asyncio.ensure_future(work()) for _ in range(max_concurrent)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


def _teller(draw: Draw, running: Sequence[Trajectory]) -> Callable[[], None]:
    """Tells how many samples have ended while a block runs."""
    waiting = list(running)

    def look() -> None:
        waiting[:] = [t for t in waiting if not t.is_finished]
        draw.tell(len(draw.store.done) + len(running) - len(waiting))

    return look


def _blocks(keys: Sequence[Key], size: int) -> Iterator[Sequence[Key]]:
    for begin in range(0, len(keys), size):
        yield keys[begin : begin + size]
