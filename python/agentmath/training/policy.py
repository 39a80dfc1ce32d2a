"""A policy: weights with a name, their tokenizer, and the one forward pass that training and decoding share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from agentmath.config.model import ModelSection
from agentmath.core.errors import ConfigError, EngineError, FormatError
from agentmath.training import model_files
from agentmath.training.decoder import FlatDecoder
from agentmath.training.tokenizer import FastTokenizer
from agentmath_kernels.branches import BranchedRows
from agentmath_kernels.rows import CachedRows, CacheShape, PackedRows

Rows = PackedRows | BranchedRows | CachedRows
Decoder = Callable[[Tensor, Tensor, Rows], Tensor]
"""(ids [T], positions [T], rows) -> hidden [T, H]."""

PARITY = {torch.float32: 2e-4, torch.bfloat16: 8e-2}
"""Largest difference of log-probs between our forward pass and the library's own."""


@dataclass(slots=True, kw_only=True, eq=False)
class Policy:
    """Weights that are trained together. The module is a transformers causal language model, unchanged."""

    name: str
    module: Any
    tokenizer: FastTokenizer
    dtype: torch.dtype
    decoder: Decoder
    version: int = 0
    """Optimiser steps that the weights have seen."""

    @property
    def family(self) -> str:
        """The model's type in transformers' words, e.g. "qwen3"."""
        return self.module.config.model_type

    @property
    def device(self) -> torch.device:
        return self.head_weight().device

    def forward_hidden(
        self, ids: Tensor, positions: Tensor, lengths: Sequence[int], parents: Sequence[int] | None = None
    ) -> Tensor:
        """Hidden states [T, H] of rows laid end to end: flat ids and positions [T], lengths of the rows.

        Rows are whole sequences and see themselves alone. With parents, row i goes on from row parents[i] unless that
        is -1 (such rows come first), so that a common beginning is computed once. Gradients flow unless they are
        switched off around it.
        """
        if parents is None or max(parents) < 0:
            return self.forward_rows(ids, positions, PackedRows.of(lengths, ids.device))
        return self.forward_rows(ids, positions, BranchedRows.of(lengths, parents, ids.device))

    def forward_rows(self, ids: Tensor, positions: Tensor, rows: Rows) -> Tensor:
        """Hidden states [T, H] of flat ids and positions [T]; `rows` says where rows end and what is cached."""
        return self.decoder(ids, positions, rows)

    def head_weight(self) -> Tensor:
        """The vocabulary projection [V, H]: logits = hidden @ head_weight().T."""
        return self.module.get_output_embeddings().weight

    def named_parameters(self) -> Iterable[tuple[str, nn.Parameter]]:
        """Names and weights, each once where some are tied."""
        return self.module.named_parameters()

    def cache_shape(self) -> CacheShape:
        """What an engine must know to keep keys and values of this policy."""
        config = self.module.config
        heads = config.num_attention_heads
        return CacheShape(
            num_layers=config.num_hidden_layers,
            num_key_value_heads=getattr(config, "num_key_value_heads", None) or heads,
            head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
            dtype=self.dtype,
            device=self.device,
        )


def load_policy(
    section: ModelSection,
    *,
    name: str,
    seed: int,
    corpus: Iterable[str] | None = None,
    special_tokens: Sequence[str] = model_files.SPECIAL_TOKENS,
) -> Policy:
    """The model of section.path; without a path a new one, whose tokenizer is trained on corpus.

    special_tokens begin with padding and end of message; only a new tokenizer takes them. Raises ConfigError when there
    is no such model, FormatError when nothing ends a message, EngineError when its family computes something that our
    forward pass does not.
    """
    if section.path:
        module, fast = model_files.load(section)
    elif corpus is None:
        raise ConfigError("model.path is empty and there are no texts to train a tokenizer on; name a model")
    else:
        module, fast = model_files.make(section, seed=seed, corpus=corpus, special_tokens=special_tokens)
    tokenizer = FastTokenizer(fast, family=module.config.model_type, eos_ids=model_files.eos_ids(module, fast))
    _check_vocabulary(module, tokenizer)
    _check_ends(module, tokenizer)
    return policy_of(module, tokenizer, name=name)


