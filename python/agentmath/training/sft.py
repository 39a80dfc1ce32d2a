"""Supervised training on worked trajectories: only the spans that the model is to say carry loss."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agentmath.config.training import SFTSection, TrainingSection
from agentmath.core.errors import TrainingError
from agentmath.core.types import StepMetrics, TrainingSample
from agentmath.training.optim import Optimizer, learning_rate_at
from agentmath.training.packing import pack
from agentmath.training.samples import num_targets
from agentmath.training.update import (
    Batch,
    NonfinitePolicy,
    TrainedPolicy,
    as_tensors,
    hidden_of_targets,
    run_update,
)
from agentmath_kernels import PolicyLossOutput, nll_loss


@dataclass(slots=True, kw_only=True)
class SFTState:
    """Where supervised training stands; with weights and optimiser state it continues bit for bit."""

    step: int = 0
    """Steps done; the next one has this number."""
    finished: bool = False
    best_loss: float = math.inf
    """Lowest held-out loss so far."""
    best_step: int = 0
    """Steps done when it was measured."""
    evaluations_without_gain: int = 0
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    """Trained weights at best_step; empty while none are kept or they are the present ones' equal."""

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain values only."""
        return {name: getattr(self, name) for name in self.__slots__}

    @staticmethod
    def from_state_dict(state: dict[str, Any]) -> SFTState:
        return SFTState(**state)


@dataclass(frozen=True, slots=True, kw_only=True)
class SFTSettings:
    """What supervised training depends on besides policy, optimiser and samples."""

    sft: SFTSection
    training: TrainingSection
    seed: int
    inspection_folder: Path | None = None


def train_sft(
    policy: TrainedPolicy,
    optimizer: Optimizer,
    samples: Sequence[TrainingSample],
    settings: SFTSettings,
    *,
    held_out: Sequence[TrainingSample] = (),
    state: SFTState | None = None,
) -> Generator[StepMetrics, None, None]:
    """Yield the metrics of each step once it is done; state then says where training stands, and may be saved.

    Which samples a step reads follows from seed and step alone. The held-out loss is measured every eval_every_steps
    and after the last step ("held_out_loss" in the metrics). With patience, training ends after that many evaluations
    without a lower one, and the best weights are put back.

    Raises TrainingError for no samples, or for a non-finite update if training.nonfinite is "raise".
    """
    state = SFTState() if state is None else state
    usable = [s for s in samples if num_targets(s)]
    if not usable and settings.sft.steps > state.step:
        raise TrainingError(f"none of {len(samples)} samples has a token to learn; supervised training needs some")
    held_out = [s for s in held_out if num_targets(s)]
    while state.step < settings.sft.steps and not state.finished:
        metrics = _one_step(policy, optimizer, usable, settings, step=state.step)
        state.step += 1
        if held_out and (state.step % settings.sft.eval_every_steps == 0 or state.step == settings.sft.steps):
            loss = held_out_loss(policy, held_out, settings.training)
            metrics.values["held_out_loss"] = loss
            _judge(policy, loss, state, patience=settings.sft.patience)
        if state.step == settings.sft.steps or state.finished:
            state.finished = True
            metrics.values.update(_restore_best(policy, optimizer, state))
        yield metrics


def step_samples(num_samples: int, sequences_per_step: int, *, seed: int, step: int) -> list[int]:
    """Indices that a step reads: a stretch of an endless chain of permutations, each from seed and epoch."""
    positions = range(step * sequences_per_step, (step + 1) * sequences_per_step)
    orders: dict[int, np.ndarray] = {}
    chosen: list[int] = []
    for position in positions:
        epoch, at = divmod(position, num_samples)
        if epoch not in orders:
            orders[epoch] = np.random.default_rng([seed, epoch]).permutation(num_samples)
        chosen.append(int(orders[epoch][at]))
    return chosen


@torch.no_grad()
def held_out_loss(policy: TrainedPolicy, samples: Sequence[TrainingSample], training: TrainingSection) -> float:
    """Mean negative log-likelihood per trainable token, in nats. Raises TrainingError for no trainable token."""
    total, rows = 0.0, 0
    for index, microbatch in enumerate(pack(samples, training.tokens_per_microbatch)):
        batch = as_tensors(microbatch, index, policy.device)
        out = _nll(hidden_of_targets(policy, batch), policy.head_weight(), batch, 1, training)
        total, rows = total + float(out.loss), rows + out.num_rows
    if not rows:
        raise TrainingError(
            f"none of {len(samples)} held-out samples has a finite row to measure the loss on: the "
            "weights are broken, lower sft_optimizer.learning_rate and start again"
        )
    return total / rows


def _one_step(
    policy: TrainedPolicy,
    optimizer: Optimizer,
    samples: Sequence[TrainingSample],
    settings: SFTSettings,
    *,
    step: int,
) -> StepMetrics:
    order = step_samples(len(samples), settings.sft.sequences_per_step, seed=settings.seed, step=step)
    microbatches = pack([samples[i] for i in order], settings.training.tokens_per_microbatch)
    total = sum(m.num_trainable_tokens for m in microbatches)

    def loss_of(hidden: Tensor, head: Tensor, batch: Batch) -> PolicyLossOutput:
        return _nll(hidden, head, batch, total, settings.training)

    report = run_update(policy, optimizer, microbatches, loss_of, step=step)
    nonfinite = NonfinitePolicy(
        action=settings.training.nonfinite, folder=settings.inspection_folder, optimizer="sft_optimizer"
    )
    nonfinite.handle(report, microbatches, name=f"sft-step-{step}")
    values = {
        "learning_rate": learning_rate_at(step, optimizer.section, total_steps=optimizer.total_steps),
        "sequences": float(len(order)),
        "microbatches": float(len(microbatches)),
        "tokens": float(sum(m.num_tokens for m in microbatches)),
        "trainable_tokens": float(total),
        "nonfinite_rows": float(report.tally.num_nonfinite),
    }
    if report.problem is None and report.grad_norm is not None:
        values |= {"loss": report.tally.loss, "grad_norm": report.grad_norm}
    return StepMetrics(values=values, skipped=report.problem)


def _nll(hidden: Tensor, head: Tensor, batch: Batch, total: int, training: TrainingSection) -> PolicyLossOutput:
    return nll_loss(
        hidden,
        head,
        batch.targets,
        None,
        num_trainable_tokens=total,
        chunk_bytes=training.loss_chunk_bytes,
        backend=training.loss_backend,
    )


def _judge(policy: TrainedPolicy, loss: float, state: SFTState, *, patience: int) -> None:
    if loss < state.best_loss:
        state.best_loss, state.best_step, state.evaluations_without_gain = loss, state.step, 0
        if patience:
            state.best_weights = {n: p.detach().clone() for n, p in policy.named_parameters() if p.requires_grad}
        return
    state.evaluations_without_gain += 1
    state.finished = 0 < patience <= state.evaluations_without_gain


def _restore_best(policy: TrainedPolicy, optimizer: Optimizer, state: SFTState) -> dict[str, float]:
    """Put the best weights back if later ones are worse; returns the metrics that say so."""
    best, state.best_weights = state.best_weights, {}
    if not best or state.best_step == state.step:
        return {}
    with torch.no_grad():
        for name, p in policy.named_parameters():
            if name in best:
                p.copy_(best[name])
    optimizer.read_weights()
    return {"restored_step": float(state.best_step), "restored_held_out_loss": state.best_loss}
