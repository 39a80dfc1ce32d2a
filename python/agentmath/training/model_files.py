"""Models from folders, the hub and .gguf files, new tiny models, and their way back to disk.

The only file that imports transformers, and only when a function is called.
"""

from __future__ import annotations

import copy
import importlib.util
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from agentmath.config.model import ModelSection
from agentmath.core.errors import ConfigError, EngineError
from agentmath_kernels.attention import ragged_attention

Model = Any
"""transformers.PreTrainedModel; its annotations contradict its use."""
FastTokens = Any
"""transformers.PreTrainedTokenizerFast."""
Loaded = tuple[Model, FastTokens]

RAGGED = "agentmath_ragged"
"""Name under which the attention is registered with transformers."""
SPECIAL_TOKENS = (*("<pad>", "<eos>", "<think>", "</think>", "<code>", "</code>", "<interpreter>", "</interpreter>"),)
VOCAB_MULTIPLE = 128
"""A new model's head is padded to it."""
_PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}<eos>{% endif %}\n{% endfor %}"
)
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")
_WEIGHTS = ("*.safetensors", "*.bin", "*.safetensors.index.json", "*.bin.index.json")


def load(section: ModelSection) -> Loaded:
    """Model and tokenizer that section.path names. Raises ConfigError in one sentence when they are not there."""
    path = Path(section.path).expanduser()
    if path.suffix == ".gguf":
        return _load_gguf(path, section)
    if path.is_file():
        raise ConfigError(f"model.path = {section.path!r} is a file but no .gguf; name the model's folder")
    if path.is_dir():
        _check_folder(path, section.path)
    elif path.is_absolute() or section.path.startswith((".", "~")) or section.path.count("/") > 1:
        raise ConfigError(f"model.path = {section.path!r} does not exist; name a folder, a hub name or a .gguf file")
    name = str(path) if path.is_dir() else section.path
    return _from_pretrained(name, section, {})


def load_tokenizer(name: str) -> FastTokens:
    """The tokenizer in a folder, a .gguf file or a model of the hub. Raises ConfigError when there is none."""
    from transformers import AutoTokenizer

    path = Path(name).expanduser()
    is_gguf = path.suffix == ".gguf"
    try:
        if is_gguf:
            return AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
        return AutoTokenizer.from_pretrained(str(path) if path.exists() else name)
    except Exception as error:  # the library's many ways to say that a tokenizer cannot be read
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(f"no tokenizer can be loaded from {name!r}: {type(error).__name__}: {reason}") from error


def _check_folder(path: Path, name: str) -> None:
    if not (path / "config.json").is_file():
        raise ConfigError(f"model.path = {name!r} is a folder without config.json: it holds no model")
    if not any(f for pattern in _WEIGHTS for f in path.glob(pattern)):
        raise ConfigError(
            f"model.path = {name!r} has a config.json but no weights (*.safetensors or *.bin); fetch the whole model"
        )
    if not any((path / f).is_file() for f in _TOKENIZERS):
        raise ConfigError(f"model.path = {name!r} has weights but no tokenizer ({', '.join(_TOKENIZERS)})")


def _load_gguf(path: Path, section: ModelSection) -> Loaded:
    if not path.is_file():
        raise ConfigError(f"model.path = {section.path!r} does not exist; name a .gguf file that does")
    if importlib.util.find_spec("gguf") is None:
        raise ConfigError("reading a .gguf file needs the package gguf: pip install gguf")
    module, tokenizer = _from_pretrained(str(path.parent), section, {"gguf_file": path.name})
    # A model that remembers its quantised origin refuses to be saved: its weights move into a fresh one.
    config = copy.deepcopy(module.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config._name_or_path = path.stem
    fresh = type(module)(config).to(module.dtype)
    fresh.load_state_dict(module.state_dict())
    fresh.generation_config = module.generation_config
    return fresh, tokenizer


def _from_pretrained(name: str, section: ModelSection, source: dict[str, str]) -> Loaded:
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # what is missing is said below, in one sentence
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **source)
        # The stubs do not know that with loading info a pair is returned.
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            name, dtype=getattr(torch, section.dtype), output_loading_info=True, **source
        )
    except Exception as error:  # the library's many ways to say that a model cannot be read
        reason = re.split(r"\n|(?<=\.) ", str(error).strip())[0]
        raise ConfigError(
            f"model.path = {section.path!r} cannot be loaded as a causal language model: {type(error).__name__}: "
            f"{reason}"
        ) from error
    finally:
        logging.set_verbosity(verbosity)
    module, info = loaded
    missing = sorted(info["missing_keys"])
    if missing:
        raise ConfigError(
            f"model.path = {section.path!r} lacks {len(missing)} of the model's weights, the first is {missing[0]}: "
            "they would be random; fetch the whole model"
        )
    if not hasattr(tokenizer, "backend_tokenizer"):
        raise ConfigError(f"model.path = {section.path!r} has no fast tokenizer (tokenizer.json); convert it first")
    return module, tokenizer


