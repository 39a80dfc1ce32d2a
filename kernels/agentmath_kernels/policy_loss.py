"""The masked token-level losses over hidden states and the head, in row chunks.

Shapes: T tokens laid end to end, n of them in the mask, D hidden size, V vocabulary. Row t of `hidden` predicts
`targets[t]`: the caller has shifted. All per-token inputs are [T]; values outside the mask are never read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from agentmath_kernels.head import HeadOutput, Rows, RowTerms, head_loss

MAX_LOG_RATIO = 20.0
"""|log ratio| beyond it is cut before exp; such a row has no gradient through the ratio."""

DEFAULT_CHUNK_BYTES = 64 << 20


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


class _Inputs(NamedTuple):
    """Per-row constants, each [n]."""

    advantages: Tensor
    behaviour: Tensor
    proximal: Tensor | None
    scale: Tensor

    def at(self, span: slice) -> _Inputs:
        proximal = None if self.proximal is None else self.proximal[span]
        return _Inputs(self.advantages[span], self.behaviour[span], proximal, self.scale[span])


class _Clip(NamedTuple):
    low: float
    high: float
    dual: float
    cap: float
    on_policy: bool


class _Surrogate(NamedTuple):
    """The policy term of each row and which bounds acted on it, each [c]."""

    objective: Tensor
    dlogp: Tensor
    log_mismatch: Tensor
    clipped_low: Tensor
    clipped_high: Tensor
    dual_clipped: Tensor
    truncated: Tensor | None
    finite: Tensor


def policy_loss(
    hidden: Tensor,
    lm_head_weight: Tensor,
    targets: Tensor,
    mask: Tensor | None,
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
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
) -> PolicyLossOutput:
    """Clipped policy-gradient loss of the rows in mask; logits of [T, V] are never formed.

    With pi the current weights, prox the proximal policy, mu the behaviour policy, r = pi / prox:

        term = -w max(min(r A, clip(r, 1 - clip_low, 1 + clip_high) A), [A < 0] dual_clip A)
        w    = min(prox / mu, importance_cap), a constant

    prox is given by proximal_logprobs; or, with on_policy, it is pi itself held constant (r = 1: the first update
    after a rollout, which then needs no pass of its own); or, with neither, it is mu and w = 1.

    Args:
        hidden: [T, D] float32, bfloat16 or float64; lm_head_weight: [V, D]; targets: [T] ids; mask: [T] bool or None.
        advantages, behaviour_logprobs, proximal_logprobs: [T] float.
        num_trainable_tokens: the normaliser, counted once over all micro-batches and ranks of the update.
        row_weights: [T] factor of each row, for the aggregation modes; None is 1 everywhere (token-mean).
        chunk_bytes: memory for one chunk of logits; about twice as much is used.

    Raises ValueError for shapes that do not fit, ids outside [0, V), a normaliser below 1 or a temperature of 0.

    Sources: clip, Proximal Policy Optimization Algorithms, section 3; clip-higher and token-mean, DAPO, sections 3.1
    and 3.3; dual clip, Mastering Complex Control in MOBA Games with Deep RL, "Dual-clip PPO"; proximal and behaviour
    policy apart, Batch size-invariance for policy optimization, section 3; truncation of w, IMPALA, section 4.1.
    """
    if on_policy and proximal_logprobs is not None:
        raise ValueError("on_policy takes the current log-probs as proximal; do not give proximal_logprobs as well")
    rows = Rows.select(hidden, lm_head_weight, targets, mask, temperature=temperature, chunk_bytes=chunk_bytes)
    given = {"advantages": advantages, "behaviour_logprobs": behaviour_logprobs}
    if proximal_logprobs is not None:
        given["proximal_logprobs"] = proximal_logprobs
    picked = {name: _pick(rows, hidden, values, name) for name, values in given.items()}
    inputs = _Inputs(
        picked["advantages"],
        picked["behaviour_logprobs"],
        picked.get("proximal_logprobs"),
        _scale(rows, hidden, row_weights, num_trainable_tokens),
    )
    clip = _Clip(clip_low, clip_high, dual_clip, importance_cap, on_policy)

    def terms(span: slice, logp: Tensor) -> RowTerms:
        s = _surrogate(logp, inputs.at(span), clip)
        scale = inputs.scale[span]
        return RowTerms(-s.objective * scale, -s.dlogp * scale, s.finite)

    out = head_loss(hidden, lm_head_weight, rows, terms, want_entropy=True)
    num_rows = int(out.finite.sum())
    return PolicyLossOutput(
        loss=out.loss,
        logprobs=out.logprobs,
        entropy=out.entropy,
        num_rows=num_rows,
        num_nonfinite=out.finite.numel() - num_rows,
        metrics=_metrics(out, _surrogate(out.logprobs, inputs, clip)) if num_rows else {},
    )


def nll_loss(
    hidden: Tensor,
    lm_head_weight: Tensor,
    targets: Tensor,
    mask: Tensor | None,
    *,
    num_trainable_tokens: int,
    row_weights: Tensor | None = None,
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
) -> PolicyLossOutput:
    """Negative log-likelihood of the rows in mask, sum / num_trainable_tokens; arguments as in policy_loss.

    Entropy is not computed: that output is empty.
    """
    rows = Rows.select(hidden, lm_head_weight, targets, mask, temperature=1.0, chunk_bytes=chunk_bytes)
    scale = _scale(rows, hidden, row_weights, num_trainable_tokens)

    def terms(span: slice, logp: Tensor) -> RowTerms:
        return RowTerms(-logp * scale[span], -scale[span], scale[span].isfinite())

    out = head_loss(hidden, lm_head_weight, rows, terms, want_entropy=False)
    num_rows = int(out.finite.sum())
    return PolicyLossOutput(
        loss=out.loss,
        logprobs=out.logprobs,
        entropy=out.entropy,
        num_rows=num_rows,
        num_nonfinite=out.finite.numel() - num_rows,
        metrics={"nll": float(-out.logprobs[out.finite].mean(dtype=torch.float64))} if num_rows else {},
    )


@torch.no_grad()
def token_logprobs(
    hidden: Tensor,
    lm_head_weight: Tensor,
    targets: Tensor,
    mask: Tensor | None = None,
    *,
    temperature: float = 1.0,
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
) -> Tensor:
    """[n] log-probs of the targets, no gradient; all T rows when there is no mask. Shapes as in policy_loss."""
    rows = Rows.select(hidden, lm_head_weight, targets, mask, temperature=temperature, chunk_bytes=chunk_bytes)

    def terms(_: slice, logp: Tensor) -> RowTerms:
        return RowTerms(logp, logp, logp.isfinite())

    return head_loss(hidden, lm_head_weight, rows, terms, want_entropy=False).logprobs


def _surrogate(logp: Tensor, inputs: _Inputs, clip: _Clip) -> _Surrogate:
    advantage, behaviour = inputs.advantages, inputs.behaviour
    proximal = logp if clip.on_policy else behaviour if inputs.proximal is None else inputs.proximal
    log_ratio = logp - proximal
    ratio = log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    plain = ratio * advantage
    bound = ratio.clamp(1 - clip.low, 1 + clip.high) * advantage
    objective = torch.minimum(plain, bound)
    floor = clip.dual * advantage
    dual_clipped = (advantage < 0) & (objective < floor)
    objective = torch.where(dual_clipped, floor, objective)
    flows = (plain <= bound) & ~dual_clipped & (log_ratio.abs() <= MAX_LOG_RATIO)
    derivative = torch.where(flows, plain, 0)
    truncated = None
    if clip.on_policy or inputs.proximal is not None:
        weight = (proximal - behaviour).clamp(max=MAX_LOG_RATIO).exp()
        truncated = weight > clip.cap
        weight = weight.clamp(max=clip.cap)
        objective, derivative = objective * weight, derivative * weight
    # The bounds above would turn an infinite input into an ordinary number, so finiteness is judged on the inputs.
    finite = advantage.isfinite() & behaviour.isfinite() & proximal.isfinite()
    return _Surrogate(
        objective=objective,
        dlogp=derivative,
        log_mismatch=(logp if inputs.proximal is None else proximal) - behaviour,
        clipped_low=(advantage < 0) & (ratio < 1 - clip.low) & ~dual_clipped,
        clipped_high=(advantage > 0) & (ratio > 1 + clip.high),
        dual_clipped=dual_clipped,
        truncated=truncated,
        finite=finite,
    )


def _metrics(out: HeadOutput, s: _Surrogate) -> dict[str, float]:
    rows = out.finite.nonzero().squeeze(1)
    mismatch = s.log_mismatch[rows].double()
    # k3 of KL(behaviour || trainer): never negative, small for small differences.
    k3 = torch.expm1(mismatch.clamp(max=MAX_LOG_RATIO)) - mismatch
    values = {
        "entropy": out.entropy[rows].double().mean(),
        "clip_fraction_low": s.clipped_low[rows].double().mean(),
        "clip_fraction_high": s.clipped_high[rows].double().mean(),
        "dual_clip_fraction": s.dual_clipped[rows].double().mean(),
        "mismatch_mean": mismatch.abs().mean(),
        "mismatch_max": mismatch.abs().max(),
        "mismatch_k3": k3.mean(),
    }
    if s.truncated is not None:
        values["importance_truncated_fraction"] = s.truncated[rows].double().mean()
    return dict(zip(values, torch.stack([*values.values()]).tolist(), strict=True))


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
