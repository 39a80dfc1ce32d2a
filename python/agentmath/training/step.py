"""One step of reinforcement learning on the samples of one policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from agentmath.algorithms import losses
from agentmath.algorithms.objectives import correction_of, kl_of, surrogate_of
from agentmath.config.algorithm import AlgorithmSection
from agentmath.config.training import TrainingSection
from agentmath.core.errors import TrainingError
from agentmath.core.types import Microbatch, StepMetrics, TrainingSample
from agentmath.training.optim import Optimizer, learning_rate_at
from agentmath.training.packing import pack, split_updates
from agentmath.training.samples import prompt_of, token_counts
from agentmath.training.update import (
    Batch,
    NonfinitePolicy,
    TrainedPolicy,
    UpdateReport,
    as_tensors,
    hidden_of_targets,
    run_update,
)
from agentmath_kernels import PolicyLossOutput, policy_loss, token_logprobs


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSettings:
    """What a step depends on besides policy, optimiser and samples."""

    algorithm: AlgorithmSection
    training: TrainingSection
    temperature: float
    """At which the samples were drawn; the trainer's log-probs are taken at the same."""
    horizon_tokens: int | None = None
    """Longest generation allowed; only seq-mean-token-sum-norm divides by it."""
    inspection_folder: Path | None = None
    """Where the batch of a non-finite update is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Update:
    """The plan of one update: what is forwarded, and the one count everything is divided by."""

    microbatches: list[Microbatch]
    totals: losses.Totals
    num_zero_advantage: int


def train_step(
    policy: TrainedPolicy,
    optimizer: Optimizer,
    samples: Sequence[TrainingSample],
    settings: StepSettings,
    *,
    step: int,
    version: int | None = None,
    reference: TrainedPolicy | None = None,
) -> StepMetrics:
    """Make training.updates_per_step updates from the samples of one rollout.

    Each update divides by the trainable tokens of all its samples; those with advantage 0 are counted and not
    forwarded, unless a KL penalty or an entropy bonus has something to say about them. The first update takes its own
    log-probs as the proximal ones; for the later ones they are computed before any weight moves. So the importance
    weight between proximal and behaviour policy acts whether the two differ by staleness or by the arithmetic of
    another engine.

    version is the weights' own, for the staleness metrics; reference is what a KL penalty is measured from. Raises
    TrainingError for a non-finite update if training.nonfinite is "raise", and for a penalty without a reference.
    """
    if settings.algorithm.kl != "none" and reference is None:
        raise TrainingError(f"algorithm.kl = {settings.algorithm.kl!r} needs a reference policy, and none was given")
    updates = [_plan(part, settings) for part in split_updates(samples, settings.training.updates_per_step)]
    values = _counts(samples, updates, version)
    active = [(number, u) for number, u in enumerate(updates) if u.microbatches]
    if not active:
        return StepMetrics(values=values, skipped="no sample has an advantage other than 0")
    later = [] if surrogate_of(settings.algorithm).from_behaviour else active[1:]
    proximal = {n: _logprob_pass(policy, u, settings) for n, u in later}
    nonfinite = NonfinitePolicy(action=settings.training.nonfinite, folder=settings.inspection_folder)
    reports: list[UpdateReport] = []
    for number, u in active:
        anchors = None if reference is None else _logprob_pass(reference, u, settings)
        loss_of = _Loss(u.totals, settings, proximal.get(number), anchors)
        report = run_update(policy, optimizer, u.microbatches, loss_of, step=step)
        nonfinite.handle(report, u.microbatches, name=f"step {step} update {number}".replace(" ", "-"))
        reports.append(report)
    values |= _summary(reports)
    values["learning_rate"] = learning_rate_at(step, optimizer.section, total_steps=optimizer.total_steps)
    problems = [r.problem for r in reports if r.problem is not None]
    return StepMetrics(values=values, skipped=problems[0] if len(problems) == len(reports) else None)


class _Loss:
    """policy_loss with one update's constants filled in."""

    def __init__(
        self,
        totals: losses.Totals,
        settings: StepSettings,
        proximal: list[Tensor] | None,
        reference: list[Tensor] | None,
    ) -> None:
        self.totals, self.settings, self.proximal, self.reference = totals, settings, proximal, reference
        self.surrogate = surrogate_of(settings.algorithm)
        self.correction, self.kl = correction_of(settings.algorithm), kl_of(settings.algorithm)

    def __call__(self, hidden: Tensor, head: Tensor, batch: Batch) -> PolicyLossOutput:
        samples = batch.microbatch.samples
        return policy_loss(
            hidden,
            head,
            batch.targets,
            None,
            advantages=batch.spread([s.advantage for s in samples]),
            behaviour_logprobs=batch.behaviour_logprobs,
            proximal_logprobs=None if self.proximal is None else self.proximal[batch.index],
            on_policy=self.proximal is None and not self.surrogate.from_behaviour,
            reference_logprobs=None if self.reference is None else self.reference[batch.index],
            sequences=batch.sample_of_target,
            row_weights=batch.spread(self._weights(batch)),
            num_trainable_tokens=self.totals.num_trainable_tokens,
            temperature=self.settings.temperature,
            surrogate=self.surrogate,
            correction=self.correction,
            kl=self.kl,
            entropy_coef=self.settings.algorithm.entropy_coef,
            chunk_bytes=self.settings.training.loss_chunk_bytes,
            backend=self.settings.training.loss_backend,
        )

    def _weights(self, batch: Batch) -> Sequence[float]:
        samples = batch.microbatch.samples
        return losses.sample_weights(
            self.settings.algorithm.aggregation,
            token_counts(samples),
            [prompt_of(s) for s in samples],
            self.totals,
            horizon_tokens=self.settings.horizon_tokens,
        ).tolist()


