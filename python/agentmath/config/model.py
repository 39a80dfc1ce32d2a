"""[model]: which weights, and the shape of a model made from scratch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentmath.config.section import Section


class ModelSection(Section):
    path: str = ""
    """Folder or hub name of a causal language model; a .gguf file; empty makes a new model from the sizes below."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of weights and of the forward pass; log-probs and losses are float32 either way."""
    hidden_size: int = Field(default=128, ge=8)
    """Only for a new model, as are all fields below."""
    num_layers: int = Field(default=3, ge=1)
    num_heads: int = Field(default=4, ge=1)
    num_key_value_heads: int = Field(default=2, ge=1)
    ffn_size: int = Field(default=384, ge=8)
    vocab_size: int = Field(default=480, ge=300)
    """Upper bound on the vocabulary that is trained on the recipe's own problems."""
    max_context_tokens: int = Field(default=512, ge=16)
