"""The one loop over row chunks of the vocabulary projection: [n, V] logits never exist, only a chunk of them.

Shapes: T tokens, n rows that take part in the loss, D hidden size, V vocabulary, C rows of one chunk.

The losses built on it are row-local: the derivative of a row's term by its own log-prob needs nothing of other rows
once the global normaliser is known. So the gradient is formed where the logits still are, in the forward pass (three
vocabulary GEMMs in all, no recomputation), and backward only hands it over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from agentmath_kernels.row_operator import Backend, RowFigures, Slopes, choose
from agentmath_kernels.vocabulary import Part, Shard


class RowTerms(NamedTuple):
    """What a loss says about rows, each [c]: its terms, their derivatives by the row's log-prob, and who counts."""

    loss: Tensor
    dlogp: Tensor
    finite: Tensor
    """False excludes the row: no loss, no gradient."""
    dentropy: Tensor | None = None
    """Derivatives by the row's entropy, where the loss has one in it."""


def logits_dtype(*inputs: torch.dtype) -> torch.dtype:
    """Type of logits and of everything per row: less than float32 would move a log-prob by up to 0.1."""
    return torch.float64 if torch.float64 in inputs else torch.float32


DEFAULT_CHUNK_BYTES = 64 << 20

RowLoss = Callable[[slice, Tensor, Tensor], RowTerms]
"""(rows start:stop of the n, their log-probs [c], their entropies [c] if wanted) -> terms. Called once per chunk, in
order, without grad."""


