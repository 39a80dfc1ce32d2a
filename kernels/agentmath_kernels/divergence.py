"""Estimates of KL(pi || reference) at a sampled token, by name, as a penalty on the loss.

Shapes: c rows. With d = log pi - log reference:

    k1    d                      slope 1: its gradient has mean 0, so it reports a distance and does not restrain
    k2    d^2 / 2                slope d: the gradient of the divergence itself, on average
    k3    exp(-d) - 1 + d        slope 1 - exp(-d); never negative, little variance. d is cut at +-MAX_LOG_RATIO, where
                                 the slope ends
    k3+   the value of k3        slope d: k2's gradient, handed through

Schulman, Approximating KL Divergence; k3 in a loss: DeepSeekMath, equation 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from agentmath_kernels.surrogates import MAX_LOG_RATIO

Estimate = Literal["k1", "k2", "k3", "k3+"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kl:
    """Which estimate, and what it counts in the loss."""

    estimate: Estimate = "k3"
    coef: float = 1e-3


class Penalty(NamedTuple):
    """Of each row, each [c]; without the coefficient."""

    value: Tensor
    dlogp: Tensor


def penalty(estimate: Estimate, logp: Tensor, reference: Tensor) -> Penalty:
    """The estimate from log pi and log reference, each [c]."""
    d = logp - reference
    if estimate == "k1":
        return Penalty(d, torch.ones_like(d))
    if estimate == "k2":
        return Penalty(d * d / 2, d)
    cut = d.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    value = torch.expm1(-cut) + cut
    if estimate == "k3+":
        return Penalty(value, d)
    return Penalty(value, torch.where(d == cut, -torch.expm1(-d), 0))
