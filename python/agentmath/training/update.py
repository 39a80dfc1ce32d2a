"""One optimiser update: micro-batches forward and backward, then a step, or a record of why there was none.

Reinforcement and supervised learning differ only in the loss they hand in.

Names in shapes: T tokens of a micro-batch, n targets of it, H hidden size, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter

from agentmath.config.training import TrainingSection
from agentmath.core.errors import ConfigError, TrainingError
from agentmath.core.types import Microbatch, TrainingSample
from agentmath.training.optim import Optimizer
from agentmath.training.packing import shared_prefixes
from agentmath_kernels import PolicyLossOutput
from agentmath_kernels.head import logits_dtype
from agentmath_kernels.row_operator import resolve


class TrainedPolicy(Protocol):
    """What an update needs of a policy."""

    @property
    def device(self) -> torch.device: ...

    def forward_hidden(
        self, ids: Tensor, positions: Tensor, lengths: Sequence[int], parents: Sequence[int] | None = None
    ) -> Tensor:
        """[T, H] final hidden states of rows of the given lengths laid end to end; a row sees itself and its parent."""
        ...

    def head_weight(self) -> Tensor:
        """[V, H]."""
        ...

    def named_parameters(self) -> Iterable[tuple[str, Parameter]]: ...


def loss_backend(policy: TrainedPolicy, section: TrainingSection) -> str:
    """What training.loss_backend comes to for this policy. Raises ConfigError, with the reason, where it cannot run."""
    try:
        return resolve(section.loss_backend, device=policy.device, dtype=logits_dtype(policy.head_weight().dtype))
    except ValueError as error:
        raise ConfigError(f'training.loss_backend = "{section.loss_backend}": {error}') from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A micro-batch as tensors: T tokens to forward, and n targets, each with the token that it is predicted from."""

    microbatch: Microbatch
    index: int
    """Which micro-batch of its update this is."""
    ids: Tensor
    """[T] int64."""
    positions: Tensor
    """[T] int64, from 0 in each sample."""
    lengths: list[int]
    """Of the rows: whole samples and common beginnings, then what goes on from a beginning."""
    parents: list[int] | None
    """Row that each row goes on from, -1 for none; None when nothing is shared."""
    context: Tensor
    """[n] int64: flat token whose hidden state predicts the target."""
    targets: Tensor
    """[n] int64 ids."""
    behaviour_logprobs: Tensor
    """[n] float32 of the targets; NaN where nobody sampled them."""
    sample_of_target: Tensor
    """[n] int64: index into microbatch.samples."""

    def spread(self, values: Sequence[float]) -> Tensor:
        """[n] float64: each sample's value at its targets."""
        per_sample = torch.tensor(values, dtype=torch.float64, device=self.ids.device)
        return per_sample.index_select(0, self.sample_of_target)


def as_tensors(microbatch: Microbatch, index: int, device: torch.device) -> Batch:
    """Lay the samples out, common beginnings once and first, and shift targets within each sample."""
    samples, roots, branches = microbatch.samples, _Layout(), _Layout()
    shared = shared_prefixes(samples)
    begins: dict[str, tuple[int, int]] = {}
    pieces: list[tuple[int, int, int]] = []
    parents: list[int] = []
    for sample in samples:
        common = shared.get(sample.prefix_key, 0)
        if common and sample.prefix_key not in begins:
            begins[sample.prefix_key] = roots.add(sample.ids[:common], first_position=0)
        if common:
            row, start = begins[sample.prefix_key]
            pieces.append((start, common, branches.add(sample.ids[common:], first_position=common)[1]))
            parents.append(row)
        else:
            pieces.append((roots.add(sample.ids, first_position=0)[1], len(sample), 0))
    context = [_context(s, piece, roots.num_tokens) for s, piece in zip(samples, pieces, strict=True)]
    targets = [np.flatnonzero(s.trainable[1:]) + 1 for s in samples]

    def tensor(arrays: Sequence[np.ndarray], dtype: type = np.int64) -> Tensor:
        return torch.from_numpy(np.concatenate([*arrays]).astype(dtype, copy=False)).to(device)

    return Batch(
        microbatch=microbatch,
        index=index,
        ids=tensor([*roots.ids, *branches.ids]),
        positions=tensor([*roots.positions, *branches.positions]),
        lengths=[len(row) for row in (*roots.ids, *branches.ids)],
        parents=[*[-1] * len(roots.ids), *parents] if parents else None,
        context=tensor(context),
        targets=tensor([s.ids[t] for s, t in zip(samples, targets, strict=True)]),
        behaviour_logprobs=tensor([s.behaviour_logprobs[t] for s, t in zip(samples, targets, strict=True)], np.float32),
        sample_of_target=tensor([np.full(len(t), i) for i, t in enumerate(targets)]),
    )


@dataclass(slots=True)
class _Layout:
    """Rows laid end to end."""

    ids: list[np.ndarray] = field(default_factory=list)
    positions: list[np.ndarray] = field(default_factory=list)
    num_tokens: int = 0

    def add(self, ids: np.ndarray, *, first_position: int) -> tuple[int, int]:
        """Append a row; returns (its number, its first flat token)."""
        self.ids.append(ids)
        self.positions.append(np.arange(first_position, first_position + len(ids)))
        self.num_tokens += len(ids)
        return len(self.ids) - 1, self.num_tokens - len(ids)


