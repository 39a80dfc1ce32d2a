"""The one loop over row chunks of the vocabulary projection: [n, V] logits never exist, only a chunk of them.

Shapes: T tokens, n rows that take part in the loss, D hidden size, V vocabulary, C rows of one chunk.

The losses built on it are row-local: the derivative of a row's term by its own log-prob needs nothing of other rows
once the global normaliser is known. So the gradient is formed where the logits still are, in the forward pass (three
vocabulary GEMMs in all, no recomputation), and backward only hands it over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class RowTerms(NamedTuple):
    """What a loss says about rows, each [c]: its terms, their derivatives by the row's log-prob, and who counts."""

    loss: Tensor
    dlogp: Tensor
    finite: Tensor
    """False excludes the row: no loss, no gradient."""


RowLoss = Callable[[slice, Tensor], RowTerms]
"""(rows start:stop of the n, their log-probs [c]) -> terms. Called once per chunk, in order, without grad."""


class HeadOutput(NamedTuple):
    """loss is a scalar on the graph; the others are [n], detached, in token order."""

    loss: Tensor
    logprobs: Tensor
    entropy: Tensor
    finite: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows that take part, and how they are walked."""

    index: Tensor
    """[n] int64 positions in the [T, D] hidden states."""
    targets: Tensor
    """[n] int64 vocabulary ids."""
    temperature: float
    dtype: torch.dtype
    """Type of logits and of everything per row."""
    chunk_rows: int

    @staticmethod
    def select(
        hidden: Tensor, weight: Tensor, targets: Tensor, mask: Tensor | None, *, temperature: float, chunk_bytes: int
    ) -> Rows:
        """Check shapes and compact: rows outside the mask are never read, so a NaN there cannot leak."""
        if hidden.ndim != 2 or weight.ndim != 2 or hidden.shape[1] != weight.shape[1]:
            raise ValueError(f"need hidden [T, D] and weight [V, D], got {[*hidden.shape]} and {[*weight.shape]}")
        if targets.shape != hidden.shape[:1]:
            raise ValueError(f"targets must be [T] = [{hidden.shape[0]}], got {[*targets.shape]}")
        if not temperature > 0:
            raise ValueError(f"temperature is {temperature}; log-probs need one above 0")
        if mask is None:
            index = torch.arange(hidden.shape[0], device=hidden.device)
        elif mask.shape != targets.shape or mask.dtype != torch.bool:
            raise ValueError(f"mask must be bool [T] = [{hidden.shape[0]}], got {mask.dtype} {[*mask.shape]}")
        else:
            index = mask.nonzero().squeeze(1)
        chosen, vocab = targets.index_select(0, index).long(), weight.shape[0]
        lowest, highest = (int(chosen.min()), int(chosen.max())) if chosen.numel() else (0, 0)
        if lowest < 0 or highest >= max(1, vocab):
            raise ValueError(
                f"target ids lie in [{lowest}, {highest}], the head has {vocab} rows; "
                "ids and head must come from the same tokenizer and model"
            )
        # Logits in less than float32 move the sampled token's log-prob by up to 0.1.
        dtype = torch.float64 if torch.float64 in (hidden.dtype, weight.dtype) else torch.float32
        chunk_rows = max(1, chunk_bytes // (vocab * dtype.itemsize))
        return Rows(index=index, targets=chosen, temperature=temperature, dtype=dtype, chunk_rows=chunk_rows)


def head_loss(hidden: Tensor, weight: Tensor, rows: Rows, row_loss: RowLoss, *, want_entropy: bool) -> HeadOutput:
    """Sum of row_loss over the rows, differentiable once by hidden [T, D] and weight [V, D].

    No rows: loss 0 on the graph, with zero gradients. entropy is empty unless wanted.
    """
    grad = torch.is_grad_enabled()
    wants = (grad and hidden.requires_grad, grad and weight.requires_grad)
    return HeadOutput(*_HeadLoss.apply(hidden, weight, rows, row_loss, (wants, want_entropy)))


class _HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, hidden: Tensor, weight: Tensor, rows: Rows, row_loss: RowLoss, options: Any
    ) -> tuple[Tensor, ...]:
        (wants_dhidden, wants_dweight), want_entropy = options
        walk = _Walk(hidden, weight, rows, want_entropy=want_entropy)
        walk.prepare_gradients(wants_dhidden, wants_dweight)
        for start in range(0, rows.index.numel(), rows.chunk_rows):
            walk.chunk(slice(start, min(start + rows.chunk_rows, rows.index.numel())), row_loss)
        ctx.save_for_backward(walk.dhidden, walk.dweight)
        ctx.weight_dtype = weight.dtype
        outputs = (walk.loss.to(walk.dtype), walk.logprobs, walk.entropy, walk.finite)
        ctx.mark_non_differentiable(*outputs[1:])
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        # Scaled in place, since a second [V, D] would cost more than it is worth; autograd's version counter then
        # refuses a second backward through the same graph.
        dhidden, dweight = ctx.saved_tensors
        if dhidden is not None:
            dhidden.mul_(grads[0])
        if dweight is not None:
            dweight = dweight.mul_(grads[0]).to(ctx.weight_dtype)
        return dhidden, dweight, None, None, None


class _Walk:
    """Buffers of one forward pass: two chunks [C, V], the outputs [n], the gradients."""

    def __init__(self, hidden: Tensor, weight: Tensor, rows: Rows, *, want_entropy: bool) -> None:
        n, device = rows.index.numel(), hidden.device
        self.hidden, self.rows, self.want_entropy = hidden, rows, want_entropy
        self.dtype = rows.dtype
        # CPU kernels cannot multiply bf16 into fp32 results; upcasting once is exact, and fast where bf16 is emulated.
        self.weight = weight.to(self.dtype) if device.type == "cpu" or hidden.dtype != weight.dtype else weight
        shape = (min(rows.chunk_rows, n), weight.shape[0])
        self.logits_buffer = torch.empty(shape, dtype=self.dtype, device=device)
        self.probs_buffer = torch.empty(shape if want_entropy else (0, 0), dtype=self.dtype, device=device)
        self.loss = torch.zeros((), dtype=torch.float64, device=device)
        self.logprobs = torch.empty(n, dtype=self.dtype, device=device)
        self.entropy = torch.empty(n if want_entropy else 0, dtype=self.dtype, device=device)
        self.finite = torch.empty(n, dtype=torch.bool, device=device)
        self.dhidden: Tensor | None = None
        self.dweight: Tensor | None = None

    def prepare_gradients(self, wants_dhidden: bool, wants_dweight: bool) -> None:
        if wants_dhidden:
            self.dhidden = torch.zeros_like(self.hidden)
        if wants_dweight:
            self.dweight = torch.zeros(self.weight.shape, dtype=self.dtype, device=self.hidden.device)

    def chunk(self, span: slice, row_loss: RowLoss) -> None:
        index, targets = self.rows.index[span], self.rows.targets[span]
        h = self.hidden.index_select(0, index).to(self.weight.dtype)
        logits = self._project(h, self.logits_buffer[: h.shape[0]])
        if self.rows.temperature != 1.0:
            logits.div_(self.rows.temperature)
        logp_all = torch.log_softmax(logits, -1, out=logits)
        logp = logp_all.gather(1, targets[:, None]).squeeze(1)
        if self.want_entropy:
            probs = torch.exp(logp_all, out=self.probs_buffer[: h.shape[0]])
            self.entropy[span] = _entropy(probs, logp_all)
        else:
            probs = logp_all.exp_()
        terms = row_loss(span, logp)
        finite = terms.finite & logp.isfinite() & h.isfinite().all(1)
        self.logprobs[span], self.finite[span] = logp, finite
        self.loss += torch.where(finite, terms.loss, 0).sum(dtype=torch.float64)
        if self.dhidden is not None or self.dweight is not None:
            dlogits = self._dlogits(probs, targets, torch.where(finite, terms.dlogp, 0))
            self._accumulate(h, dlogits, index, finite)

    def _project(self, h: Tensor, out: Tensor) -> Tensor:
        if self.weight.dtype == self.dtype:
            return torch.mm(h, self.weight.t(), out=out)
        return torch.mm(h, self.weight.t(), out_dtype=self.dtype)

    def _dlogits(self, probs: Tensor, targets: Tensor, dlogp: Tensor) -> Tensor:
        """d loss / d logits = dlogp (onehot - p) / temperature, written over probs."""
        scaled = (dlogp / self.rows.temperature)[:, None]
        return probs.mul_(-scaled).scatter_add_(1, targets[:, None], scaled)

    def _accumulate(self, h: Tensor, dlogits: Tensor, index: Tensor, finite: Tensor) -> None:
        if not bool(finite.all()):
            # 0 * NaN is NaN, so an excluded row has to leave both factors of the products.
            dlogits.masked_fill_(~finite[:, None], 0)
            h = h.masked_fill(~finite[:, None], 0)
        factor = dlogits.to(self.weight.dtype)
        if self.dhidden is not None:
            dh = torch.mm(factor, self.weight).masked_fill_(~finite[:, None], 0)
            self.dhidden.index_copy_(0, index, dh.to(self.dhidden.dtype))
        if self.dweight is None:
            return
        if factor.dtype == self.dtype:
            self.dweight.addmm_(factor.t(), h)
        else:
            self.dweight += torch.mm(factor.t(), h, out_dtype=self.dtype)


def _entropy(probs: Tensor, logp: Tensor) -> Tensor:
    """-sum p log p of each row [c], with 0 log 0 = 0."""
    entropy = -torch.bmm(probs[:, None, :], logp[:, :, None]).flatten()
    suspect = entropy.isnan().nonzero().squeeze(1)
    if suspect.numel():
        # A logit of -inf makes 0 * -inf. Rare, so those rows alone pay for the guard; truly broken rows stay NaN.
        p, lp = probs[suspect], logp[suspect]
        entropy[suspect] = -torch.where(p == 0, 0, p * lp).sum(1)
    return entropy
