"""The decoder of the Llama family over flat tokens, in few operators.

It reads the parameters of a loaded module and changes nothing in it: training and decoding both run this function, so
their log-probs agree. On small models the number of operators is most of the cost. Families: Llama (SmolLM2), Qwen2,
Qwen3 in their dense forms. Names in shapes: T flat tokens, H hidden size, D head size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from agentmath.training.operators import CompiledOperators, Operators, PlainOperators
from agentmath_kernels.attention import ragged_attention
from agentmath_kernels.branches import BranchedRows
from agentmath_kernels.rows import CachedRows, PackedRows

FAMILIES = ("llama", "qwen2", "qwen3")
STATIC_ROPE = ("default", "linear", "llama3", "yarn")
"""Rotary embeddings that depend on the position alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Linear:
    """A projection's parameters, read once: a module call costs as much as a small product."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual + self(x), in one operator where there is no bias."""
        if self.bias is not None:
            return residual + self(x)
        return torch.addmm(residual, x, self.weight.t())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    norm: Tensor
    query: _Linear
    key: _Linear
    value: _Linear
    query_norm: Tensor | None
    """[D], as key_norm (Qwen3)."""
    key_norm: Tensor | None
    out: _Linear
    scale: float
    ffn_norm: Tensor
    gate: _Linear
    up: _Linear
    down: _Linear


class FlatDecoder:
    """hidden = decoder(ids, positions, rows). Build it anew when a parameter object of the module is replaced."""

    def __init__(self, base: Any) -> None:
        config = base.config
        self.embedding: Tensor = base.embed_tokens.weight
        self.layers = tuple(_read_layer(layer) for layer in base.layers)
        self.norm: Tensor = base.norm.weight
        self.eps: float = config.rms_norm_eps
        self.head_dim: int = base.layers[0].self_attn.head_dim
        self.compiled = CompiledOperators.fit(self.embedding, self.head_dim, config.intermediate_size)
        """Operators without gradients; None where only plain torch will do."""
        self._plain = PlainOperators()
        self._rotary = base.rotary_emb
        self._cos = self._sin = self.embedding.new_empty(0, self.head_dim)

    @staticmethod
    def fits(base: Any) -> bool:
        """Whether this file's arithmetic is the module's."""
        config = base.config
        if config.model_type not in FAMILIES or config.hidden_act != "silu":
            return False
        if base.rotary_emb.rope_type not in STATIC_ROPE:
            return False
        names = ("q_proj", "k_proj", "v_proj", "o_proj")
        return all(
            all(type(getattr(layer.self_attn, n)) is nn.Linear for n in names)
            and all(type(getattr(layer.mlp, n)) is nn.Linear for n in ("gate_proj", "up_proj", "down_proj"))
            for layer in base.layers
        )

    def __call__(self, ids: Tensor, positions: Tensor, rows: PackedRows | BranchedRows | CachedRows) -> Tensor:
        """ids and positions [T] int64 -> hidden [T, H], after the last norm."""
        ops: Operators = self._plain if self.compiled is None or torch.is_grad_enabled() else self.compiled
        eps, tables = self.eps, self._rope(positions, rows.num_positions)
        x = functional.embedding(ids, self.embedding)
        for index, layer in enumerate(self.layers):
            h = ops.norm(x, layer.norm, eps)
            query = ops.heads(layer.query(h), layer.query_norm, eps, tables)
            key = ops.heads(layer.key(h), layer.key_norm, eps, tables)
            value = layer.value(h).view(key.shape)
            x = layer.out.add_to(x, ragged_attention(query, key, value, rows, layer=index, scale=layer.scale))
            h = ops.norm(x, layer.ffn_norm, eps)
            x = layer.down.add_to(x, ops.swiglu(layer.gate(h), layer.up(h)))
        return ops.norm(x, self.norm, eps)

    def _rope(self, positions: Tensor, num_positions: int) -> tuple[Tensor, Tensor]:
        """cos and sin [T, D]; the sign of the rotated first half is already in sin."""
        if num_positions > self._cos.shape[0]:
            size = 1 << (num_positions - 1).bit_length()
            # A tensor made in inference mode could not be saved for a later backward pass.
            with torch.inference_mode(False), torch.no_grad():
                every = torch.arange(size, device=self.embedding.device)[None]
                cos, sin = self._rotary(self.embedding, every)
                half = self.head_dim // 2
                self._cos, self._sin = cos[0], torch.cat((-sin[0, :, :half], sin[0, :, half:]), dim=-1)
        return self._cos.index_select(0, positions), self._sin.index_select(0, positions)


def _read_layer(layer: Any) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    has_norms = hasattr(attention, "q_norm")
    return _Layer(
        norm=layer.input_layernorm.weight,
        query=_read_linear(attention.q_proj),
        key=_read_linear(attention.k_proj),
        value=_read_linear(attention.v_proj),
        query_norm=attention.q_norm.weight if has_norms else None,
        key_norm=attention.k_norm.weight if has_norms else None,
        out=_read_linear(attention.o_proj),
        scale=attention.scaling,
        ffn_norm=layer.post_attention_layernorm.weight,
        gate=_read_linear(mlp.gate_proj),
        up=_read_linear(mlp.up_proj),
        down=_read_linear(mlp.down_proj),
    )


def _read_linear(module: nn.Linear) -> _Linear:
    return _Linear(weight=module.weight, bias=module.bias)
