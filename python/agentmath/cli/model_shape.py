"""The sizes of a recipe's model, read from headers: no weights are loaded and nothing is fetched."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from agentmath.config.model import ModelSection
from agentmath.core.errors import ConfigError

_GGUF_STRING, _GGUF_ARRAY = 8, 9
_GGUF_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_LONGEST_HEADER_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """What memory and arithmetic depend on."""

    source: str
    """Where the numbers come from, in words."""
    num_parameters: int
    num_layers: int
    hidden_size: int
    num_heads: int
    num_key_value_heads: int
    head_size: int
    ffn_size: int
    vocab_size: int


def read_shape(model: ModelSection) -> ModelShape | None:
    """Shape of the model that a recipe names; None when it is not on this machine.

    Raises ConfigError for a path that is there but holds no causal language model.
    """
    if not model.path:
        return _new_model(model)
    path = Path(model.path).expanduser()
    try:
        if path.suffix == ".gguf" and path.is_file():
            return _from_gguf(path)
        if path.exists() and not path.is_dir():
            raise ConfigError(f"model.path = {str(path)!r} is a file but no .gguf; name the model's folder")
        if not path.exists() and (path.suffix == ".gguf" or model.path.startswith(("/", "./", "../", "~"))):
            raise ConfigError(f"model.path = {model.path!r} does not exist")
        folder = path if path.is_dir() else _cached_folder(model.path)
        return _from_folder(folder) if folder else None
    except (OSError, struct.error, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"model.path = {model.path!r}: the sizes cannot be read: {error!r}") from error


def _new_model(model: ModelSection) -> ModelShape:
    sizes = {
        "num_layers": model.num_layers,
        "hidden_size": model.hidden_size,
        "num_heads": model.num_heads,
        "num_key_value_heads": model.num_key_value_heads,
        "head_size": model.hidden_size // model.num_heads,
        "ffn_size": model.ffn_size,
        "vocab_size": model.vocab_size,
    }
    return ModelShape(source="a new model, as the recipe says", num_parameters=_count(sizes, tied=True), **sizes)


def _from_folder(folder: Path) -> ModelShape:
    config_file = folder / "config.json"
    if not config_file.is_file():
        raise ConfigError(f"model.path = {str(folder)!r} holds no config.json: it is no model's folder")
    config: dict[str, Any] = json.loads(config_file.read_text(encoding="utf-8"))
    if not isinstance(config, dict):
        raise ValueError("config.json holds no table")
    config = config.get("text_config", config)
    heads = int(config["num_attention_heads"])
    sizes = {
        "num_layers": int(config["num_hidden_layers"]),
        "hidden_size": int(config["hidden_size"]),
        "num_heads": heads,
        "num_key_value_heads": int(config.get("num_key_value_heads") or heads),
        "head_size": int(config.get("head_dim") or config["hidden_size"] // heads),
        "ffn_size": int(config["intermediate_size"]),
        "vocab_size": int(config["vocab_size"]),
    }
    files = sorted(folder.glob("*.safetensors"))
    if files:
        count = sum(_safetensors_parameters(file) for file in files)
        return ModelShape(
            source=f"sizes from the headers of {len(files)} safetensors files", num_parameters=count, **sizes
        )
    if not any(folder.glob("pytorch_model*.bin")):
        raise ConfigError(f"model.path = {str(folder)!r} has a config.json but no weights (*.safetensors)")
    count = _count(sizes, tied=bool(config.get("tie_word_embeddings")))
    return ModelShape(source="sizes from config.json (dense model assumed)", num_parameters=count, **sizes)


def _cached_folder(name: str) -> Path | None:
    """Folder of a hub model that was fetched before."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(name, "config.json")
    except HFValidationError:
        return None
    return Path(found).parent if isinstance(found, str) else None


def _count(sizes: dict[str, int], *, tied: bool) -> int:
    """Parameters of a dense decoder with gated feed-forward, grouped-query attention and RMS norms."""
    hidden, head = sizes["hidden_size"], sizes["head_size"]
    attention = 2 * hidden * head * (sizes["num_heads"] + sizes["num_key_value_heads"])
    layer = attention + 3 * hidden * sizes["ffn_size"] + 2 * hidden
    return sizes["num_layers"] * layer + hidden + (1 if tied else 2) * sizes["vocab_size"] * hidden


def _safetensors_parameters(file: Path) -> int:
    with file.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        if length > _LONGEST_HEADER_BYTES:
            raise ValueError(f"{file.name} is no safetensors file")
        header: dict[str, Any] = json.loads(stream.read(length))
    return sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")


def _from_gguf(path: Path) -> ModelShape:
    with path.open("rb") as stream:
        magic, _, num_tensors, num_keys = struct.unpack("<4sIQQ", stream.read(24))
        if magic != b"GGUF":
            raise ValueError("not a GGUF file")
        keys = dict(_gguf_key(stream) for _ in range(num_keys))
        shapes = dict(_gguf_tensor(stream) for _ in range(num_tensors))
    kind = keys["general.architecture"]
    heads = int(keys[f"{kind}.attention.head_count"])
    hidden = int(keys[f"{kind}.embedding_length"])
    return ModelShape(
        source="sizes from the header of the GGUF file; its weights are unpacked to model.dtype",
        num_parameters=sum(map(math.prod, shapes.values())),
        num_layers=int(keys[f"{kind}.block_count"]),
        hidden_size=hidden,
        num_heads=heads,
        num_key_value_heads=int(keys.get(f"{kind}.attention.head_count_kv", heads)),
        head_size=int(keys.get(f"{kind}.attention.key_length", hidden // heads)),
        ffn_size=int(keys[f"{kind}.feed_forward_length"]),
        vocab_size=shapes["token_embd.weight"][-1],
    )


def _gguf_key(stream: BinaryIO) -> tuple[str, Any]:
    name = _gguf_string(stream)
    (kind,) = struct.unpack("<I", stream.read(4))
    return name, _gguf_value(stream, kind)


def _gguf_value(stream: BinaryIO, kind: int) -> Any:
    """A number or text; of an array only how many items it has."""
    if kind == _GGUF_STRING:
        return _gguf_string(stream)
    if kind != _GGUF_ARRAY:
        code = f"<{_GGUF_NUMBERS[kind]}"
        return struct.unpack(code, stream.read(struct.calcsize(code)))[0]
    item_kind, count = struct.unpack("<IQ", stream.read(12))
    if item_kind in _GGUF_NUMBERS:
        stream.seek(count * struct.calcsize(f"<{_GGUF_NUMBERS[item_kind]}"), 1)
    else:
        for _ in range(count):
            _gguf_value(stream, item_kind)
    return count


def _gguf_string(stream: BinaryIO) -> str:
    (length,) = struct.unpack("<Q", stream.read(8))
    if length > _LONGEST_HEADER_BYTES:
        raise ValueError(f"a text of {length} bytes in the header")
    return stream.read(length).decode("utf-8", "replace")


def _gguf_tensor(stream: BinaryIO) -> tuple[str, tuple[int, ...]]:
    name = _gguf_string(stream)
    (num_dimensions,) = struct.unpack("<I", stream.read(4))
    shape: tuple[int, ...] = struct.unpack(f"<{num_dimensions}Q", stream.read(8 * num_dimensions))
    stream.seek(12, 1)
    return name, shape
