from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from agentmath.config.model import ModelSection
from agentmath.core.errors import ConfigError, EngineError, FormatError

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from agentmath.training.decoder import FlatDecoder  # noqa: E402
from agentmath.training.policy import Policy, export_hf, load_policy, policy_of  # noqa: E402
from agentmath.training.tokenizer import check_tags, check_template  # noqa: E402

CORPUS = [f"What is {i} * 3?<think>easy</think><code>print({i}*3)</code>\\boxed{{{i * 3}}}<eos>" for i in range(300)]
NO_TOKENIZER: Any = None
SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "num_layers": 2,
    "ffn_size": 48,
    "vocab_size": 320,
    "max_context_tokens": 64,
}


@pytest.fixture(autouse=True, scope="module")
def offline() -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    torch.set_num_threads(1)


def new(seed: int = 0, **sizes: Any) -> Policy:
    return load_policy(ModelSection(**(SMALL | sizes)), name="p", seed=seed, corpus=CORPUS)


def library_model(family: str, **extra: Any) -> Any:
    shape: dict[str, Any] = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    shape |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0}
    with torch.random.fork_rng():
        torch.manual_seed(1)
        config = getattr(transformers, f"{family}Config")(**(shape | extra))
        module = getattr(transformers, f"{family}ForCausalLM")(config)
        for parameter in module.parameters():
            parameter.data.add_(torch.randn_like(parameter), alpha=0.1)
    return module


FAMILIES = [
    ("Llama", {}),
    ("Llama", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    ("Llama", {"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0,
                                   "high_freq_factor": 4.0, "original_max_position_embeddings": 16}}),
    ("Qwen2", {}),
    ("Qwen3", {"head_dim": 8}),
    ("Qwen3", {"head_dim": 16, "attention_bias": True}),
]  # fmt: skip
LIBRARY_FAMILIES = [
    ("Qwen3Moe", {"head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}),
    ("Mistral", {"sliding_window": None}),
    ("Olmo2", {}),
]


@pytest.mark.parametrize(("family", "extra"), [*FAMILIES, *LIBRARY_FAMILIES])
def test_hidden_states_and_gradients_are_the_librarys(family: str, extra: dict[str, Any]) -> None:
    module, reference = library_model(family, **extra), library_model(family, **extra)
    policy = policy_of(module, NO_TOKENIZER, name="p")
    assert isinstance(policy.decoder, FlatDecoder) == ((family, extra) in FAMILIES)
    lengths = [9, 4, 12, 4]
    ids = torch.randint(1, 64, (sum(lengths),), generator=torch.Generator().manual_seed(0))
    hidden = policy.forward_hidden(ids, torch.cat([torch.arange(n) for n in lengths]), lengths)
    reference.eval()
    expected = torch.cat([reference.base_model(input_ids=r[None]).last_hidden_state[0] for r in ids.split(lengths)])
    assert torch.allclose(hidden, expected, atol=1e-5)
    weight = torch.randn(hidden.shape, generator=torch.Generator().manual_seed(2))
    (hidden * weight).sum().backward()
    (expected * weight).sum().backward()
    for (name, a), (_, b) in zip(policy.named_parameters(), reference.named_parameters(), strict=True):
        if b.grad is not None:
            assert a.grad is not None, name
            assert torch.allclose(a.grad, b.grad, atol=1e-4, rtol=1e-3), name


@pytest.mark.parametrize(
    ("family", "extra", "words"),
    [
        ("Mistral", {"sliding_window": 4}, "looks back 4 tokens"),
        ("Gemma2", {"head_dim": 8}, "sliding_attention"),
        ("Cohere", {"bos_token_id": 1, "eos_token_id": 2}, "log-probs differ"),
    ],
)
def test_families_that_compute_something_else_are_refused_by_name(
    family: str, extra: dict[str, Any], words: str
) -> None:
    with pytest.raises(EngineError, match=words) as error:
        policy_of(library_model(family, **extra), NO_TOKENIZER, name="p")
    assert family.lower() in str(error.value)


def test_a_new_model_is_made_from_the_recipe_and_its_seed() -> None:
    a, again, other = new(3), new(3), new(4)
    assert a.family == "qwen3"
    assert a.head_weight().shape == (384, 32)  # 320 ids at most, padded to a multiple of 128
    assert a.tokenizer.vocab_size <= 320
    assert a.tokenizer.fast.get_vocab() == again.tokenizer.fast.get_vocab()
    assert all(torch.equal(x, y) for (_, x), (_, y) in zip(a.named_parameters(), again.named_parameters(), strict=True))
    assert not torch.equal(a.head_weight(), other.head_weight())


def test_making_a_model_leaves_the_global_random_state_alone() -> None:
    torch.manual_seed(7)
    before = torch.rand(1)
    torch.manual_seed(7)
    new()
    assert torch.equal(torch.rand(1), before)


def test_the_new_tokenizer_speaks_the_protocol_digit_by_digit() -> None:
    tokenizer = new().tokenizer
    check_tags(tokenizer, ["<think>", "</think>", "<code>", "</code>", "<interpreter>", "</interpreter>", "\\boxed{7}"])
    check_template(tokenizer)
    assert len(tokenizer.encode("12345", allow_special=False)) == 5
    assert len(tokenizer.encode("<interpreter>", allow_special=True)) == 1
    assert tokenizer.decode(list(tokenizer.eos_ids)) == "<eos>"
    text = "na\u00efve \u4e2d\n\t x"
    assert tokenizer.decode(tokenizer.encode(text, allow_special=False)) == text


def test_an_export_loads_with_the_librarys_own_classes(tmp_path: Path) -> None:
    policy = new()
    export_hf(policy, tmp_path / "out")
    module = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    fast = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    ids = fast("What is 7?<code>", return_tensors="pt").input_ids
    assert ids[0].tolist() == policy.tokenizer.encode("What is 7?<code>", allow_special=True)
    hidden = policy.forward_hidden(ids[0], torch.arange(ids.shape[1]), [ids.shape[1]])
    assert torch.allclose(module(ids).logits[0], hidden @ policy.head_weight().t(), atol=1e-5)
    again = load_policy(ModelSection(path=str(tmp_path / "out")), name="p", seed=0)
    assert again.tokenizer.eos_ids == policy.tokenizer.eos_ids


def test_bfloat16_weights_stay_bfloat16() -> None:
    policy = new(dtype="bfloat16")
    assert policy.dtype == torch.bfloat16
    assert policy.forward_hidden(torch.tensor([5, 6]), torch.arange(2), [2]).dtype == torch.bfloat16
    assert policy.cache_shape().dtype == torch.bfloat16


def test_paths_without_a_model_are_one_clear_sentence(tmp_path: Path) -> None:
    policy = new()
    export_hf(policy, tmp_path / "whole")
    (tmp_path / "empty").mkdir()
    (tmp_path / "bare").mkdir()
    (tmp_path / "text.txt").write_text("x")
    shutil.copy(tmp_path / "whole" / "config.json", tmp_path / "bare")
    (tmp_path / "broken").mkdir()
    for file in (tmp_path / "whole").iterdir():
        shutil.copy(file, tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"not weights")
    (tmp_path / "notok").mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(tmp_path / "whole" / name, tmp_path / "notok")
    cases = {
        tmp_path / "missing": "does not exist",
        tmp_path / "missing.gguf": "does not exist",
        tmp_path / "empty": "without config.json",
        tmp_path / "bare": "no weights",
        tmp_path / "text.txt": "no .gguf",
        tmp_path / "broken": "cannot be loaded",
        tmp_path / "notok": "no tokenizer",
    }
    for path, words in cases.items():
        with pytest.raises(ConfigError, match=words) as error:
            load_policy(ModelSection(path=str(path)), name="p", seed=0)
        assert "\n" not in str(error.value)
        assert str(path) in str(error.value)


def test_a_tokenizer_larger_than_the_model_is_refused(tmp_path: Path) -> None:
    policy = new()
    export_hf(policy, tmp_path)
    fast = transformers.AutoTokenizer.from_pretrained(tmp_path)
    fast.add_tokens([f"word{i}" for i in range(200)])
    fast.save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="do not belong together"):
        load_policy(ModelSection(path=str(tmp_path)), name="p", seed=0)


def test_impossible_sizes_and_missing_texts_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"num_heads = 4 is no multiple of model\.num_key_value_heads = 3"):
        new(num_heads=4, num_key_value_heads=3)
    with pytest.raises(ConfigError, match="take a multiple of 8"):
        new(hidden_size=36, num_heads=4)
    with pytest.raises(ConfigError, match="no texts"):
        load_policy(ModelSection(), name="p", seed=0)


