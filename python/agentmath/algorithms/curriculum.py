"""Budgets that grow by stage when too many trajectories run into them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

THRESHOLD = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a run stands; a checkpoint holds it as it is."""

    stage: int = 0
    """Index of the stage in force."""
    rates: tuple[float, ...] = ()
    """Truncation rates of the latest steps of this stage, oldest first."""


def advance(
    progress: Progress, truncated: Sequence[bool], *, num_stages: int, window: int = 1, threshold: float = THRESHOLD
) -> Progress:
    """Where the run stands after a step whose finished trajectories were cut off by a budget, or not.

    The stage ends when the mean truncation rate of its last `window` steps is above the threshold (AgentMath: 10 %);
    the next one starts to count anew. The last stage does not end. A step in which nothing finished changes nothing.

    Example: rates of 0.08 and 0.14 have mean 0.11: with a window of 2 the stage ends after the second step.
    """
    if window < 1 or num_stages < 1:
        raise ValueError(f"a curriculum needs stages and a window of steps, got {num_stages} stages, window {window}")
    if not truncated:
        return progress
    rates = (*progress.rates, sum(truncated) / len(truncated))[-window:]
    has_seen_enough = len(rates) == window and sum(rates) / window > threshold
    if has_seen_enough and progress.stage + 1 < num_stages:
        return Progress(stage=progress.stage + 1)
    return Progress(stage=progress.stage, rates=rates)
