"""[evaluation]: how accuracy is measured before, during and after training, and by `agentmath eval`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentmath.config.section import Section


class EvaluationSection(Section):
    num_tasks: int = Field(default=200, ge=1)
    """Held-out tasks per source and evaluation, fewer if the source has fewer."""
    temperature: float = Field(default=1.0, ge=0)
    """0 is greedy."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Only the likeliest tokens that together have this probability are sampled; 1 leaves all."""
    every_steps: int = Field(default=0, ge=0)
    """Evaluate during training too; 0 only before and after."""
    num_samples: int = Field(default=1, ge=1, le=1 << 16)
    """`agentmath eval`: samples per task, the n of avg@n; pass@k and maj@k are given for every power of two up to n."""
    modes: tuple[Literal["r_only", "r_code"], ...] = ("r_code",)
    """`agentmath eval`: r_code runs programs, r_only reasons without a tool; both give their paired difference."""
    bands: str = ""
    """`agentmath eval`: folder of an earlier evaluation of the same tasks; its shares of right samples sort tasks into
    the bands hard, medium_hard, medium_easy and easy. Its samples must be others than those that are measured."""
    block_samples: int = Field(default=0, ge=0)
    """`agentmath eval`: samples of our own engine that are drawn, graded and kept together; 0 takes twice
    engine.max_rows. What a kill loses is at most one block."""
