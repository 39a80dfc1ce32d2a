"""The weight w between the proximal policy and the one that sampled, by name: off-policy tokens count less or not.

Shapes: n rows. log w = log prox - log mu per token; every sum and product over a sequence is over its sampled tokens.
w is a constant of the loss: no gradient flows through it. Logarithms are cut at +-MAX_LOG_RATIO before exp.

    none            1
    token_tis       min(w, high)
    icepop          w inside of [low, high], else 0
    sequence_tis    min(product of w, high)
    sequence_mask   the product inside of [low, high], else 0
    geometric_mask  1 where the geometric mean of w lies in [low, high], else 0

Sources: truncation, IMPALA, section 4.1, and Your Efficient RL Framework Secretly Brings You Off-Policy RL Training;
icepop, Every Step Evolves: Scaling Reinforcement Learning for Trillion-Scale Thinking Model; of sequences, When Speed
Kills Stability: Demystifying RL Collapse from the Training-Inference Mismatch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from agentmath_kernels.surrogates import MAX_LOG_RATIO

CorrectionName = Literal["none", "token_tis", "icepop", "sequence_tis", "sequence_mask", "geometric_mask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Which weight, and its bounds; token_tis and sequence_tis do not read low."""

    name: CorrectionName = "token_tis"
    low: float = 0.0
    high: float = 2.0

    @property
    def of_sequence(self) -> bool:
        """True when tokens of one sequence share a weight."""
        return self.name in ("sequence_tis", "sequence_mask", "geometric_mask")

    @property
    def metric(self) -> str:
        """Name of the share of rows that a bound acted on."""
        truncates = self.name in ("token_tis", "sequence_tis")
        return "importance_truncated_fraction" if truncates else "importance_masked_fraction"


class Weights(NamedTuple):
    """Of each row, each [n]."""

    weight: Tensor
    acted: Tensor
    """True where a bound changed the weight."""


class Sequences(NamedTuple):
    """Which rows belong together."""

    number: Tensor
    """[n] int64, 0 .. count - 1."""
    count: int

    def sum(self, values: Tensor) -> Tensor:
        """[n] float64: of each row, the sum of values [n] over its sequence; what is not finite is left out."""
        finite = torch.where(values.isfinite(), values, 0).double()
        sums = torch.zeros(self.count, dtype=torch.float64, device=values.device)
        return sums.index_add_(0, self.number, finite).index_select(0, self.number)

    def mean(self, values: Tensor) -> Tensor:
        """[n] float64: of each row, the mean of values [n] over its sequence; what is not finite is left out."""
        return self.sum(values) / self.sum(values.isfinite().double()).clamp(min=1)


def token_weights(correction: Correction, log_weight: Tensor) -> Weights:
    """Weights of none, token_tis or icepop from log w [n]."""
    weight = log_weight.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    return _bounded(correction, weight, weight)


def sequence_weights(correction: Correction, log_weight: Tensor, sequences: Sequences) -> Weights:
    """Weights of a correction whose of_sequence is True, from log w [n]."""
    if correction.name == "geometric_mask":
        # An infinite weight must not be cut to an ordinary one, or it would count.
        bounded = torch.where(log_weight.isfinite(), log_weight.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO), torch.nan)
        mean = sequences.mean(bounded).exp().to(log_weight.dtype)
        return _bounded(correction, mean, torch.ones_like(mean))
    product = sequences.sum(log_weight).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp().to(log_weight.dtype)
    return _bounded(correction, product, product)


def _bounded(correction: Correction, judged: Tensor, weight: Tensor) -> Weights:
    match correction.name:
        case "none":
            return Weights(torch.ones_like(weight), torch.zeros_like(weight, dtype=torch.bool))
        case "token_tis" | "sequence_tis":
            return Weights(weight.clamp(max=correction.high), judged > correction.high)
        case _:
            outside = (judged < correction.low) | (judged > correction.high)
            return Weights(torch.where(outside, 0, weight), outside)