def make(section: ModelSection, *, seed: int, corpus: Iterable[str], special_tokens: Sequence[str]) -> Loaded:
    """A new small Qwen3 with random weights, and a byte-level BPE tokenizer trained on corpus.

    Digits stay single tokens, so that the model sees numbers digit by digit. Global random state is left alone.
    """
    from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

    _check_sizes(section)
    tokenizer = _train_tokenizer(corpus, section, special_tokens)
    pad, eos = tokenizer.pad_token_id, tokenizer.eos_token_id
    config = Qwen3Config(
        vocab_size=-(-len(tokenizer) // VOCAB_MULTIPLE) * VOCAB_MULTIPLE,
        hidden_size=section.hidden_size,
        intermediate_size=section.ffn_size,
        num_hidden_layers=section.num_layers,
        num_attention_heads=section.num_heads,
        num_key_value_heads=section.num_key_value_heads,
        head_dim=section.hidden_size // section.num_heads,
        max_position_embeddings=section.max_context_tokens,
        tie_word_embeddings=True,
        pad_token_id=pad,
        eos_token_id=eos,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = Qwen3ForCausalLM(config).to(getattr(torch, section.dtype))
    module.generation_config = GenerationConfig(pad_token_id=pad, eos_token_id=eos)
    return module, tokenizer


def _check_sizes(section: ModelSection) -> None:
    hidden, heads, key_heads = section.hidden_size, section.num_heads, section.num_key_value_heads
    if heads % key_heads:
        raise ConfigError(
            f"model.num_heads = {heads} is no multiple of model.num_key_value_heads = {key_heads}: every key head "
            "serves equally many query heads"
        )
    if hidden % (2 * heads):
        raise ConfigError(
            f"model.hidden_size = {hidden} does not divide into model.num_heads = {heads} heads of even size; "
            f"take a multiple of {2 * heads}"
        )


def _train_tokenizer(corpus: Iterable[str], section: ModelSection, special_tokens: Sequence[str]) -> FastTokens:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    # The stubs of tokenizers do not know that these attributes can be set.
    backend.pre_tokenizer = pre_tokenizers.Sequence(  # pyright: ignore[reportAttributeAccessIssue]
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    trainer = trainers.BpeTrainer(
        vocab_size=section.vocab_size,
        special_tokens=list(special_tokens),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    # Special tokens are cut out before merges are learnt: they are never spelt with ordinary tokens.
    special = re.compile("|".join(re.escape(t) for t in special_tokens))
    backend.train_from_iterator((part for text in corpus for part in special.split(text) if part), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=special_tokens[0],
        eos_token=special_tokens[1],
        chat_template=_PLAIN_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=section.max_context_tokens,
    )


def eos_ids(module: Model, tokenizer: FastTokens) -> list[int]:
    """Ids that end a message: the generation settings', the model's and the tokenizer's."""
    found: list[int] = []
    for value in (module.generation_config, module.config, tokenizer):
        name = "eos_token_id"
        one = getattr(value, name, None)
        found += one if isinstance(one, list) else [] if one is None else [one]
    return found


def use_ragged_attention(module: Model) -> None:
    """Route the model's attention through agentmath_kernels.attention; forward then needs ragged=rows."""
    from transformers import AttentionInterface

    # A name without a mask function gets no mask at all, which is what is wanted.
    AttentionInterface.register(RAGGED, _ragged_forward)
    module.set_attn_implementation(RAGGED)


def _ragged_forward(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Any, **kwargs: Any
) -> tuple[torch.Tensor, None]:
    """transformers' attention signature: query [1, Q, T, D], key and value [1, K, T, D] -> [1, T, Q, D]."""
    rows, family = kwargs.get("ragged"), type(module).__name__
    if rows is None:
        raise EngineError(f"{family} does not hand `ragged` down to its attention; this family is not supported")
    for name in ("sliding_window", "softcap", "s_aux", "head_mask"):
        if kwargs.get(name) is not None:
            raise EngineError(f"{family} asks its attention for {name}, which is not supported")
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    scale = kwargs.get("scaling") or q.shape[-1] ** -0.5
    out = ragged_attention(q, k, v, rows, layer=module.layer_idx, scale=scale)
    return out.view(1, q.shape[0], q.shape[1], -1), None


def save(module: Model, tokenizer: FastTokens, folder: Path) -> None:
    """Write what AutoModelForCausalLM and AutoTokenizer load."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    module.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
