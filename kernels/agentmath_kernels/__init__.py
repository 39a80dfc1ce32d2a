"""Losses over hidden states and a vocabulary head that never form [tokens, vocabulary] logits."""

from agentmath_kernels.corrections import Correction
from agentmath_kernels.divergence import Kl
from agentmath_kernels.policy_loss import PolicyLossOutput, nll_loss, policy_loss, token_logprobs
from agentmath_kernels.surrogates import Cispo, Clip, Dppo, Gspo, Sapo, Surrogate

__all__ = [
    "Cispo",
    "Clip",
    "Correction",
    "Dppo",
    "Gspo",
    "Kl",
    "PolicyLossOutput",
    "Sapo",
    "Surrogate",
    "nll_loss",
    "policy_loss",
    "token_logprobs",
]