def _context(sample: TrainingSample, piece: tuple[int, int, int], num_root_tokens: int) -> np.ndarray:
    """[n] flat token before each target; piece: (start among roots, tokens there, start among branches)."""
    start, common, branch = piece
    before = np.flatnonzero(sample.trainable[1:])
    return np.where(before < common, start + before, num_root_tokens + branch + before - common)


@dataclass(slots=True, kw_only=True)
class Tally:
    """Sums of loss outputs over micro-batches, and the means they give."""

    loss: float = 0.0
    num_rows: int = 0
    num_nonfinite: int = 0
    num_microbatches: int = 0
    num_tokens: int = 0
    _sums: dict[str, float] = field(default_factory=dict)

    def add(self, out: PolicyLossOutput, num_tokens: int) -> None:
        self.loss += float(out.loss.detach())
        self.num_rows += out.num_rows
        self.num_nonfinite += out.num_nonfinite
        self.num_microbatches += 1
        self.num_tokens += num_tokens
        for name, value in out.metrics.items():
            if name.endswith("_max"):
                self._sums[name] = max(self._sums.get(name, value), value)
            else:
                self._sums[name] = self._sums.get(name, 0.0) + value * out.num_rows

    def metrics(self) -> dict[str, float]:
        """Means over rows, and maxima; empty without rows."""
        return {k: v if k.endswith("_max") else v / self.num_rows for k, v in self._sums.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateReport:
    """What one update did."""

    tally: Tally
    grad_norm: float | None
    """Before clipping; None when no step was tried."""
    problem: str | None = None
    """Why the weights were left as they were."""


LossOf = Callable[[Tensor, Tensor, Batch], PolicyLossOutput]
"""(hidden [n, H] of the targets, head [V, H], batch) -> its share of the update's loss."""


def hidden_of_targets(policy: TrainedPolicy, batch: Batch) -> Tensor:
    """[n, H] hidden states that predict the targets."""
    hidden = policy.forward_hidden(batch.ids, batch.positions, batch.lengths, batch.parents)
    return hidden.index_select(0, batch.context)


def run_update(
    policy: TrainedPolicy, optimizer: Optimizer, microbatches: Sequence[Microbatch], loss_of: LossOf, *, step: int
) -> UpdateReport:
    """Accumulate the gradient of all micro-batches and move the weights once.

    The first non-finite loss or row ends the update; weights and optimiser state then stay untouched.
    """
    tally = Tally()
    optimizer.zero_grad()
    for index, microbatch in enumerate(microbatches):
        batch = as_tensors(microbatch, index, policy.device)
        out = loss_of(hidden_of_targets(policy, batch), policy.head_weight(), batch)
        out.loss.backward()
        optimizer.collect()
        tally.add(out, microbatch.num_tokens)
        if out.num_nonfinite or not math.isfinite(tally.loss):
            optimizer.zero_grad()
            rows = f"{out.num_nonfinite} of {out.num_nonfinite + out.num_rows} rows"
            problem = f"micro-batch {index} has {rows} that are not finite and loss {float(out.loss.detach())}"
            return UpdateReport(tally=tally, grad_norm=None, problem=problem)
    norm = optimizer.step(step)
    optimizer.zero_grad()
    problem = None if math.isfinite(norm) else f"the gradient's norm is {norm}"
    return UpdateReport(tally=tally, grad_norm=norm, problem=problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class NonfinitePolicy:
    """What to do with an update that was not made."""

    action: str
    """"raise" or "skip"."""
    folder: Path | None
    """Where its batch is kept for inspection; None keeps nothing."""
    optimizer: str = "optimizer"
    """Section of the recipe whose learning rate acted."""

    def handle(self, report: UpdateReport, microbatches: Sequence[Microbatch], *, name: str) -> None:
        """Keep the batch of a report with a problem, and raise TrainingError if that is the policy."""
        if report.problem is None:
            return
        kept = self._keep(microbatches, name)
        if self.action == "raise":
            raise TrainingError(
                f"{name}: no update was made because {report.problem}; {kept}. Lower {self.optimizer}.learning_rate, "
                'look at the batch, or set training.nonfinite = "skip" to go on without such updates'
            )

    def _keep(self, microbatches: Sequence[Microbatch], name: str) -> str:
        if self.folder is None:
            return "its batch was not kept"
        path = self.folder / f"nonfinite-{name}.npz"
        try:
            save_batch(path, microbatches)
        except OSError as error:
            return f"its batch could not be kept in {path} ({error})"
        return f"its batch is in {path}"


def save_batch(path: Path, microbatches: Sequence[Microbatch]) -> None:
    """Write all samples of an update as arrays laid end to end, with lengths [S] to cut them apart."""
    samples = [s for m in microbatches for s in m.samples]
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        path,
        keys=np.array([s.key for s in samples]),
        policies=np.array([s.policy for s in samples]),
        lengths=np.array([len(s) for s in samples]),
        advantages=np.array([s.advantage for s in samples]),
        microbatch=np.repeat(np.arange(len(microbatches)), [len(m.samples) for m in microbatches]),
        ids=np.concatenate([s.ids for s in samples]),
        trainable=np.concatenate([s.trainable for s in samples]),
        behaviour_logprobs=np.concatenate([s.behaviour_logprobs for s in samples]),
        versions=np.concatenate([s.versions for s in samples]),
    )
