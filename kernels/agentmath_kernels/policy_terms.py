"""The term of a row in the policy loss: surrogate, correction and KL penalty put together, and its slope.

Shapes: n rows of one call, c of them in a chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from agentmath_kernels.corrections import Correction, Sequences, Weights, sequence_weights, token_weights
from agentmath_kernels.divergence import Kl, penalty
from agentmath_kernels.surrogates import Standing, Surrogate


class Inputs(NamedTuple):
    """Per-row constants, each [n]."""

    advantages: Tensor
    behaviour: Tensor
    proximal: Tensor | None
    reference: Tensor | None
    scale: Tensor
    sequence_log_ratio: Tensor | None = None
    """Mean log ratio of the row's sequence, where the surrogate wants it."""
    sequence_weight: Tensor | None = None
    sequence_acted: Tensor | None = None

    def at(self, span: slice) -> Inputs:
        return Inputs(*(None if values is None else values[span] for values in self))  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True, slots=True)
class Formula:
    """What a term consists of."""

    surrogate: Surrogate
    correction: Correction
    kl: Kl | None
    on_policy: bool
    """The proximal policy is the current one held constant."""
    entropy_coef: float = 0.0
    """What a row's entropy takes off its term."""


class RowValues(NamedTuple):
    """The terms of each row and which bounds acted on it, each [c]."""

    loss: Tensor
    dlogp: Tensor
    log_mismatch: Tensor
    events: Mapping[str, Tensor]
    """Metric name -> bool: means are shares of rows."""
    kl: Tensor | None
    finite: Tensor


def with_sequences(
    inputs: Inputs, formula: Formula, sequences: Sequences, logprobs_now: Callable[[], Tensor]
) -> Inputs:
    """Inputs with the constants that rows of one sequence share."""
    wants_ratio = formula.surrogate.of_sequence and not formula.on_policy
    wants_weight = formula.correction.of_sequence and (formula.on_policy or inputs.proximal is not None)
    now = logprobs_now() if wants_ratio or (wants_weight and formula.on_policy) else inputs.behaviour
    if wants_ratio:
        ratio = sequences.mean(now - (inputs.behaviour if inputs.proximal is None else inputs.proximal))
        inputs = inputs._replace(sequence_log_ratio=ratio.to(now.dtype))
    if wants_weight:
        weights = sequence_weights(
            formula.correction, (now if inputs.proximal is None else inputs.proximal) - inputs.behaviour, sequences
        )
        inputs = inputs._replace(sequence_weight=weights.weight, sequence_acted=weights.acted)
    return inputs


def evaluate(logp: Tensor, entropy: Tensor, inputs: Inputs, formula: Formula) -> RowValues:
    """Terms of rows from their current log-probs and entropies [c] and their inputs [c]."""
    behaviour = inputs.behaviour
    proximal = logp if formula.on_policy else behaviour if inputs.proximal is None else inputs.proximal
    log_ratio = logp - proximal if inputs.sequence_log_ratio is None else inputs.sequence_log_ratio
    objective, derivative, found = formula.surrogate.terms(Standing(logp, log_ratio, inputs.advantages))
    events = dict(found)
    weights = _weights(proximal - behaviour, inputs, formula)
    if weights is not None:
        objective, derivative = objective * weights.weight, derivative * weights.weight
        events[formula.correction.metric] = weights.acted
    # The bounds above would turn an infinite input into an ordinary number, so finiteness is judged on the inputs.
    finite = inputs.advantages.isfinite() & behaviour.isfinite() & proximal.isfinite()
    loss, dlogp, kl = -objective, -derivative, None
    if formula.kl is not None and inputs.reference is not None:
        kl, pull = penalty(formula.kl.estimate, logp, inputs.reference)
        loss, dlogp = loss + formula.kl.coef * kl, dlogp + formula.kl.coef * pull
        finite = finite & inputs.reference.isfinite()
    if formula.entropy_coef:
        loss, finite = loss - formula.entropy_coef * entropy, finite & entropy.isfinite()
    log_mismatch = (logp if inputs.proximal is None else proximal) - behaviour
    return RowValues(loss, dlogp, log_mismatch, events, kl, finite)


def _weights(log_weight: Tensor, inputs: Inputs, formula: Formula) -> Weights | None:
    """None where nothing is corrected: prox is mu, or no correction was asked for."""
    if formula.correction.name == "none" or not (formula.on_policy or inputs.proximal is not None):
        return None
    if inputs.sequence_weight is not None and inputs.sequence_acted is not None:
        return Weights(inputs.sequence_weight, inputs.sequence_acted)
    return token_weights(formula.correction, log_weight)
