"""Attention of decoding rows by the compiled part of the package: float32 on the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agentmath.engines.passes import Longs, PrepareOneToken
from agentmath_kernels.attention import PlainOneToken
from agentmath_kernels.rows import CacheShape


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledOneToken:
    """OneTokenAttention whose rows each cost what their own context costs: no mask and no padding."""

    contexts: Longs
    """[A] positions each row looks at."""
    decode: Any
    """The module agentmath._C.decode."""

    def __call__(self, query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
        out = torch.empty(query.shape)
        self.decode.attend_one_token(
            query.numpy(), keys.numpy(), values.numpy(), self.contexts, scale, torch.get_num_threads(), out.numpy()
        )
        return out.view(query.shape[0], -1)


def best_one_token(shape: CacheShape) -> PrepareOneToken:
    """The compiled attention if the package was built with it and it takes this cache, else the plain one."""
    try:
        from agentmath import _C
    except ImportError:
        return PlainOneToken.of
    decode: Any = getattr(_C, "decode", None)
    if decode is None or shape.dtype != torch.float32 or shape.device.type != "cpu":
        return PlainOneToken.of
    if not decode.supports_head_size(shape.head_dim):
        return PlainOneToken.of
    return lambda contexts, _: CompiledOneToken(contexts=np.ascontiguousarray(contexts), decode=decode)
