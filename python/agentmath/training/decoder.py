"""The decoder of the Llama family over flat tokens, in few operators.

It reads the parameters of a loaded module and changes nothing in it: training and decoding both run this function, so
their log-probs agree. On small models the number of operators is most of the cost. Families: Llama (SmolLM2), Qwen2,
Qwen3 in their dense forms. Names in shapes: T flat tokens, H hidden size, Q query heads, K key heads, D head size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from agentmath_kernels.attention import ragged_attention
from agentmath_kernels.rows import CachedRows, PackedRows

FAMILIES = ("llama", "qwen2", "qwen3")
STATIC_ROPE = ("default", "linear", "llama3", "yarn")
"""Rotary embeddings that depend on the position alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    norm: Tensor
    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    head_norms: tuple[Tensor, Tensor] | None
    """Of queries and keys, [D] each (Qwen3)."""
    out: nn.Linear
    scale: float
    ffn_norm: Tensor
    gate: nn.Linear
    up: nn.Linear
    down: nn.Linear


class FlatDecoder:
    """hidden = decoder(ids, positions, rows). Build it anew when a parameter object of the module is replaced."""

    def __init__(self, base: Any) -> None:
        config = base.config
        self.embedding: Tensor = base.embed_tokens.weight
        self.layers = tuple(_read_layer(layer) for layer in base.layers)
        self.norm: Tensor = base.norm.weight
        self.eps: float = config.rms_norm_eps
        self.head_dim: int = base.layers[0].self_attn.head_dim
        self._rotary = base.rotary_emb
        self._cos = self._sin = self.embedding.new_empty(0, 1, self.head_dim)

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

    def __call__(self, ids: Tensor, positions: Tensor, rows: PackedRows | CachedRows) -> Tensor:
        """ids and positions [T] int64 -> hidden [T, H], after the last norm."""
        cos, sin = self._rope(positions, rows.num_positions)
        x = functional.embedding(ids, self.embedding)
        for index, layer in enumerate(self.layers):
            h = self._norm(x, layer.norm)
            query, key = self._heads(layer.query(h)), self._heads(layer.key(h))
            if layer.head_norms is not None:
                query, key = self._norm(query, layer.head_norms[0]), self._norm(key, layer.head_norms[1])
            query, key = _rotate(query, cos, sin), _rotate(key, cos, sin)
            value = self._heads(layer.value(h))
            x = x + layer.out(ragged_attention(query, key, value, rows, layer=index, scale=layer.scale))
            h = self._norm(x, layer.ffn_norm)
            x = x + layer.down(functional.silu(layer.gate(h)) * layer.up(h))
        return self._norm(x, self.norm)

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], -1, self.head_dim)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(x, weight.shape, weight, self.eps)

    def _rope(self, positions: Tensor, num_positions: int) -> tuple[Tensor, Tensor]:
        """cos and sin [T, 1, D]; the sign of the rotated first half is already in sin."""
        if num_positions > self._cos.shape[0]:
            size = 1 << (num_positions - 1).bit_length()
            every = torch.arange(size, device=positions.device)[None]
            with torch.no_grad():
                cos, sin = self._rotary(self.embedding, every)
            sin = torch.cat((-sin[0, :, : self.head_dim // 2], sin[0, :, self.head_dim // 2 :]), dim=-1)
            self._cos, self._sin = cos[0].unsqueeze(1), sin.unsqueeze(1)
        return self._cos.index_select(0, positions), self._sin.index_select(0, positions)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of [T, heads, D] (Su et al., "RoFormer", section 3.4.2, in the half-split order)."""
    half = x.shape[-1] // 2
    return torch.addcmul(x * cos, torch.cat((x[..., half:], x[..., :half]), dim=-1), sin)


def _read_layer(layer: Any) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    has_norms = hasattr(attention, "q_norm")
    return _Layer(
        norm=layer.input_layernorm.weight,
        query=attention.q_proj,
        key=attention.k_proj,
        value=attention.v_proj,
        head_norms=(attention.q_norm.weight, attention.k_norm.weight) if has_norms else None,
        out=attention.o_proj,
        scale=attention.scaling,
        ffn_norm=layer.post_attention_layernorm.weight,
        gate=mlp.gate_proj,
        up=mlp.up_proj,
        down=mlp.down_proj,
    )
