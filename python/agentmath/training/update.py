"""One optimiser update: micro-batches forward and backward, then a step, or a record of why there was none.

Reinforcement and supervised learning differ only in the loss they hand in.

Names in shapes: T tokens of a micro-batch, H hidden size, V vocabulary.
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

from agentmath.core.errors import TrainingError
from agentmath.core.types import Microbatch
from agentmath.training.optim import Optimizer
from agentmath_kernels import PolicyLossOutput


class TrainedPolicy(Protocol):
    """What an update needs of a policy."""

    @property
    def device(self) -> torch.device: ...

    def forward_hidden(self, ids: Tensor, positions: Tensor, lengths: Sequence[int]) -> Tensor:
        """[T, H] final hidden states of rows of the given lengths laid end to end; nothing crosses rows."""
        ...

    def head_weight(self) -> Tensor:
        """[V, H]."""
        ...

    def named_parameters(self) -> Iterable[tuple[str, Parameter]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A micro-batch as tensors, targets shifted: position t predicts targets[t] = ids[t + 1] of the same sample."""

    microbatch: Microbatch
    index: int
    """Which micro-batch of its update this is."""
    ids: Tensor
    """[T] int64."""
    positions: Tensor
    """[T] int64, from 0 in each sample."""
    lengths: list[int]
    targets: Tensor
    """[T] int64; meaningless outside mask."""
    mask: Tensor
    """[T] bool: the target is trainable, and of the same sample."""
    behaviour_logprobs: Tensor
    """[T] float32 of the targets; NaN where nobody sampled them."""


def as_tensors(microbatch: Microbatch, index: int, device: torch.device) -> Batch:
    """Lay the samples end to end and shift within each."""
    samples = microbatch.samples
    lengths = [len(s) for s in samples]
    ids = np.concatenate([s.ids for s in samples]).astype(np.int64)
    trainable = np.concatenate([s.trainable for s in samples])
    logprobs = np.concatenate([s.behaviour_logprobs for s in samples])
    mask = np.append(trainable[1:], False)
    mask[np.cumsum(lengths) - 1] = False

    def tensor(array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    return Batch(
        microbatch=microbatch,
        index=index,
        ids=tensor(ids),
        positions=tensor(np.concatenate([np.arange(n) for n in lengths])),
        lengths=lengths,
        targets=tensor(np.append(ids[1:], 0)),
        mask=tensor(mask),
        behaviour_logprobs=tensor(np.append(logprobs[1:], np.float32(np.nan))),
    )


def per_token(batch: Batch, values: Sequence[float]) -> Tensor:
    """[T] float64: each sample's value at all of its tokens."""
    return torch.from_numpy(np.repeat(np.asarray(values, dtype=np.float64), batch.lengths)).to(batch.ids.device)


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
"""(hidden [T, H], head [V, H], batch) -> its share of the update's loss."""


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
        hidden = policy.forward_hidden(batch.ids, batch.positions, batch.lengths)
        out = loss_of(hidden, policy.head_weight(), batch)
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

    def handle(self, report: UpdateReport, microbatches: Sequence[Microbatch], *, name: str) -> None:
        """Keep the batch of a report with a problem, and raise TrainingError if that is the policy."""
        if report.problem is None:
            return
        kept = self._keep(microbatches, name)
        if self.action == "raise":
            raise TrainingError(
                f"{name}: no update was made because {report.problem}; {kept}. Lower optimizer.learning_rate, look at "
                'the batch, or set training.nonfinite = "skip" to go on without such updates'
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
