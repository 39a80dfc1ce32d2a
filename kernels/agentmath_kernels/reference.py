"""Dense float64 twins of the losses, by [n, V] logits and autograd: what the lean form is checked against."""

from __future__ import annotations

import torch
from torch import Tensor

from agentmath_kernels.policy_loss import MAX_LOG_RATIO


def dense_logprobs(
    hidden: Tensor, lm_head_weight: Tensor, targets: Tensor, mask: Tensor, *, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """([n] log-probs, [n] entropies) of the rows in mask, float64, on the graph."""
    logits = hidden[mask].double() @ lm_head_weight.double().t() / temperature
    logp = torch.log_softmax(logits, -1)
    entropy = -torch.where(logp == -torch.inf, 0, logp.exp() * logp).sum(-1)
    return logp.gather(1, targets[mask].long()[:, None]).squeeze(1), entropy


def policy_loss_reference(
    hidden: Tensor,
    lm_head_weight: Tensor,
    targets: Tensor,
    mask: Tensor,
    *,
    advantages: Tensor,
    behaviour_logprobs: Tensor,
    num_trainable_tokens: int,
    clip_low: float,
    clip_high: float,
    dual_clip: float,
    importance_cap: float,
    temperature: float = 1.0,
    proximal_logprobs: Tensor | None = None,
    on_policy: bool = False,
    row_weights: Tensor | None = None,
) -> Tensor:
    """The formula of policy_loss, term by term; every row in mask must be finite."""
    logp, _ = dense_logprobs(hidden, lm_head_weight, targets, mask, temperature=temperature)
    a, mu = advantages[mask].double(), behaviour_logprobs[mask].double()
    proximal = mu if proximal_logprobs is None else proximal_logprobs[mask].double()
    proximal = logp.detach() if on_policy else proximal
    r = (logp - proximal).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    objective = torch.minimum(r * a, r.clamp(1 - clip_low, 1 + clip_high) * a)
    objective = torch.where(a < 0, torch.maximum(objective, dual_clip * a), objective)
    objective = objective * (proximal - mu).clamp(max=MAX_LOG_RATIO).exp().clamp(max=importance_cap)
    weights = torch.ones_like(a) if row_weights is None else row_weights[mask].double()
    return -(weights * objective).sum() / max(1, num_trainable_tokens)


def nll_loss_reference(
    hidden: Tensor, lm_head_weight: Tensor, targets: Tensor, mask: Tensor, *, num_trainable_tokens: int
) -> Tensor:
    """Sum of negative log-probs of the rows in mask / num_trainable_tokens."""
    logp, _ = dense_logprobs(hidden, lm_head_weight, targets, mask)
    return -logp.sum() / max(1, num_trainable_tokens)