class HeadOutput(NamedTuple):
    """loss is a scalar on the graph; the others are [n], detached, in token order."""

    loss: Tensor
    logprobs: Tensor
    entropy: Tensor
    finite: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How rows are walked."""

    temperature: float = 1.0
    chunk_bytes: int = DEFAULT_CHUNK_BYTES
    """Memory for one chunk of logits."""
    backend: Backend = "auto"
    shard: Shard | None = None
    """Set where the weight that comes along is a part of the head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows that take part, and how they are walked."""

    index: Tensor
    """[n] int64 positions in the [T, D] hidden states."""
    targets: Tensor
    """[n] int64 vocabulary ids."""
    options: Options
    dtype: torch.dtype
    """Type of logits and of everything per row."""
    chunk_rows: int

    @staticmethod
    def select(hidden: Tensor, weight: Tensor, targets: Tensor, mask: Tensor | None, options: Options) -> Rows:
        """Check shapes and compact: rows outside the mask are never read, so a NaN there cannot leak."""
        if hidden.ndim != 2 or weight.ndim != 2 or hidden.shape[1] != weight.shape[1]:
            raise ValueError(f"need hidden [T, D] and weight [V, D], got {[*hidden.shape]} and {[*weight.shape]}")
        if targets.shape != hidden.shape[:1]:
            raise ValueError(f"targets must be [T] = [{hidden.shape[0]}], got {[*targets.shape]}")
        if not options.temperature > 0:
            raise ValueError(f"temperature is {options.temperature}; log-probs need one above 0")
        if mask is None:
            index = torch.arange(hidden.shape[0], device=hidden.device)
        elif mask.shape != targets.shape or mask.dtype != torch.bool:
            raise ValueError(f"mask must be bool [T] = [{hidden.shape[0]}], got {mask.dtype} {[*mask.shape]}")
        else:
            index = mask.nonzero().squeeze(1)
        chosen, vocab = targets.index_select(0, index).long(), weight.shape[0]
        _check_ids(chosen, vocab, options.shard)
        dtype = logits_dtype(hidden.dtype, weight.dtype)
        # Parts of a head exchange figures chunk by chunk, so all must cut alike, whatever their own size.
        width = vocab if options.shard is None else options.shard.mean_rows
        chunk_rows = max(1, options.chunk_bytes // (width * dtype.itemsize))
        return Rows(index=index, targets=chosen, options=options, dtype=dtype, chunk_rows=chunk_rows)

    def spans(self) -> Iterator[slice]:
        """The n rows in chunks."""
        n = self.index.numel()
        return (slice(start, min(start + self.chunk_rows, n)) for start in range(0, n, self.chunk_rows))


def _check_ids(targets: Tensor, vocab: int, shard: Shard | None) -> None:
    whole = vocab if shard is None else shard.num_ids
    if shard is not None and not 0 <= shard.first_id <= whole - vocab:
        raise ValueError(
            f"a part of {vocab} rows from id {shard.first_id} on does not lie in a head of {whole} rows: "
            "give each rank its own first_id, and the rows of all ranks as num_ids"
        )
    lowest, highest = (int(targets.min()), int(targets.max())) if targets.numel() else (0, 0)
    if lowest < 0 or highest >= max(1, whole):
        raise ValueError(
            f"target ids lie in [{lowest}, {highest}], the head has {whole} rows; "
            "ids and head must come from the same tokenizer and model"
        )


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
        wants, want_entropy = options
        walk = _Walk(hidden, weight, rows)
        walk.prepare_gradients(*wants)
        n, per_row = rows.index.numel(), {"dtype": rows.dtype, "device": hidden.device}
        loss = torch.zeros((), dtype=torch.float64, device=hidden.device)
        logprobs, entropy = torch.empty(n, **per_row), torch.empty(n if want_entropy else 0, **per_row)
        finite = torch.empty(n, dtype=torch.bool, device=hidden.device)
        for span in rows.spans():
            chunk = walk.chunk(span, want_entropy=want_entropy)
            terms = row_loss(span, chunk.logprob, chunk.entropy)
            counts = terms.finite & chunk.finite
            logprobs[span], finite[span] = chunk.logprob, counts
            if want_entropy:
                entropy[span] = chunk.entropy
            loss += torch.where(counts, terms.loss, 0).sum(dtype=torch.float64)
            if any(wants):
                by_entropy = None if terms.dentropy is None else torch.where(counts, terms.dentropy, 0)
                chunk.accumulate(Slopes(torch.where(counts, terms.dlogp, 0), by_entropy), counts)
        walk.finish()
        ctx.save_for_backward(walk.dhidden, walk.dweight)
        ctx.weight_dtype = weight.dtype
        outputs = (loss.to(rows.dtype), logprobs, entropy, finite)
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


def head_logprobs(hidden: Tensor, weight: Tensor, rows: Rows, *, want_entropy: bool) -> tuple[Tensor, Tensor]:
    """([n] log-probs, [n] entropies), differentiable once by hidden and weight, for losses that are not row-local.

    The forward pass keeps no logits; the backward pass forms them again, chunk by chunk (one vocabulary GEMM, then
    three). entropy is empty unless wanted. A row whose log-prob is not finite has no gradient.
    """
    return _HeadLogprobs.apply(hidden, weight, rows, want_entropy)  # pyright: ignore[reportReturnType]


class _HeadLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, hidden: Tensor, weight: Tensor, rows: Rows, want_entropy: bool
    ) -> tuple[Tensor, Tensor]:
        walk = _Walk(hidden, weight, rows)
        chunks = [walk.chunk(span, want_entropy=want_entropy) for span in rows.spans()]
        empty = torch.empty(0, dtype=rows.dtype, device=hidden.device)
        ctx.save_for_backward(hidden, weight)
        ctx.rows, ctx.want_entropy = rows, want_entropy
        return torch.cat([empty, *(c.logprob for c in chunks)]), torch.cat([empty, *(c.entropy for c in chunks)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        hidden, weight = ctx.saved_tensors
        walk = _Walk(hidden, weight, ctx.rows)
        walk.prepare_gradients(*ctx.needs_input_grad[:2])
        for span in ctx.rows.spans():
            chunk = walk.chunk(span, want_entropy=ctx.want_entropy)
            finite = chunk.finite & chunk.logprob.isfinite()
            by_logprob, by_entropy = torch.where(finite, grads[0][span], 0), None
            if ctx.want_entropy:
                by_entropy = torch.where(finite, grads[1][span], 0)
            chunk.accumulate(Slopes(by_logprob, by_entropy), finite)
        walk.finish()
        dweight = None if walk.dweight is None else walk.dweight.to(weight.dtype)
        return walk.dhidden, dweight, None, None


class _Walk:
    """One pass over the rows: the buffer of a chunk [C, V] and the gradients."""

    def __init__(self, hidden: Tensor, weight: Tensor, rows: Rows) -> None:
        device = hidden.device
        self.hidden, self.rows, self.dtype = hidden, rows, rows.dtype
        # CPU kernels cannot multiply bf16 into fp32 results; upcasting once is exact, and fast where bf16 is emulated.
        self.weight = weight.to(self.dtype) if device.type == "cpu" or hidden.dtype != weight.dtype else weight
        shape = (min(rows.chunk_rows, rows.index.numel()), weight.shape[0])
        self.buffer = torch.empty(shape, dtype=self.dtype, device=device)
        self.operator = choose(rows.options.backend, self.buffer)
        self.dhidden: Tensor | None = None
        self.dweight: Tensor | None = None

    def prepare_gradients(self, wants_dhidden: bool, wants_dweight: bool) -> None:
        if wants_dhidden:
            self.dhidden = torch.zeros_like(self.hidden)
        if wants_dweight:
            self.dweight = torch.zeros(self.weight.shape, dtype=self.dtype, device=self.hidden.device)

    def chunk(self, span: slice, *, want_entropy: bool) -> _Chunk:
        """Form the logits of some rows and read them; the chunk before is gone."""
        index, targets = self.rows.index[span], self.rows.targets[span]
        h = self.hidden.index_select(0, index).to(self.weight.dtype)
        logits, shard = self._project(h, self.buffer[: h.shape[0]]), self.rows.options.shard
        if shard is None:
            figures = self.operator.read(logits, targets, self.rows.options.temperature, want_entropy=want_entropy)
            return _Chunk(self, index, targets, h, logits, figures)
        targets, here = shard.locate(targets, self.weight.shape[0])
        figures = self.operator.read(logits, targets, self.rows.options.temperature, want_entropy=want_entropy)
        return _Chunk(self, index, targets, h, logits, figures, Part(shard.gather(figures, here), here))

    def finish(self) -> None:
        """Once all chunks are through: what the parts of a head say about the hidden states is added up."""
        if self.rows.options.shard is not None and self.dhidden is not None:
            self.rows.options.shard.sum(self.dhidden)

    def _project(self, h: Tensor, out: Tensor) -> Tensor:
        if self.weight.dtype == self.dtype:
            return torch.mm(h, self.weight.t(), out=out)
        return torch.mm(h, self.weight.t(), out_dtype=self.dtype)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Rows whose logits are in the walk's buffer now."""

    walk: _Walk
    index: Tensor
    targets: Tensor
    hidden: Tensor
    logits: Tensor
    own: RowFigures
    """Of this rank's part of the head."""
    part: Part | None = None
    """Set where there are other parts."""

    @property
    def logprob(self) -> Tensor:
        return self.own.logprob if self.part is None else self.part.whole.logprob

    @property
    def entropy(self) -> Tensor:
        return self.own.entropy if self.part is None else self.part.whole.entropy

    @property
    def finite(self) -> Tensor:
        """[C] rows whose inputs and log-prob are finite."""
        return self.logprob.isfinite() & self.hidden.isfinite().all(1)

    def accumulate(self, slopes: Slopes, finite: Tensor) -> None:
        """Add to the walk's gradients; rows outside `finite` must have slopes 0."""
        walk, h = self.walk, self.hidden
        dlogits = self._gradient(slopes)
        if not bool(finite.all()):
            # 0 * NaN is NaN, so an excluded row has to leave both factors of the products.
            h = h.masked_fill(~finite[:, None], 0)
        factor = dlogits.to(walk.weight.dtype)
        if walk.dhidden is not None:
            dh = torch.mm(factor, walk.weight).masked_fill_(~finite[:, None], 0)
            walk.dhidden.index_copy_(0, self.index, dh.to(walk.dhidden.dtype))
        if walk.dweight is None:
            return
        if factor.dtype == walk.dtype:
            walk.dweight.addmm_(factor.t(), h)
        else:
            # Into the sum itself: a product of its own would be a second [V, D] in float32.
            torch.addmm(walk.dweight, factor.t(), h, out_dtype=walk.dtype, out=walk.dweight)

    def _gradient(self, slopes: Slopes) -> Tensor:
        """d loss / d logits [C, V] in the memory of the logits."""
        write, temperature = self.walk.operator.write, self.walk.rows.options.temperature
        if self.part is None:
            return write(self.logits, self.targets, temperature, self.own, slopes)
        own, at_target = self.part.slopes(slopes, self.own)
        dlogits = write(self.logits, self.targets, temperature, self.own, own)
        return dlogits.scatter_add_(1, self.targets[:, None], (at_target / temperature)[:, None])
