"""The row operator on a GPU: one Triton kernel reads a chunk of logits, one writes the gradient.

Shapes: C rows of one chunk, V vocabulary. Both are bound by memory: read moves C V numbers once, write moves them in
and out once. Statistics are kept in float32, peak and log-sum apart, in one pass over the row: when a block raises the
peak, what was summed before is scaled down (Online normalizer calculation for softmax, section 3).
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from agentmath_kernels.row_operator import RowFigures, Slopes

BLOCK = 4096
"""Logits that a program holds at once: 16 a thread."""
NUM_WARPS = 8


@triton.jit
def read_kernel(
    logits,
    targets,
    inverse_temperature,
    peak,
    log_sum,
    logprob,
    entropy,
    vocab,
    row_stride,
    WANT_ENTROPY: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Program r: peak, log-sum, log-prob of the target and entropy of row r."""
    row = tl.program_id(0).to(tl.int64)
    start_of_row = logits + row * row_stride
    lanes = tl.arange(0, BLOCK)
    m = tl.full((), float("-inf"), tl.float32)
    s = tl.full((), 0.0, tl.float32)
    q = tl.full((), 0.0, tl.float32)
    for start in range(0, vocab, BLOCK):
        columns = start + lanes
        # Columns behind the vocabulary must be -inf before the maximum: as zeros they would outweigh a negative row.
        x = tl.load(start_of_row + columns, mask=columns < vocab, other=float("-inf")).to(tl.float32)
        x = x * inverse_temperature
        new = tl.maximum(m, tl.max(x, 0))
        at = tl.where(new == float("-inf"), 0.0, new)
        down = tl.where(m == float("-inf"), 0.0, m - at)
        factor = tl.exp(down)
        d = x - at
        e = tl.exp(d)
        if WANT_ENTROPY:
            q = (q + down * s) * factor + tl.sum(tl.where(e > 0, e * d, 0.0), 0)
        s = s * factor + tl.sum(e, 0)
        m = new
    logs = tl.log(s)
    # A row of nothing but -inf has no distribution; a NaN or +inf has made s NaN already.
    logs = tl.where(m == float("-inf"), float("nan"), logs)
    x_target = tl.load(start_of_row + tl.load(targets + row)).to(tl.float32) * inverse_temperature
    tl.store(peak + row, m)
    tl.store(log_sum + row, logs)
    tl.store(logprob + row, (x_target - m) - logs)
    if WANT_ENTROPY:
        tl.store(entropy + row, logs - q / s)


@triton.jit
def write_kernel(
    logits,
    gradient,
    targets,
    inverse_temperature,
    peak,
    log_sum,
    entropy,
    by_logprob,
    by_entropy,
    vocab,
    row_stride,
    HAS_ENTROPY: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Program (r, k): block k of row r of d loss / d logits."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < vocab
    a = tl.load(by_logprob + row) * inverse_temperature
    b = 0.0
    h = 0.0
    if HAS_ENTROPY:
        b = tl.load(by_entropy + row) * inverse_temperature
        h = tl.load(entropy + row)
    x = tl.load(logits + row * row_stride + columns, mask=inside, other=float("-inf")).to(tl.float32)
    logp = (x * inverse_temperature - tl.load(peak + row)) - tl.load(log_sum + row)
    logp = tl.minimum(logp, 0.0)
    p = tl.exp(logp)
    g = -a * p
    if HAS_ENTROPY:
        g -= b * tl.where(p > 0, p * (logp + h), 0.0)
    g += tl.where(columns == tl.load(targets + row), a, 0.0)
    # 0 * NaN is NaN, so a row that is left out has to be written over.
    g = tl.where((a == 0.0) & (b == 0.0), 0.0, g)
    tl.store(gradient + row * row_stride + columns, g.to(gradient.dtype.element_ty), mask=inside)


class TritonRows:
    """By the two kernels above, on the device of the logits; the gradient overwrites them."""

    def read(self, logits: Tensor, targets: Tensor, temperature: float, *, want_entropy: bool) -> RowFigures:
        rows, vocab = logits.shape
        peak, log_sum, logprob = (logits.new_empty(rows, dtype=torch.float32) for _ in range(3))
        entropy = logits.new_empty(rows if want_entropy else 0, dtype=torch.float32)
        if rows:
            launch: Any = read_kernel[(rows,)]
            launch(
                logits,
                targets,
                1 / temperature,
                peak,
                log_sum,
                logprob,
                entropy,
                vocab,
                logits.stride(0),
                WANT_ENTROPY=want_entropy,
                BLOCK=BLOCK,
                num_warps=NUM_WARPS,
            )
        return RowFigures(logprob, entropy, peak, log_sum)

    def write(self, logits: Tensor, targets: Tensor, temperature: float, figures: RowFigures, slopes: Slopes) -> Tensor:
        rows, vocab = logits.shape
        if rows:
            launch: Any = write_kernel[(rows, triton.cdiv(vocab, BLOCK))]
            launch(
                logits,
                logits,
                targets,
                1 / temperature,
                figures.peak,
                figures.log_sum,
                figures.entropy,
                slopes.by_logprob,
                slopes.by_logprob if slopes.by_entropy is None else slopes.by_entropy,
                vocab,
                logits.stride(0),
                HAS_ENTROPY=slopes.by_entropy is not None,
                BLOCK=BLOCK,
                num_warps=NUM_WARPS,
            )
        return logits
