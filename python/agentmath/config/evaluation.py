"""[evaluation]: how accuracy is measured before, during and after training."""

from __future__ import annotations

from pydantic import Field

from agentmath.config.section import Section


class EvaluationSection(Section):
    num_tasks: int = Field(default=200, ge=1)
    """Held-out tasks per source and evaluation, fewer if the source has fewer."""
    temperature: float = Field(default=1.0, ge=0)
    """0 is greedy."""
    every_steps: int = Field(default=0, ge=0)
    """Evaluate during training too; 0 only before and after."""