def _plan(samples: Sequence[TrainingSample], settings: StepSettings) -> _Update:
    moves_all = settings.algorithm.kl != "none" or settings.algorithm.entropy_coef != 0
    moving = [s for s in samples if s.advantage != 0 or moves_all]
    return _Update(
        microbatches=pack(moving, settings.training.tokens_per_microbatch),
        totals=losses.count(token_counts(samples), [prompt_of(s) for s in samples]),
        num_zero_advantage=sum(s.advantage == 0 for s in samples),
    )


@torch.no_grad()
def _logprob_pass(policy: TrainedPolicy, update: _Update, settings: StepSettings) -> list[Tensor]:
    """[n] log-probs of each micro-batch's targets under the present weights of a policy."""
    result: list[Tensor] = []
    for index, microbatch in enumerate(update.microbatches):
        batch = as_tensors(microbatch, index, policy.device)
        logprobs = token_logprobs(
            hidden_of_targets(policy, batch),
            policy.head_weight(),
            batch.targets,
            temperature=settings.temperature,
            chunk_bytes=settings.training.loss_chunk_bytes,
            backend=settings.training.loss_backend,
        )
        result.append(logprobs)
    return result


def _counts(samples: Sequence[TrainingSample], updates: Sequence[_Update], version: int | None) -> dict[str, float]:
    values = {
        "samples": float(len(samples)),
        "samples_zero_advantage": float(sum(u.num_zero_advantage for u in updates)),
        "trainable_tokens": float(sum(u.totals.num_trainable_tokens for u in updates)),
    }
    if version is not None and samples:
        ages = np.concatenate([version - s.versions[s.trainable] for s in samples])
        values |= {"staleness_mean": float(ages.mean()), "staleness_max": float(ages.max())}
    return values


def _summary(reports: Sequence[UpdateReport]) -> dict[str, float]:
    """Counts summed, means weighted by rows, loss and gradient norm averaged over the updates that were made."""
    tallies = [r.tally for r in reports]
    values: dict[str, float] = {
        "updates": float(sum(r.problem is None for r in reports)),
        "microbatches": float(sum(t.num_microbatches for t in tallies)),
        "tokens": float(sum(t.num_tokens for t in tallies)),
        "nonfinite_rows": float(sum(t.num_nonfinite for t in tallies)),
        "nonfinite_updates": float(sum(r.problem is not None for r in reports)),
    }
    done = [(r.tally, r.grad_norm) for r in reports if r.problem is None and r.grad_norm is not None]
    if not done:
        return values
    values["loss"] = float(np.mean([t.loss for t, _ in done]))
    values["grad_norm"] = float(np.mean([norm for _, norm in done]))
    rows = sum(t.num_rows for t, _ in done)
    for name in done[0][0].metrics():
        found = [(t.metrics()[name], t.num_rows) for t, _ in done if name in t.metrics()]
        is_max = name.endswith("_max")
        values[name] = max(v for v, _ in found) if is_max else sum(v * n for v, n in found) / rows
    return values
