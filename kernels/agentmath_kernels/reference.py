"""Dense float64 twins of the losses, by [n, V] logits and autograd: what the lean form is checked against."""

from __future__ import annotations

import torch
from torch import Tensor

from agentmath_kernels.corrections import Correction
from agentmath_kernels.divergence import Kl
from agentmath_kernels.surrogates import MAX_LOG_RATIO, Cispo, Clip, Dppo, Gspo, Sapo, Surrogate


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
    surrogate: Surrogate,
    correction: Correction,
    kl: Kl | None = None,
    entropy_coef: float = 0.0,
    temperature: float = 1.0,
    proximal_logprobs: Tensor | None = None,
    on_policy: bool = False,
    reference_logprobs: Tensor | None = None,
    sequences: Tensor | None = None,
    row_weights: Tensor | None = None,
) -> Tensor:
    """The formula of policy_loss, term by term; every row in mask must be finite."""
    logp, entropy = dense_logprobs(hidden, lm_head_weight, targets, mask, temperature=temperature)
    a, mu = advantages[mask].double(), behaviour_logprobs[mask].double()
    proximal = mu if proximal_logprobs is None else proximal_logprobs[mask].double()
    proximal = logp.detach() if on_policy else proximal
    together = None if sequences is None else sequences[mask][:, None] == sequences[mask][None, :]
    is_corrected = on_policy or proximal_logprobs is not None
    weight = _weight(correction, (proximal - mu).detach(), together) if is_corrected else 1.0
    term = -_objective(surrogate, logp, proximal, a, together) * weight
    if kl is not None and reference_logprobs is not None:
        term = term + kl.coef * _divergence(kl, logp - reference_logprobs[mask].double())
    term = term - entropy_coef * entropy
    weights = torch.ones_like(a) if row_weights is None else row_weights[mask].double()
    return (weights * term).sum() / max(1, num_trainable_tokens)


def _bounded_exp(x: Tensor) -> Tensor:
    return x.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()


def _mean(values: Tensor, together: Tensor | None) -> Tensor:
    """[n] means over the rows that each row belongs together with, together [n, n] bool."""
    assert together is not None
    return together.double() @ values / together.sum(1)


def _objective(surrogate: Surrogate, logp: Tensor, proximal: Tensor, a: Tensor, together: Tensor | None) -> Tensor:
    r = _bounded_exp(logp - proximal)
    match surrogate:
        case Clip(low=low, high=high, dual=dual):
            clipped = torch.minimum(r * a, r.clamp(1 - low, 1 + high) * a)
            return torch.where(a < 0, torch.maximum(clipped, dual * a), clipped)
        case Gspo(low=low, high=high):
            s = _bounded_exp(_mean(logp.detach() - proximal, together)) * (logp - logp.detach()).exp()
            return torch.minimum(s * a, s.clamp(1 - low, 1 + high) * a)
        case Cispo(low=low, high=high):
            return r.detach().clamp(1 - low, 1 + high) * a * logp
        case Sapo(tau_positive=positive, tau_negative=negative):
            tau = torch.where(a > 0, positive, torch.tensor(negative, dtype=torch.float64))
            return torch.sigmoid(tau * (r - 1)) * 4 / tau * a
        case Dppo(low=low, high=high):
            moved = logp.detach().exp() - proximal.exp()
            kept = torch.where(a > 0, moved <= high, moved >= -low)
            return r * a * kept


def _weight(correction: Correction, log_weight: Tensor, together: Tensor | None) -> Tensor:
    each, low, high = _bounded_exp(log_weight), correction.low, correction.high
    match correction.name:
        case "none":
            return torch.ones_like(each)
        case "token_tis":
            return each.clamp(max=high)
        case "icepop":
            return each * ((each >= low) & (each <= high))
        case "geometric_mask":
            mean = _mean(log_weight.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO), together).exp()
            return ((mean >= low) & (mean <= high)).double()
        case "sequence_tis" | "sequence_mask":
            assert together is not None
            product = _bounded_exp(together.double() @ log_weight)
            inside = (product >= low) & (product <= high)
            return product.clamp(max=high) if correction.name == "sequence_tis" else product * inside


def _divergence(kl: Kl, d: Tensor) -> Tensor:
    cut = d.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    k3 = (-cut).exp() - 1 + cut
    match kl.estimate:
        case "k1":
            return d
        case "k2":
            return d.square() / 2
        case "k3":
            return k3
        case "k3+":
            k2 = d.square() / 2
            return k2 + (k3 - k2).detach()


def nll_loss_reference(
    hidden: Tensor, lm_head_weight: Tensor, targets: Tensor, mask: Tensor, *, num_trainable_tokens: int
) -> Tensor:
    """Sum of negative log-probs of the rows in mask / num_trainable_tokens."""
    logp, _ = dense_logprobs(hidden, lm_head_weight, targets, mask)
    return -logp.sum() / max(1, num_trainable_tokens)
