"""Sizes are read from headers; what is no model is refused in words."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from agentmath.cli.model_shape import read_shape
from agentmath.config.model import ModelSection
from agentmath.core.errors import ConfigError

CONFIG: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 100,
    "tie_word_embeddings": True,
}


def model(path: str) -> ModelSection:
    return ModelSection.model_validate({"path": path})


def safetensors(file: Path, shapes: dict[str, list[int]]) -> None:
    header = {name: {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]} for name, shape in shapes.items()}
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text)


def gguf(*, keys: dict[str, Any], tensors: dict[str, tuple[int, ...]]) -> bytes:
    def text(words: str) -> bytes:
        return struct.pack("<Q", len(words)) + words.encode()

    out = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys))
    for name, value in keys.items():
        out += text(name)
        match value:
            case str():
                out += struct.pack("<I", 8) + text(value)
            case int():
                out += struct.pack("<II", 4, value)
            case list() if all(isinstance(v, str) for v in value):
                out += struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
            case _:
                out += struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)
    for name, shape in tensors.items():
        out += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, 0)
    return out


GGUF_KEYS: dict[str, Any] = {
    "general.architecture": "llama",
    "tokenizer.ggml.tokens": ["a", "bc"],
    "tokenizer.ggml.token_type": [1, 2, 3],
    "llama.block_count": 2,
    "llama.embedding_length": 16,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.feed_forward_length": 32,
}


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_shape(model(str(path)))
    return str(caught.value)


def test_parameters_are_counted_over_all_safetensors_files(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    safetensors(tmp_path / "model-00001.safetensors", {"a": [3, 4], "scalar": []})
    safetensors(tmp_path / "model-00002.safetensors", {"b": [5]})
    shape = read_shape(model(str(tmp_path)))
    assert shape is not None
    assert shape.num_parameters == 12 + 1 + 5
    assert (shape.num_layers, shape.head_size, shape.vocab_size) == (2, 4, 100)


def test_without_safetensors_parameters_are_counted_from_the_sizes(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"text_config": CONFIG | {"tie_word_embeddings": False}}))
    (tmp_path / "pytorch_model.bin").touch()
    shape = read_shape(model(str(tmp_path)))
    assert shape is not None
    assert shape.num_parameters == 2 * 100 * 16 + 16 + 2 * (2 * 16 * 4 * 6 + 3 * 16 * 32 + 2 * 16)


def test_a_gguf_header_is_read_past_its_arrays(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(gguf(keys=GGUF_KEYS, tensors={"token_embd.weight": (16, 100), "output_norm.weight": (16,)}))
    shape = read_shape(model(str(file)))
    assert shape is not None
    assert (shape.num_parameters, shape.vocab_size, shape.num_key_value_heads) == (1616, 100, 2)


def test_every_cut_of_a_gguf_header_is_refused(tmp_path: Path) -> None:
    whole = gguf(keys=GGUF_KEYS, tensors={"token_embd.weight": (16, 100)})
    file = tmp_path / "model.gguf"
    for length in range(0, len(whole) - 12, 7):
        file.write_bytes(whole[:length])
        assert "the sizes cannot be read" in refusal(file)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    assert "no config.json" in refusal(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    assert "no weights" in refusal(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 100)
    assert "is no safetensors file" in refusal(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert "the sizes cannot be read" in refusal(tmp_path)
    for text in ("{", "[]", "{}", '{"hidden_size": "x"}'):
        config.write_text(text)
        assert "the sizes cannot be read" in refusal(tmp_path)
    other = tmp_path / "weights.bin"
    other.touch()
    assert "is a file but no .gguf" in refusal(other)
    (tmp_path / "x.gguf").write_bytes(b"GGML" + b"\0" * 100)
    assert "not a GGUF file" in refusal(tmp_path / "x.gguf")


@pytest.mark.parametrize("name", ["/no/such/model", "./x", "../no-such-model", "~/no-such-model", "a/no-such.gguf"])
def test_a_path_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        read_shape(model(name))


@pytest.mark.parametrize("name", ["nobody/no-such-model", "no-such-model", "a/b/c"])
def test_a_model_elsewhere_is_unknown_not_an_error(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_shape(model(name)) is None
