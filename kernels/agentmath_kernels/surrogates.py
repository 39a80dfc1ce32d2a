"""What is maximised at each sampled token, by name: the surrogates of a policy gradient that bound how far it moves.

Shapes: c rows. With pi the current policy and prox the one that moves are measured from, r = pi / prox at the row's
token and A its advantage. Every surrogate gives its objective and d objective / d log pi per row; a loss is minus that.
|log r| is cut at MAX_LOG_RATIO before exp, and such a row has no gradient through r.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

import torch
from torch import Tensor

MAX_LOG_RATIO = 20.0
"""|log ratio| beyond it is cut before exp."""


class Standing(NamedTuple):
    """Where each row stands, each [c]."""

    logp: Tensor
    """log pi."""
    log_ratio: Tensor
    """log r; for a surrogate of sequences the mean over the row's sequence."""
    advantage: Tensor

    @property
    def ratio(self) -> Tensor:
        return self.log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()

    @property
    def is_bounded(self) -> Tensor:
        """False where the ratio was cut before exp."""
        return self.log_ratio.abs() <= MAX_LOG_RATIO


class Terms(NamedTuple):
    """What a surrogate says about the rows, each [c]."""

    objective: Tensor
    dlogp: Tensor
    events: Mapping[str, Tensor]
    """Which rows a bound acted on, by the name of the metric that reports their share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """min(r A, clip(r, 1 - low, 1 + high) A), and for A < 0 not below dual A.

    Proximal Policy Optimization Algorithms, section 3; high > low, clip-higher: DAPO, section 3.1; dual: Mastering
    Complex Control in MOBA Games with Deep Reinforcement Learning, "Dual-clip PPO".
    """

    low: float = 0.2
    high: float = 0.28
    dual: float = math.inf
    of_sequence: ClassVar[bool] = False
    from_behaviour: ClassVar[bool] = False

    def terms(self, at: Standing) -> Terms:
        """Objective, slope and what was clipped."""
        advantage, ratio = at.advantage, at.ratio
        plain = ratio * advantage
        bound = ratio.clamp(1 - self.low, 1 + self.high) * advantage
        objective = torch.minimum(plain, bound)
        floor = self.dual * advantage
        dual_clipped = (advantage < 0) & (objective < floor)
        objective = torch.where(dual_clipped, floor, objective)
        flows = (plain <= bound) & ~dual_clipped & at.is_bounded
        events = {
            "clip_fraction_low": (advantage < 0) & (ratio < 1 - self.low) & ~dual_clipped,
            "clip_fraction_high": (advantage > 0) & (ratio > 1 + self.high),
            "dual_clip_fraction": dual_clipped,
        }
        return Terms(objective, torch.where(flows, plain, 0), events)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gspo:
    """Clip with one ratio a sequence: s = exp(mean over its sampled tokens of log r), as s A per token.

    Group Sequence Policy Optimization, section 4.1, in the form of section 4.3, sg[s] pi / sg[pi]: each token's slope
    is s A. Under a weight 1 / n per token, n the sequence's tokens, that is exactly the gradient of s A.
    """

    low: float = 3e-4
    high: float = 4e-4
    of_sequence: ClassVar[bool] = True
    from_behaviour: ClassVar[bool] = False

    def terms(self, at: Standing) -> Terms:
        """Objective, slope and what was clipped."""
        clipped = Clip(low=self.low, high=self.high).terms(at)
        return clipped._replace(events={n: e for n, e in clipped.events.items() if n != "dual_clip_fraction"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cispo:
    """sg[clip(r, 1 - low, 1 + high)] A log pi: the clipped ratio is a weight, so a clipped token keeps a gradient.

    MiniMax-M1, section 3.1 (low = 1 leaves no lower bound).
    """

    low: float = 1.0
    high: float = 4.0
    of_sequence: ClassVar[bool] = False
    from_behaviour: ClassVar[bool] = False

    def terms(self, at: Standing) -> Terms:
        """Objective, slope and whose weight was clipped."""
        ratio = at.ratio
        weight = ratio.clamp(1 - self.low, 1 + self.high) * at.advantage
        events = {"clip_fraction_low": ratio < 1 - self.low, "clip_fraction_high": ratio > 1 + self.high}
        return Terms(weight * at.logp, weight, events)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sapo:
    """(4 / tau) sigmoid(tau (r - 1)) A, tau by the sign of A: the gradient fades out where a clip would cut it off.

    Soft Adaptive Policy Optimization, "token-level soft gate". At r = 1 the slope is A, as everywhere else.
    """

    tau_positive: float = 1.0
    tau_negative: float = 1.05
    of_sequence: ClassVar[bool] = False
    from_behaviour: ClassVar[bool] = False

    def terms(self, at: Standing) -> Terms:
        """Objective and slope; nothing is ever clipped."""
        advantage, ratio = at.advantage, at.ratio
        tau = torch.full_like(ratio, self.tau_negative).masked_fill(advantage > 0, self.tau_positive)
        gate = torch.sigmoid(tau * (ratio - 1))
        slope = torch.where(at.is_bounded, 4 * gate * (1 - gate) * ratio * advantage, 0)
        return Terms(4 / tau * gate * advantage, slope, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dppo:
    """r A, and nothing where pi has moved further than the bound from prox in the direction of A.

    Dropped are rows with A > 0 and pi - prox > high, or A < 0 and pi - prox < -low, in probability and not in ratio;
    prox is the behaviour policy (Rethinking the Trust Region in LLM Reinforcement Learning, DPPO with the binary total
    variation).
    """

    low: float = 0.2
    high: float = 0.2
    of_sequence: ClassVar[bool] = False
    from_behaviour: ClassVar[bool] = True

    def terms(self, at: Standing) -> Terms:
        """Objective, slope and what was dropped."""
        advantage = at.advantage
        moved = at.logp.exp() - (at.logp - at.log_ratio).exp()
        low, high = (advantage < 0) & (moved < -self.low), (advantage > 0) & (moved > self.high)
        plain = torch.where(low | high, 0, at.ratio * advantage)
        events = {"clip_fraction_low": low, "clip_fraction_high": high}
        return Terms(plain, torch.where(at.is_bounded, plain, 0), events)


Surrogate: TypeAlias = Clip | Gspo | Cispo | Sapo | Dppo
"""of_sequence: its ratio is a sequence's; from_behaviour: moves are measured from the policy that sampled."""
