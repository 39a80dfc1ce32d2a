"""Accuracy on held-out tasks, with the tool, one sample a task."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from agentmath.core.types import JSON, Group, StopReason, Task, Trajectory
from agentmath.evaluation.intervals import wilson
from agentmath.rollout.crew import run_all
from agentmath.rollout.episode import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalResult:
    """What one evaluation measured. Shares are over graded samples; infrastructure failures are counted apart."""

    name: str
    num_graded: int
    num_failed: int
    """Samples lost to infrastructure failures: not graded, in no share."""
    accuracy: float
    accuracy_low: float
    """Lower end of the 95 % Wilson interval."""
    accuracy_high: float
    tool_use: float
    """Share of samples with at least one executed call."""
    tool_calls_mean: float
    sampled_tokens_mean: float
    truncated: float
    """Share of samples cut by a token budget."""
    seconds: float

    def as_json(self) -> JSON:
        return asdict(self)


async def evaluate(
    name: str, tasks: Sequence[Task], stage: Stage, *, score: Callable[[Sequence[Group]], None], step: int
) -> tuple[EvalResult, list[Group]]:
    """Sample every task once and grade it; returns the figures and the graded groups of one."""
    start = time.monotonic()
    groups = [
        Group(
            task=task,
            ordinal=index,
            trajectories=[Trajectory(task=task, sample_index=0, ordinal=index, prompt=stage.agent.prompt(task))],
        )
        for index, task in enumerate(tasks)
    ]
    trajectories = [g.trajectories[0] for g in groups]
    await run_all(trajectories, stage, step=step)
    score(groups)
    return summarise(name, trajectories, seconds=time.monotonic() - start), groups


def summarise(name: str, trajectories: Sequence[Trajectory], *, seconds: float) -> EvalResult:
    """Figures of finished, scored trajectories."""
    graded = [t for t in trajectories if t.reward is not None]
    right = sum(t.reward.accuracy == 1.0 for t in graded if t.reward is not None)
    low, high = wilson(right, len(graded))

    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values) if values else 0.0

    return EvalResult(
        name=name,
        num_graded=len(graded),
        num_failed=len(trajectories) - len(graded),
        accuracy=right / len(graded) if graded else 0.0,
        accuracy_low=low,
        accuracy_high=high,
        tool_use=mean([t.num_tool_calls > 0 for t in graded]),
        tool_calls_mean=mean([t.num_tool_calls for t in graded]),
        sampled_tokens_mean=mean([t.num_sampled_tokens for t in graded]),
        truncated=mean([t.stop_reason is StopReason.LENGTH for t in graded]),
        seconds=seconds,
    )
