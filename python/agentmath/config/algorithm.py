"""[algorithm]: advantage, loss and what is trained on. docs/algorithms.md has every formula with its source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from agentmath.config.section import Section

Advantage = Literal["grpo", "dr_grpo", "rloo", "leave_one_out", "reinforce_plus_plus"]
SurrogateName = Literal["ppo_clip", "gspo", "cispo", "sapo", "dppo"]
CorrectionName = Literal["none", "token_tis", "icepop", "sequence_tis", "sequence_mask", "geometric_mask"]
KlName = Literal["none", "k1", "k2", "k3", "k3+"]
Aggregation = Literal[
    "token-mean", "prompt-token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"
]

PUBLISHED: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    "surrogate": {
        "gspo": {"clip_low": 3e-4, "clip_high": 4e-4},
        "cispo": {"clip_low": 1.0, "clip_high": 4.0},
        "dppo": {"clip_low": 0.2, "clip_high": 0.2},
    },
    "correction": {
        "icepop": {"importance_floor": 0.5, "importance_cap": 5.0},
        "sequence_tis": {"importance_cap": 5.0},
        "sequence_mask": {"importance_floor": 0.5, "importance_cap": 2.0},
        "geometric_mask": {"importance_floor": 0.99, "importance_cap": 1.01},
    },
}
"""Bounds that come with a name, where they are not the section's defaults."""


class AlgorithmSection(Section):
    advantage: Advantage = "grpo"
    """What a reward is compared with: the group (grpo, dr_grpo), the others of the group (rloo, leave_one_out), or all
    tokens of the step (reinforce_plus_plus)."""
    std_floor: float = Field(default=1e-3, gt=0)
    """Smallest standard deviation that is divided by."""
    surrogate: SurrogateName = "ppo_clip"
    """What is maximised at a token; it brings its published clip_low and clip_high unless they are given."""
    aggregation: Aggregation = "token-mean"
    clip_low: float = Field(default=0.2, ge=0, le=1)
    """The ratio is bounded by 1 - clip_low from below (dppo: how much probability an action may lose)."""
    clip_high: float = Field(default=0.28, ge=0)
    """The ratio is bounded by 1 + clip_high from above (dppo: how much probability an action may gain)."""
    dual_clip: float = Field(default=10.0, gt=1)
    """Bound on ratio x |advantage| for negative advantages; of ppo_clip alone."""
    sapo_tau_positive: float = Field(default=1.0, gt=0)
    """Steepness of sapo's gate where the advantage is positive."""
    sapo_tau_negative: float = Field(default=1.05, gt=0)
    """The same where it is negative."""
    correction: CorrectionName = "token_tis"
    """Weight between the proximal and the behaviour policy, once they differ; it brings its published bounds."""
    importance_floor: float = Field(default=0.0, ge=0)
    """Weights below it drop the token (icepop) or the sequence (sequence_mask, geometric_mask)."""
    importance_cap: float = Field(default=2.0, gt=0)
    """Largest weight: larger ones are cut to it (token_tis, sequence_tis) or drop what they belong to."""
    kl: KlName = "none"
    """Penalty on moving away from the weights that reinforcement learning started from; costs a second copy of them."""
    kl_coef: float = Field(default=1e-3, gt=0)
    """What the penalty counts in the loss."""
    entropy_coef: float = Field(default=0.0, ge=0)
    """What the entropy of each sampled token's distribution takes off the loss; above 0 it keeps exploration up."""
    overlong_buffer_tokens: int = Field(default=0, ge=0)
    """Length of the stretch before rollout.max_sampled_tokens in which a reward is lowered step by step; 0 never."""
    overlong_penalty: float = Field(default=1.0, gt=0)
    """What a trajectory loses that generated all it may."""
    dynamic_sampling: bool = True
    """Drop groups whose accuracies are all equal: they teach nothing about being right."""
    resample_to: int = Field(default=0, ge=0)
    """Samples of a group that are trained on, right ones with the cleanest tool use first (GRPO-RoC); 0 takes all."""

    @model_validator(mode="before")
    @classmethod
    def _with_published_bounds(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        values: dict[str, Any] = {**given}
        for key, bounds in PUBLISHED.items():
            name = values.get(key)
            if isinstance(name, str):
                values = {**bounds.get(name, {}), **values}
        return values
