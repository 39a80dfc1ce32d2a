"""How weights move: AdamW, or Muon for hidden matrices beside it; clipping, schedule, exact save and load."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from agentmath.config.training import OptimizerSection
from agentmath.core.errors import CheckpointError, TrainingError
from agentmath.training.muon import Muon

FINAL_SHARE = 0.1
"""Share of learning_rate that the cosine schedule ends at."""


def learning_rate_at(step: int, section: OptimizerSection, *, total_steps: int) -> float:
    """Learning rate of step 0 <= step < total_steps: a function of the step and nothing else.

    Linear from learning_rate / warmup_steps up to learning_rate, then constant, or half a cosine down to a tenth at the
    last step. Example: learning_rate 1, warmup 2, constant: 0.5, 1, 1, ...
    """
    if step < section.warmup_steps:
        return section.learning_rate * (step + 1) / section.warmup_steps
    if section.schedule == "constant":
        return section.learning_rate
    progress = min(1.0, (step - section.warmup_steps) / max(1, total_steps - 1 - section.warmup_steps))
    share = FINAL_SHARE + (1 - FINAL_SHARE) * 0.5 * (1 + math.cos(math.pi * progress))
    return section.learning_rate * share


class Optimizer:
    """One policy's optimiser. Weights narrower than float32 get float32 masters: small steps would round to nothing.

    Per update: zero_grad, then backward and collect for each micro-batch, then step.
    """

    def __init__(
        self, named_parameters: Iterable[tuple[str, Parameter]], section: OptimizerSection, *, total_steps: int
    ) -> None:
        """Only parameters that require a gradient are moved. Raises TrainingError when there is none."""
        self.section = section
        self.total_steps = total_steps
        named = [(name, p) for name, p in named_parameters if p.requires_grad]
        if not named:
            raise TrainingError("the policy has no parameter that requires a gradient; there is nothing to train")
        self._parameters = dict(named)
        self._masters = {name: _master(p) for name, p in named}
        self._parts = _build(self._masters, section)

    def zero_grad(self) -> None:
        """Forget all gradients, the collected ones included."""
        for p in (*self._parameters.values(), *self._masters.values()):
            p.grad = None

    def collect(self) -> None:
        """Add a micro-batch's narrow gradients to the float32 ones, so that their sum does not depend on the split."""
        for name, p in self._parameters.items():
            master = self._masters[name]
            if master is p or p.grad is None:
                continue
            grad = p.grad.to(master.dtype)
            master.grad = grad if master.grad is None else master.grad.add_(grad)
            p.grad = None

    def step(self, step: int) -> float:
        """Clip and apply the gradients with the learning rate of `step`; returns the norm before clipping.

        A norm that is not finite is returned and nothing is changed.
        """
        grads = [m.grad for m in self._masters.values() if m.grad is not None]
        norm = torch.nn.utils.get_total_norm(grads)
        value = float(norm)
        if not math.isfinite(value):
            return value
        torch.nn.utils.clip_grads_with_norm_(self._masters.values(), self.section.max_grad_norm, norm)
        rate = learning_rate_at(step, self.section, total_steps=self.total_steps)
        for part in self._parts.values():
            for group in part.param_groups:
                group["lr"] = rate
            part.step()
        with torch.no_grad():
            for name, p in self._parameters.items():
                if self._masters[name] is not p:
                    p.copy_(self._masters[name])
        return value

    @torch.no_grad()
    def read_weights(self) -> None:
        """Take over weights that somebody else has set."""
        for name, p in self._parameters.items():
            if self._masters[name] is not p:
                self._masters[name].copy_(p)

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain values only; together with the weights it continues bit for bit."""
        return {
            "names": list(self._parameters),
            "parts": {kind: part.state_dict() for kind, part in self._parts.items()},
            "masters": {n: m.detach() for n, m in self._masters.items() if m is not self._parameters[n]},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from state_dict(). Raises CheckpointError for that of other parameters or another optimiser."""
        if state["names"] != list(self._parameters) or set(state["parts"]) != set(self._parts):
            raise CheckpointError(
                f"the checkpoint's optimiser ({'+'.join(sorted(state['parts']))}, {len(state['names'])} tensors) does "
                f"not fit this one ({'+'.join(sorted(self._parts))}, {len(self._parameters)} tensors); "
                "resume with the recipe it was made with"
            )
        for kind, part in self._parts.items():
            # torch would bring back the settings of the saved run; those of this run's recipe are what counts.
            settings = [{k: v for k, v in group.items() if k != "params"} for group in part.param_groups]
            part.load_state_dict(state["parts"][kind])
            for group, ours in zip(part.param_groups, settings, strict=True):
                group.update(ours)
        with torch.no_grad():
            for name, saved in state["masters"].items():
                self._masters[name].copy_(saved)


def is_hidden_matrix(name: str, parameter: Tensor) -> bool:
    """True for 2-D weights between hidden states: not embeddings, not the head, not norms or biases."""
    return parameter.ndim == 2 and not any(part in name for part in ("embed", "lm_head", "wte", "wpe"))


def _master(p: Parameter) -> Parameter:
    return p if p.dtype in (torch.float32, torch.float64) else Parameter(p.detach().float())


def _build(named: dict[str, Parameter], section: OptimizerSection) -> dict[str, torch.optim.Optimizer]:
    hidden = [p for name, p in named.items() if is_hidden_matrix(name, p)]
    rest = [p for name, p in named.items() if not is_hidden_matrix(name, p)]
    rate, decay = section.learning_rate, section.weight_decay
    if section.name == "muon":
        parts: dict[str, torch.optim.Optimizer] = {}
        if hidden:
            parts["muon"] = Muon(hidden, lr=rate, weight_decay=decay)
        if rest:
            parts["adamw"] = torch.optim.AdamW(rest, lr=rate, betas=section.betas, weight_decay=0.0, fused=True)
        return parts
    # Decay pulls matrices only: a norm's scale or an embedding row that is rarely seen has no reason to shrink.
    groups = [{"params": hidden, "weight_decay": decay}, {"params": rest, "weight_decay": 0.0}]
    groups = [g for g in groups if g["params"]]
    return {"adamw": torch.optim.AdamW(groups, lr=rate, betas=section.betas, weight_decay=0.0, fused=True)}
