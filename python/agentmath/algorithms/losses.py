"""Aggregation modes: how per-token terms become one loss. Every mode is a weight per sample over one global count.

    loss = sum over samples i, tokens t of  weight_i x term_it / N

with these weights (N trainable tokens, S sequences, P prompts of the whole update over all ranks; n_i trainable tokens
of sample i; N_p those of its prompt; L a constant horizon):

    token-mean             1                 DAPO, section 3.3
    prompt-token-mean      N / (P N_p)       each prompt counts alike, its tokens too
    seq-mean-token-mean    N / (S n_i)       GRPO as in DeepSeekMath, equation 3
    seq-mean-token-sum     N / S
    seq-mean-token-sum-norm  N / (S L)       Dr. GRPO, section 3.2

What is counted: every sample of the groups that were kept, those whose advantage is exactly 0 included. They need no
forward pass, but leaving them out of N would make the step size jump when a reward happens to equal its group's mean.
Groups that dynamic sampling dropped are not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agentmath.config.algorithm import Aggregation


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Counts over the whole update and all ranks: the only numbers a micro-batch needs of the others."""

    num_trainable_tokens: int
    num_sequences: int
    trainable_tokens_per_prompt: dict[Hashable, int]

    @property
    def num_prompts(self) -> int:
        return len(self.trainable_tokens_per_prompt)


def count(num_trainable_tokens: Sequence[int], prompts: Sequence[Hashable]) -> Totals:
    """Totals of samples [S], each with its trainable tokens (at least 1) and the prompt it belongs to."""
    per_prompt: Counter[Hashable] = Counter()
    for n, prompt in zip(num_trainable_tokens, prompts, strict=True):
        if n < 1:
            raise ValueError(f"a sample of prompt {prompt!r} has {n} trainable tokens; drop it before counting")
        per_prompt[prompt] += n
    return Totals(
        num_trainable_tokens=sum(num_trainable_tokens),
        num_sequences=len(num_trainable_tokens),
        trainable_tokens_per_prompt=dict(per_prompt),
    )


def sample_weights(
    aggregation: Aggregation,
    num_trainable_tokens: Sequence[int],
    prompts: Sequence[Hashable],
    totals: Totals,
    *,
    horizon_tokens: int | None = None,
) -> npt.NDArray[np.float64]:
    """Weight of each given sample [s]; the samples may be any part of those that totals counts.

    horizon_tokens is L of seq-mean-token-sum-norm, the longest generation allowed; other modes do not read it.
    """
    big_n = float(totals.num_trainable_tokens)
    n = np.asarray(num_trainable_tokens, dtype=np.float64)
    match aggregation:
        case "token-mean":
            return np.ones_like(n)
        case "prompt-token-mean":
            of_prompt = [totals.trainable_tokens_per_prompt[p] for p in prompts]
            return big_n / (totals.num_prompts * np.asarray(of_prompt, dtype=np.float64))
        case "seq-mean-token-mean":
            return big_n / (totals.num_sequences * n)
        case "seq-mean-token-sum":
            return np.full_like(n, big_n / totals.num_sequences)
        case "seq-mean-token-sum-norm":
            if horizon_tokens is None or horizon_tokens < 1:
                raise ValueError(f"seq-mean-token-sum-norm divides by a horizon of tokens, got {horizon_tokens}")
            return np.full_like(n, big_n / (totals.num_sequences * horizon_tokens))
