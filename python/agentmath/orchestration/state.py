"""Where a run stands: everything a checkpoint holds besides tensors and parked trajectories."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields

from agentmath.core.errors import CheckpointError
from agentmath.core.interfaces import TaskSource
from agentmath.core.types import JSON, Task


@dataclass(slots=True, kw_only=True)
class RunState:
    """Counters of a run. Random numbers need no state: each is a function of the seed and of who draws it."""

    sft_step: int = 0
    """Supervised optimiser steps made."""
    sft_finished: bool = False
    step: int = 0
    """Reinforcement-learning steps made."""
    version: int = 0
    """Weight version that the engine generates with."""
    next_ordinal: int = 0
    """Position in the stream of training tasks: every task before it was drawn."""
    sft_seconds: float = 0.0
    """Time spent in supervised steps, over all restarts."""
    num_tokens: int = 0
    """Context tokens of all trajectories collected for training."""
    train_seconds: float = 0.0
    """Time spent in reinforcement-learning steps, over all restarts."""
    evaluations: list[JSON] = field(default_factory=list)
    """{"stage", "step", "results"} of every evaluation, in order."""

    def draw(self, tasks: TaskSource, count: int) -> list[tuple[int, Task]]:
        """The next tasks of the stream with their ordinals; each ordinal is drawn once in a run."""
        drawn = [(o, tasks.task_at(o)) for o in range(self.next_ordinal, self.next_ordinal + count)]
        self.next_ordinal += count
        return drawn

    def evaluation(self, stage: str) -> JSON | None:
        """The latest evaluation of a stage: "start", "sft" or "rl"."""
        return next((e for e in reversed(self.evaluations) if e["stage"] == stage), None)

    def as_json(self) -> JSON:
        return asdict(self)

    @staticmethod
    def from_json(data: JSON) -> RunState:
        """The state that was saved; CheckpointError when it was saved by another version of the program."""
        names = {f.name for f in fields(RunState)}
        if set(data) != names:
            raise CheckpointError(
                f"the checkpoint's state has the fields {sorted(data)}, this version needs {sorted(names)}: "
                "continue with the version that wrote it, or start a new run from its exported model"
            )
        return RunState(**data)
