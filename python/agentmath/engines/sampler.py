"""Sampling by inverse CDF: a token depends on its row's logits and its row's own uniform number, on nothing else.

Names in shapes: A rows, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

_BLOCK = 128
"""Vocabulary ids whose weights are summed first: one long running sum is slower and less exact than two short ones."""
_NUCLEUS = 256
"""Tokens among which a nucleus is looked for before the whole vocabulary is sorted."""
_BELOW_ONE = 1.0 - 2.0**-23
"""The largest factor that makes every float32 strictly smaller."""


def sample(
    logits: Tensor, uniforms: Tensor, temperatures: Tensor | None, top_p: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """One token for each row of float32 logits [A, V], from uniforms [A] in [0, 1).

    temperatures [A]; None means all 1; 0 takes the likeliest token. top_p [A] leaves of the distribution at that
    temperature the likeliest tokens that together have this probability; None and 1 leave all. Returns ids [A] int64
    and their log-probs [A] under the distribution that was sampled from (of temperature 1 where it is 0). A row with a
    NaN gets a NaN log-prob.
    """
    if temperatures is not None:
        logits = logits / torch.where(temperatures > 0, temperatures, 1.0)[:, None]
    if top_p is not None:
        logits = _nucleus(logits, top_p if temperatures is None else torch.where(temperatures > 0, top_p, 1.0))
    shifted = logits - logits.amax(dim=-1, keepdim=True)
    ids, total = _invert(shifted.exp(), uniforms[:, None])
    if temperatures is not None:
        ids = torch.where(temperatures > 0, ids, shifted.argmax(dim=-1))
    return ids, (shifted.gather(1, ids[:, None]) - total.log()).squeeze(1)


def _nucleus(logits: Tensor, top_p: Tensor) -> Tensor:
    """Logits with -inf for every token less likely than the last one needed to reach top_p [A]; tokens as likely as
    that one stay. A. Holtzman et al., "The Curious Case of Neural Text Degeneration", section 3.1."""
    total = logits.logsumexp(dim=-1, keepdim=True)
    size = min(_NUCLEUS, logits.shape[-1])
    likeliest = logits.topk(size, dim=-1).values
    mass = (likeliest - total).exp().cumsum(-1)
    whole = top_p >= 1
    if size < logits.shape[-1] and bool(((mass[:, -1] < top_p) & ~whole).any()):
        likeliest = logits.sort(dim=-1, descending=True).values
        mass = (likeliest - total).exp().cumsum(-1)
    last = (mass < top_p[:, None]).sum(-1, keepdim=True).clamp_(max=likeliest.shape[-1] - 1)
    least = likeliest.gather(1, last).masked_fill_(whole[:, None], -torch.inf)
    return logits.masked_fill(logits < least, -torch.inf)


def _invert(weights: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """First id whose running sum of weights [A, V] exceeds uniform x total; and the total [A, 1].

    The comparison is strict and the target below the total, so an id without weight is never taken.
    """
    num_rows, vocab = weights.shape
    if vocab % _BLOCK:
        weights = functional.pad(weights, (0, -vocab % _BLOCK))
    blocks = weights.view(num_rows, -1, _BLOCK)
    sums = blocks.sum(-1)
    ends = sums.cumsum(-1)
    total = ends[:, -1:]
    target = torch.minimum(uniforms * total, total * _BELOW_ONE)
    block = torch.searchsorted(ends, target, right=True).clamp_(max=blocks.shape[1] - 1)
    inner = blocks.gather(1, block[:, :, None].expand(-1, -1, _BLOCK)).squeeze(1).cumsum(-1)
    # The block's own sum was rounded in another order, so the rest may fall a hair outside of it.
    rest = (target - (ends - sums).gather(1, block)).clamp_(min=0)
    rest = torch.minimum(rest, inner[:, -1:] * _BELOW_ONE)
    index = torch.searchsorted(inner, rest, right=True).clamp_(max=_BLOCK - 1)
    return (block * _BLOCK + index).squeeze(1).clamp_(max=vocab - 1), total
