"""The masked token-level losses over hidden states and the head, in row chunks.

Shapes: T tokens laid end to end, n of them in the mask, D hidden size, V vocabulary. Row t of `hidden` predicts
`targets[t]`: the caller has shifted. All per-token inputs are [T]; values outside the mask are never read.

Sources of the formulae: surrogates.py, corrections.py and divergence.py; token-mean, DAPO, section 3.3; proximal and
behaviour policy apart, Batch size-invariance for policy optimization, section 3; entropy bonus, Asynchronous Methods
for Deep Reinforcement Learning, section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from agentmath_kernels.corrections import Correction, Sequences
from agentmath_kernels.divergence import Kl
from agentmath_kernels.head import (
    DEFAULT_CHUNK_BYTES,
    HeadOutput,
    Options,
    RowLoss,
    Rows,
    RowTerms,
    head_logprobs,
    head_loss,
)
from agentmath_kernels.policy_terms import Formula, Inputs, RowValues, evaluate, with_sequences
from agentmath_kernels.row_operator import Backend
from agentmath_kernels.surrogates import MAX_LOG_RATIO, Surrogate
from agentmath_kernels.vocabulary import Shard


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLossOutput:
    """Loss on the graph; everything else is detached."""

    loss: Tensor
    """Scalar: sum over rows of row_weight x term / num_trainable_tokens."""
    logprobs: Tensor
    """[n] log-prob of each target under the current weights, at the given temperature."""
    entropy: Tensor
    """[n] entropy of each row in nats."""
    num_rows: int
    """Rows that count: those in the mask less the non-finite ones."""
    num_nonfinite: int
    """Rows in the mask that were excluded because an input or their log-prob is not finite."""
    metrics: Mapping[str, float]
    """Means over the num_rows, or maxima where the name ends with _max; empty without rows."""


def policy_loss(
    hidden: Tensor,
    lm_head_weight: Tensor,
    targets: Tensor,
    mask: Tensor | None,
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
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
    backend: Backend = "auto",
    shard: Shard | None = None,
) -> PolicyLossOutput:
    """Policy-gradient loss of the rows in mask; logits of [T, V] are never formed.

    With pi the current weights, prox the proximal policy, mu the behaviour policy, ref the reference:

        term = -w surrogate(pi / prox, A) + kl.coef kl(pi, ref) - entropy_coef H(pi)
        loss = sum of row_weight term / N

    H(pi) is the entropy of the whole row at the given temperature, in nats, and its gradient goes through every logit.

    prox is given by proximal_logprobs; or, with on_policy, it is pi itself held constant (pi / prox = 1: the first
    update after a rollout, which then needs no pass of its own); or, with neither, it is mu. w = correction(prox / mu)
    is a constant, and 1 where prox is mu. Whatever belongs to a sequence needs all its rows in one call; where it
    needs current log-probs, one more product with the head is made.

    Args:
        hidden: [T, D] float32, bfloat16 or float64; lm_head_weight: [V, D]; targets: [T] ids; mask: [T] bool or None.
        advantages, behaviour_logprobs, proximal_logprobs, reference_logprobs: [T] float.
        num_trainable_tokens: N, counted once over all micro-batches and ranks of the update.
        sequences: [T] integers, equal for rows of one sequence; only what belongs to a sequence reads them.
        row_weights: [T] factor of each row, for the aggregation modes; None is 1 everywhere (token-mean).
        chunk_bytes: memory for one chunk of logits; about twice as much is used.
        shard: where lm_head_weight is this rank's part of the head; every rank gives the same hidden and targets, calls
            alike, and gets the same loss, the gradient of its part and the whole gradient of hidden.

    Raises ValueError for shapes that do not fit, ids outside [0, V), a normaliser below 1, a temperature of 0, or a
    formula that lacks one of its inputs.
    """
    _refuse_contradictions(surrogate, kl, on_policy, proximal_logprobs, reference_logprobs)
    options = Options(temperature=temperature, chunk_bytes=chunk_bytes, backend=backend, shard=shard)
    rows = Rows.select(hidden, lm_head_weight, targets, mask, options)
    formula = Formula(surrogate, correction, kl, on_policy, entropy_coef)
    inputs = Inputs(
        advantages=_pick(rows, hidden, advantages, "advantages"),
        behaviour=_pick(rows, hidden, behaviour_logprobs, "behaviour_logprobs"),
        proximal=_pick_given(rows, hidden, proximal_logprobs, "proximal_logprobs"),
        reference=None if kl is None else _pick_given(rows, hidden, reference_logprobs, "reference_logprobs"),
        scale=_scale(rows, hidden, row_weights, num_trainable_tokens),
    )
    if surrogate.of_sequence or correction.of_sequence:
        numbered = _numbered(rows, hidden, sequences)
        inputs = with_sequences(inputs, formula, numbered, lambda: _logprobs_of(hidden, lm_head_weight, rows))
    out = head_loss(hidden, lm_head_weight, rows, _terms_of(inputs, formula), want_entropy=True)
    return _output(out, lambda: _metrics(out, evaluate(out.logprobs, out.entropy, inputs, formula)))


def nll_loss(
    hidden: Tensor,
    lm_head_weight: Tensor,
    targets: Tensor,
    mask: Tensor | None,
    *,
    num_trainable_tokens: int,
    row_weights: Tensor | None = None,
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
    backend: Backend = "auto",
    shard: Shard | None = None,
) -> PolicyLossOutput:
    """Negative log-likelihood of the rows in mask, sum / num_trainable_tokens; arguments as in policy_loss.

    Entropy is not computed: that output is empty.
    """
    options = Options(chunk_bytes=chunk_bytes, backend=backend, shard=shard)
    rows = Rows.select(hidden, lm_head_weight, targets, mask, options)
    scale = _scale(rows, hidden, row_weights, num_trainable_tokens)

    def terms(span: slice, logp: Tensor, _: Tensor) -> RowTerms:
        return RowTerms(-logp * scale[span], -scale[span], scale[span].isfinite())

    out = head_loss(hidden, lm_head_weight, rows, terms, want_entropy=False)
    return _output(out, lambda: {"nll": float(-out.logprobs[out.finite].mean(dtype=torch.float64))})


def token_logprobs(
    hidden: Tensor,
    lm_head_weight: Tensor,
    targets: Tensor,
    mask: Tensor | None = None,
    *,
    temperature: float = 1.0,
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
    backend: Backend = "auto",
    shard: Shard | None = None,
) -> Tensor:
    """[n] log-probs of the targets, no gradient; all T rows when there is no mask. Shapes as in policy_loss."""
    options = Options(temperature=temperature, chunk_bytes=chunk_bytes, backend=backend, shard=shard)
    rows = Rows.select(hidden, lm_head_weight, targets, mask, options)
    return _logprobs_of(hidden, lm_head_weight, rows)


@torch.no_grad()
def _logprobs_of(hidden: Tensor, lm_head_weight: Tensor, rows: Rows) -> Tensor:
    return head_logprobs(hidden, lm_head_weight, rows, want_entropy=False)[0]


def _terms_of(inputs: Inputs, formula: Formula) -> RowLoss:
    def terms(span: slice, logp: Tensor, entropy: Tensor) -> RowTerms:
        values = evaluate(logp, entropy, inputs.at(span), formula)
        scale = inputs.scale[span]
        dentropy = -formula.entropy_coef * scale if formula.entropy_coef else None
        return RowTerms(values.loss * scale, values.dlogp * scale, values.finite, dentropy)

    return terms


def _output(out: HeadOutput, metrics: Callable[[], Mapping[str, float]]) -> PolicyLossOutput:
    num_rows = int(out.finite.sum())
    return PolicyLossOutput(
        loss=out.loss,
        logprobs=out.logprobs,
        entropy=out.entropy,
        num_rows=num_rows,
        num_nonfinite=out.finite.numel() - num_rows,
        metrics=metrics() if num_rows else {},
    )


def _refuse_contradictions(
    surrogate: Surrogate, kl: Kl | None, on_policy: bool, proximal: Tensor | None, reference: Tensor | None
) -> None:
    if on_policy and proximal is not None:
        raise ValueError("on_policy takes the current log-probs as proximal; do not give proximal_logprobs as well")
    if surrogate.from_behaviour and (on_policy or proximal is not None):
        raise ValueError(f"{type(surrogate).__name__} measures from the behaviour policy: give no other one")
    if kl is not None and reference is None:
        raise ValueError(f"a KL penalty ({kl.estimate}) needs reference_logprobs")


def _metrics(out: HeadOutput, values: RowValues) -> dict[str, float]:
    rows = out.finite.nonzero().squeeze(1)
    mismatch = values.log_mismatch[rows].double()
    # k3 of KL(behaviour || trainer): never negative, small for small differences.
    k3 = torch.expm1(mismatch.clamp(max=MAX_LOG_RATIO)) - mismatch
    means = {"entropy": out.entropy[rows].double().mean()}
    means |= {name: acted[rows].double().mean() for name, acted in values.events.items()}
    means |= {"mismatch_mean": mismatch.abs().mean(), "mismatch_max": mismatch.abs().max(), "mismatch_k3": k3.mean()}
    if values.kl is not None:
        means["kl"] = values.kl[rows].double().mean()
    return dict(zip(means, torch.stack([*means.values()]).tolist(), strict=True))


def _numbered(rows: Rows, hidden: Tensor, sequences: Tensor | None) -> Sequences:
    if sequences is None:
        raise ValueError("a ratio or weight of sequences needs to know which rows belong together: give sequences")
    if sequences.shape != hidden.shape[:1]:
        raise ValueError(f"sequences must be [T] = [{hidden.shape[0]}], got {[*sequences.shape]}")
    ids, number = sequences.to(hidden.device).index_select(0, rows.index).unique(return_inverse=True)
    return Sequences(number, ids.numel())


def _pick_given(rows: Rows, hidden: Tensor, values: Tensor | None, name: str) -> Tensor | None:
    return None if values is None else _pick(rows, hidden, values, name)


def _pick(rows: Rows, hidden: Tensor, values: Tensor, name: str) -> Tensor:
    if values.shape != hidden.shape[:1]:
        raise ValueError(f"{name} must be [T] = [{hidden.shape[0]}], got {[*values.shape]}")
    return values.detach().to(hidden.device).index_select(0, rows.index).to(rows.dtype)


def _scale(rows: Rows, hidden: Tensor, row_weights: Tensor | None, num_trainable_tokens: int) -> Tensor:
    n = rows.index.numel()
    if num_trainable_tokens < 1 and n:
        raise ValueError(f"num_trainable_tokens is {num_trainable_tokens} but the mask holds {n} rows")
    if row_weights is None:
        return torch.full((n,), 1 / max(1, num_trainable_tokens), dtype=rows.dtype, device=hidden.device)
    return _pick(rows, hidden, row_weights.double() / max(1, num_trainable_tokens), "row_weights")