def policy_of(module: Any, tokenizer: FastTokenizer, *, name: str) -> Policy:
    """A policy over a loaded module. Raises EngineError unless our forward pass gives the module's own numbers."""
    _check_family(module.config)
    module.eval()  # dropout would make log-probs differ between sampling and training
    ids = torch.arange(12) * 7 % min(module.config.vocab_size, 97)
    lengths = (5, 7)
    expected = _library_logprobs(module, ids, lengths)
    base = module.base_model
    decoder: Decoder
    if FlatDecoder.fits(base):
        decoder = FlatDecoder(base)
    else:
        model_files.use_ragged_attention(module)
        decoder = _LibraryDecoder(base)
    policy = Policy(name=name, module=module, tokenizer=tokenizer, dtype=module.dtype, decoder=decoder)
    _check_parity(policy, ids, lengths, expected)
    return policy


@dataclass(frozen=True, slots=True)
class _LibraryDecoder:
    """The library's own forward pass over flat tokens; only its attention is ours."""

    base: Any

    def __call__(self, ids: Tensor, positions: Tensor, rows: Rows) -> Tensor:
        out = self.base(input_ids=ids[None], position_ids=positions[None], use_cache=False, ragged=rows)
        return out.last_hidden_state[0]


def export_hf(policy: Policy, folder: str | Path) -> None:
    """Write the model and its tokenizer so that AutoModelForCausalLM and AutoTokenizer load them."""
    model_files.save(policy.module, policy.tokenizer.fast, Path(folder))


def _check_family(config: Any) -> None:
    layers = set(getattr(config, "layer_types", None) or ["full_attention"])
    window = getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None
    faults = {
        "is an encoder-decoder": getattr(config, "is_encoder_decoder", False),
        f"has layers of {', '.join(sorted(layers - {'full_attention'}))}": layers != {"full_attention"},
        f"looks back {window} tokens only (sliding_window)": window is not None,
        "caps attention scores (attn_logit_softcapping)": getattr(config, "attn_logit_softcapping", None),
        "caps logits (final_logit_softcapping)": getattr(config, "final_logit_softcapping", None),
    }
    for fault, present in faults.items():
        if present:
            raise EngineError(
                f"the model family {config.model_type!r} {fault}, which the embedded engine does not compute; "
                "use a model with full causal attention, e.g. Llama, Qwen2, Qwen3 or SmolLM2"
            )


def _check_vocabulary(module: Any, tokenizer: FastTokenizer) -> None:
    rows = module.get_input_embeddings().weight.shape[0]
    if tokenizer.vocab_size > rows:
        raise ConfigError(
            f"the tokenizer has ids up to {tokenizer.vocab_size - 1}, the model embeds {rows}: they do not belong "
            "together"
        )


def _check_ends(module: Any, tokenizer: FastTokenizer) -> None:
    rows = module.get_input_embeddings().weight.shape[0]
    if not tokenizer.eos_ids:
        raise FormatError(
            f"neither the model {tokenizer.family!r} nor its tokenizer names a token that ends a message: set "
            "eos_token in tokenizer_config.json, or eos_token_id in generation_config.json"
        )
    outside = [i for i in tokenizer.eos_ids if not 0 <= i < rows]
    if outside:
        raise FormatError(
            f"eos_token_id = {outside[0]} of the model {tokenizer.family!r} is none of its {rows} token ids: correct "
            "generation_config.json or config.json"
        )


@torch.no_grad()
def _library_logprobs(module: nn.Module, ids: Tensor, lengths: Sequence[int]) -> Tensor:
    ids = ids.to(next(module.parameters()).device)
    logits = [module(input_ids=part[None], use_cache=False).logits[0] for part in ids.split(list(lengths))]
    return torch.log_softmax(torch.cat(logits).float(), dim=-1)


@torch.no_grad()
def _check_parity(policy: Policy, ids: Tensor, lengths: Sequence[int], expected: Tensor) -> None:
    positions = torch.cat([torch.arange(n) for n in lengths])
    device = expected.device
    try:
        hidden = policy.forward_hidden(ids.to(device), positions.to(device), lengths)
        got = torch.log_softmax(hidden.float() @ policy.head_weight().float().t(), dim=-1)
    except EngineError:
        raise
    except Exception as error:  # a family that cannot take flat tokens fails in its own words
        raise EngineError(
            f"the model family {policy.family!r} cannot run on flat tokens: {type(error).__name__}: {error}"
        ) from error
    gap = float((got - expected).abs().max())
    if not gap <= PARITY[policy.dtype]:
        raise EngineError(
            f"the model family {policy.family!r} computes something that flat tokens do not: log-probs differ by "
            f"{gap:.2g} from the library's own; use Llama, Qwen2, Qwen3, Qwen3-MoE or SmolLM2"
        )
