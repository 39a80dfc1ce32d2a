"""[algorithm]: advantage, loss and what is trained on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentmath.config.section import Section

Aggregation = Literal[
    "token-mean", "prompt-token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"
]


class AlgorithmSection(Section):
    advantage: Literal["grpo", "dr_grpo"] = "grpo"
    """grpo divides by the group's standard deviation, dr_grpo only subtracts the mean."""
    std_floor: float = Field(default=1e-3, gt=0)
    """Smallest standard deviation that is divided by."""
    aggregation: Aggregation = "token-mean"
    clip_low: float = Field(default=0.2, ge=0, lt=1)
    clip_high: float = Field(default=0.28, ge=0)
    dual_clip: float = Field(default=10.0, gt=1)
    """Bound on ratio x |advantage| for negative advantages."""
    importance_cap: float = Field(default=2.0, gt=0)
    """Cap of the token-level importance weight between proximal and behaviour policy, once they differ."""
    dynamic_sampling: bool = True
    """Drop groups whose accuracies are all equal: they teach nothing about being right."""