def smollm2() -> Path:
    folder = os.environ.get("AGENTMATH_TEST_DATA", str(Path(__file__).parents[4] / "shared" / "data"))
    found = sorted(Path(folder).glob("**/SmolLM2-135M*.gguf")) if Path(folder).is_dir() else []
    if not found:
        pytest.skip("no SmolLM2-135M*.gguf below AGENTMATH_TEST_DATA")
    return found[0]


@pytest.mark.real_data
@pytest.mark.slow
def test_a_gguf_file_becomes_a_model_that_can_be_saved(tmp_path: Path) -> None:
    policy = load_policy(ModelSection(path=str(smollm2())), name="p", seed=0)
    prompt = policy.tokenizer.render_chat(
        [{"role": "user", "content": "What is the capital of France?"}], add_generation_prompt=True
    )
    ids = policy.tokenizer.encode(prompt, allow_special=True)
    for _ in range(7):
        flat = torch.tensor(ids)
        with torch.no_grad():
            hidden = policy.forward_hidden(flat, torch.arange(len(ids)), [len(ids)])
        ids.append(int((hidden[-1] @ policy.head_weight().t()).argmax()))
    assert "Paris" in policy.tokenizer.decode(ids[-7:])
    export_hf(policy, tmp_path)
    assert transformers.AutoConfig.from_pretrained(tmp_path).model_type == "llama"


def test_weights_that_are_not_in_the_files_are_never_made_up(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    export_hf(new(), tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        ConfigError, match=r"lacks 1 of the model's weights, the first is model\.layers\.1\.mlp\.up_proj"
    ):
        load_policy(ModelSection(path=str(tmp_path)), name="p", seed=0)


@pytest.mark.parametrize(("end", "words"), [(None, "names a token that ends a message"), (9999, "eos_token_id = 9999")])
def test_a_model_that_nothing_ends_is_refused(tmp_path: Path, end: int | None, words: str) -> None:
    export_hf(new(), tmp_path)
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        settings = json.loads((tmp_path / name).read_text())
        settings.pop("eos_token", None)
        settings.pop("eos_token_id", None)
        if end is not None and name == "generation_config.json":
            settings["eos_token_id"] = end
        (tmp_path / name).write_text(json.dumps(settings))
    with pytest.raises(FormatError, match=words):
        load_policy(ModelSection(path=str(tmp_path)), name="p", seed=0)
