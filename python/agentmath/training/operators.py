"""The operators between the matrix products of a decoder layer: in plain torch, and compiled for decoding on a CPU.

Both give the same numbers but for rounding. Names in shapes: T flat tokens, H width, n heads, D head size, F ffn width.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional


class Operators(Protocol):
    """What a decoder layer needs besides matrix products and attention."""

    def norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """Root mean square norm of [T, H] (Zhang and Sennrich, section 4)."""
        ...

    def heads(self, x: Tensor, weight: Tensor | None, eps: float, tables: tuple[Tensor, Tensor]) -> Tensor:
        """[T, n * D] -> [T, n, D]: each head normalised if there is a weight [D], then rotated by its position.

        tables: cos and sin [T, D], the sign of the rotated first half already in sin (Su et al., "RoFormer", section
        3.4.2, in the half-split order). x may be overwritten.
        """
        ...

    def swiglu(self, gate: Tensor, up: Tensor) -> Tensor:
        """silu(gate) * up of [T, F]; gate may be overwritten."""
        ...


class _Norm(torch.autograd.Function):
    """The norm with half the memory passes that autograd makes of it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:  # pyright: ignore
        scale = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.shape[-1]).add_(eps).rsqrt_()
        ctx.save_for_backward(x, weight, scale)
        return (x * scale).mul_(weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        x, weight, scale = ctx.saved_tensors
        width = x.shape[-1]
        unit = x * scale
        by_weight = (grad * unit).view(-1, width)
        along = (by_weight @ weight).view(scale.shape)
        by_x = torch.addcmul(grad * weight, unit, along, value=-1 / width).mul_(scale)
        return by_x, by_weight.sum(0), None


class _Rotate(torch.autograd.Function):
    """x * cos + swap(x) * sin, swap exchanging the halves; backward needs the tables only."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:  # pyright: ignore
        ctx.save_for_backward(cos, sin)
        return torch.addcmul(x * cos, _swap(x), sin)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        cos, sin = ctx.saved_tensors
        return _swap(grad * sin).addcmul_(grad, cos), None, None


def _swap(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return torch.cat((x[..., half:], x[..., :half]), dim=-1)


class PlainOperators:
    """Differentiable, for every type and device."""

    def norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        if x.dtype == torch.float32 and weight.dtype == torch.float32:
            return _Norm.apply(x, weight, eps)
        return functional.rms_norm(x, weight.shape, weight, eps)

    def heads(self, x: Tensor, weight: Tensor | None, eps: float, tables: tuple[Tensor, Tensor]) -> Tensor:
        cos, sin = (t.unsqueeze(1) for t in tables)
        x = x.view(x.shape[0], -1, cos.shape[-1])
        if weight is not None:
            x = self.norm(x, weight, eps)
        return _Rotate.apply(x, cos, sin)

    def swiglu(self, gate: Tensor, up: Tensor) -> Tensor:
        return functional.silu(gate) * up


class CompiledOperators:
    """Without gradients, float32 on the CPU: one pass over memory each."""

    def __init__(self, decode: Any) -> None:
        """decode: the module agentmath._C.decode."""
        self._decode = decode

    @staticmethod
    def fit(embedding: Tensor, head_dim: int, ffn_size: int) -> CompiledOperators | None:
        """The compiled operators, if the package was built with them and they take this model."""
        decode = getattr(_compiled_part(), "decode", None)
        if decode is None or embedding.dtype != torch.float32 or embedding.device.type != "cpu" or head_dim % 16:
            return None
        fits = decode.supports_width(embedding.shape[1]) and decode.supports_width(ffn_size)
        return CompiledOperators(decode) if fits else None

    def norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        out = torch.empty_like(x)
        self._decode.rms_norm(x.numpy(), weight.detach().numpy(), eps, out.numpy())
        return out

    def heads(self, x: Tensor, weight: Tensor | None, eps: float, tables: tuple[Tensor, Tensor]) -> Tensor:
        cos, sin = tables
        x = x.view(x.shape[0], -1, cos.shape[-1])
        scale = None if weight is None else weight.detach().numpy()
        self._decode.norm_and_rotate(x.numpy(), scale, eps, cos.numpy(), sin.numpy())
        return x

    def swiglu(self, gate: Tensor, up: Tensor) -> Tensor:
        self._decode.swiglu(gate.numpy(), up.numpy())
        return gate


def _compiled_part() -> Any:
    try:
        from agentmath import _C
    except ImportError:
        return None
    return _C
