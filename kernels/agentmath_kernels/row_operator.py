"""What is done with a chunk of logits once it is there, by backend: read figures, write the gradient in its place.

Shapes: C rows of one chunk, V vocabulary. With x = logits / temperature and p = softmax(x):

    logprob = x[target] - logsumexp(x)        entropy = -sum p log p, in nats
    d loss / d logits = (a (onehot - p) - b p (log p + entropy)) / temperature

where a and b are the derivatives of the loss by the row's log-prob and entropy.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

Backend = Literal["auto", "native", "triton", "torch"]
"""native: C++ on the CPU in float32; triton: kernels on a GPU in float32; torch: any device and type; auto: the first
of these that can run."""


@dataclass(frozen=True, slots=True)
class RowFigures:
    """Of the rows of one chunk."""

    logprob: Tensor
    """[C]; NaN for a row that holds NaN or no finite logit."""
    entropy: Tensor
    """[C]; empty unless it was asked for."""
    peak: Tensor
    """[C] max x."""
    log_sum: Tensor
    """[C] log sum exp(x - peak): kept apart, as the sum of both loses digits of a large peak."""
    kept: Any = None
    """What the backend needs again to write the gradient, besides these."""


class RowOperator(Protocol):
    """Both halves of a backend. Logits are overwritten."""

    def read(self, logits: Tensor, targets: Tensor, temperature: float, *, want_entropy: bool) -> RowFigures:
        """Figures of logits [C, V] at targets [C]."""
        ...

    def write(self, logits: Tensor, targets: Tensor, temperature: float, figures: RowFigures, slopes: Slopes) -> Tensor:
        """d loss / d logits [C, V], in the memory of logits; rows whose slopes are 0 are 0."""
        ...


@dataclass(frozen=True, slots=True)
class Slopes:
    """Derivatives of the loss, each [C]."""

    by_logprob: Tensor
    by_entropy: Tensor | None = None
    """None where the loss has no entropy in it; else the figures must have been read with it."""


def resolve(backend: Backend, *, device: torch.device, dtype: torch.dtype) -> str:
    """Name of the backend for such logits. Raises ValueError that says why a named one cannot run."""
    faults: dict[str, str | None] = {
        "native": _native_fault(device, dtype),
        "triton": _triton_fault(device, dtype),
        "torch": None,
    }
    if backend not in ("auto", *faults):
        raise ValueError(f"there is no loss backend {backend!r}: known are auto, {', '.join(faults)}")
    name = next(n for n, fault in faults.items() if fault is None) if backend == "auto" else backend
    if faults[name] is not None:
        raise ValueError(f"the loss backend {name!r} cannot run: {faults[name]}; take 'torch' or 'auto'")
    return name


def choose(backend: Backend, logits: Tensor) -> RowOperator:
    """The operator for logits of this type and device; ValueError as in resolve."""
    name = resolve(backend, device=logits.device, dtype=logits.dtype)
    if name == "native":
        return NativeRows(_native())
    if name == "triton":
        from agentmath_kernels.triton_rows import TritonRows

        return TritonRows()
    return TorchRows()


def _native_fault(device: torch.device, dtype: torch.dtype) -> str | None:
    if device.type != "cpu":
        return f"it runs on the CPU, and the logits are on {device}"
    if dtype != torch.float32:
        return f"it computes in float32, and the logits are {dtype}"
    return "the compiled module agentmath._C is not installed" if _native() is None else None


def _triton_fault(device: torch.device, dtype: torch.dtype) -> str | None:
    if device.type != "cuda":
        return f"it runs on a GPU, and the logits are on {device}"
    if dtype != torch.float32:
        return f"it computes in float32, and the logits are {dtype}"
    return "triton is not installed: pip install 'agentmath[gpu]'" if find_spec("triton") is None else None


def _native() -> Any:
    try:
        import agentmath._C
    except ImportError:
        return None
    return getattr(agentmath._C, "loss", None)


class TorchRows:
    """By whole-chunk torch operators; about one more chunk of memory."""

    def read(self, logits: Tensor, targets: Tensor, temperature: float, *, want_entropy: bool) -> RowFigures:
        if temperature != 1.0:
            logits.div_(temperature)
        peak = logits.amax(-1)
        logp = torch.log_softmax(logits, -1, out=logits)
        entropy = _entropy(logp) if want_entropy else logp.new_empty(0)
        return RowFigures(logp.gather(1, targets[:, None]).squeeze(1), entropy, peak, -logp.amax(-1))

    def write(self, logits: Tensor, targets: Tensor, temperature: float, figures: RowFigures, slopes: Slopes) -> Tensor:
        a = (slopes.by_logprob / temperature)[:, None]
        if slopes.by_entropy is None:
            gradient = logits.exp_().mul_(-a)
        else:
            b = (slopes.by_entropy / temperature)[:, None]
            weight = logits.clamp(min=torch.finfo(logits.dtype).min).add_(figures.entropy[:, None]).mul_(b).add_(a)
            gradient = logits.exp_().mul_(weight).neg_()
        gradient.scatter_add_(1, targets[:, None], a)
        still = (a == 0) if slopes.by_entropy is None else (a == 0) & (slopes.by_entropy == 0)[:, None]
        # 0 * NaN is NaN, so a row that is to be left out has to be written over.
        return gradient.masked_fill_(still, 0) if bool(still.any()) else gradient


def _entropy(logp: Tensor) -> Tensor:
    """-sum p log p of each row [C], with 0 log 0 = 0."""
    # A sum and no product of matrices: over a flat row of 5,000 those lose three digits more.
    entropy = -logp.exp().mul_(logp).sum(1)
    suspect = entropy.isnan().nonzero().squeeze(1)
    if suspect.numel():
        # A logit of -inf makes 0 * -inf. Rare, so those rows alone pay for the guard; truly broken rows stay NaN.
        lp = logp[suspect]
        p = lp.exp()
        entropy[suspect] = -torch.where(p == 0, 0, p * lp).sum(1)
    return entropy


class NativeRows:
    """By C++ kernels for the processor's own vector width: two passes over the chunk, no memory of their own."""

    def __init__(self, module: Any) -> None:
        """module: agentmath._C.loss."""
        self._module = module

    def read(self, logits: Tensor, targets: Tensor, temperature: float, *, want_entropy: bool) -> RowFigures:
        peak, log_sum, logprob = (logits.new_empty(len(logits)) for _ in range(3))
        entropy = logits.new_empty(len(logits) if want_entropy else 0)
        kept = self._module.Figures(peak, log_sum, logprob, entropy if want_entropy else None)
        self._module.read_rows(logits, targets, 1 / temperature, kept, torch.get_num_threads())
        return RowFigures(logprob, entropy, peak, log_sum, kept)

    def write(self, logits: Tensor, targets: Tensor, temperature: float, figures: RowFigures, slopes: Slopes) -> Tensor:
        by_entropy = None if slopes.by_entropy is None else slopes.by_entropy.contiguous()
        self._module.write_gradients(
            logits,
            targets,
            1 / temperature,
            figures.kept,
            slopes.by_logprob.contiguous(),
            by_entropy,
            torch.get_num_threads(),
        )
        return logits
