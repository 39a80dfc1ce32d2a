"""This project answers the cases: by the functions that a training step calls."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from agentmath.algorithms import advantages, losses
from agentmath.config.algorithm import AlgorithmSection
from agentmath.conformance.cases import Answer, Case
from agentmath_kernels import Cispo, Clip, Correction, Gspo, Kl, Surrogate, policy_loss


def answer(case: Case) -> Answer:
    """Answer a case; see cases.py for what it holds."""
    if case.kind == "advantage":
        section = AlgorithmSection.model_validate(dict(case.settings))
        return {"advantages": advantages.of_group(case.inputs["rewards"], section).tolist()}
    return _loss(case)


def _loss(case: Case) -> Answer:
    """Loss and gradient of the whole step, piece by piece.

    The operation takes hidden states and no log-probs, so these are given by a vocabulary of two: with head (1, 0),
    hidden state x and target 0, logp = -log(1 + exp(-x)), so x = log(p / (1 - p)) and d logp / dx = 1 - p.
    """
    inputs = case.inputs
    counts = [sum(row) for row in inputs["mask"]]
    counted = [s for s, count in enumerate(counts) if count]
    totals = losses.count([counts[s] for s in counted], [inputs["prompts"][s] for s in counted])
    logp = _matrix(inputs["logprobs"])
    hidden = (logp - torch.log(-torch.expm1(logp))).requires_grad_()
    loss = 0.0
    for piece in inputs["microbatches"]:
        rows = [s for s in piece if counts[s]]
        weights = losses.sample_weights(
            case.settings["aggregation"],
            [counts[s] for s in rows],
            [inputs["prompts"][s] for s in rows],
            totals,
            horizon_tokens=case.settings["horizon_tokens"],
        )
        share = _piece(case, hidden[rows], rows, torch.from_numpy(weights), totals.num_trainable_tokens)
        share.backward()
        loss += float(share.detach())
    slope = torch.where(_matrix(inputs["mask"]) > 0, -torch.expm1(logp), 1.0)
    gradient = torch.zeros_like(hidden) if hidden.grad is None else hidden.grad
    return {"loss": loss, "gradient": (gradient / slope).tolist()}


def _piece(case: Case, hidden: Tensor, rows: list[int], weights: Tensor, num_trainable_tokens: int) -> Tensor:
    s, inputs = case.settings, case.inputs
    length = hidden.shape[1]

    def flat(name: str) -> Tensor | None:
        return None if inputs[name] is None else _matrix(inputs[name])[rows].flatten()

    def spread(values: Tensor) -> Tensor:
        return values.repeat_interleave(length)

    old, behaviour = flat("old_logprobs"), flat("behaviour_logprobs")
    sequences = torch.arange(len(rows)).repeat_interleave(length)
    now = _matrix(inputs["logprobs"])[rows].flatten()
    on_policy = old is None
    return policy_loss(
        hidden.reshape(-1, 1),
        torch.tensor([[1.0], [0.0]], dtype=torch.float64),
        torch.zeros(hidden.numel(), dtype=torch.long),
        _matrix(inputs["mask"])[rows].flatten() > 0,
        advantages=spread(torch.tensor(inputs["advantages"], dtype=torch.float64)[rows]),
        behaviour_logprobs=behaviour if behaviour is not None else old if old is not None else now,
        proximal_logprobs=None if behaviour is None or on_policy else old,
        on_policy=on_policy,
        reference_logprobs=flat("reference_logprobs"),
        sequences=sequences,
        row_weights=spread(weights),
        num_trainable_tokens=num_trainable_tokens,
        surrogate=_surrogate(s),
        correction=Correction(name=s["correction"], low=s["correction_low"], high=s["correction_high"]),
        kl=None if s["kl"] == "none" else Kl(estimate=s["kl"], coef=s["kl_coef"]),
    ).loss


def _surrogate(settings: Mapping[str, Any]) -> Surrogate:
    low, high = settings["clip_low"], settings["clip_high"]
    match settings["surrogate"]:
        case "ppo_clip":
            return Clip(low=low, high=high, dual=settings["dual_clip"] or math.inf)
        case "gspo":
            return Gspo(low=low, high=high)
        case "cispo":
            return Cispo(low=low, high=high)
    raise ValueError(f"no surrogate {settings['surrogate']!r}")


def _matrix(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)
