"""Losses over hidden states and a vocabulary head that never form [tokens, vocabulary] logits."""

from agentmath_kernels.policy_loss import PolicyLossOutput, nll_loss, policy_loss, token_logprobs

__all__ = ["PolicyLossOutput", "nll_loss", "policy_loss", "token_logprobs"]
