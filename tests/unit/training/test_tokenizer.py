from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agentmath.core.errors import FormatError

tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")
from agentmath.training.tokenizer import FastTokenizer, check_tags, check_template  # noqa: E402

TAGS = ["<think>", "</think>", "<code>", "</code>", "<interpreter>", "</interpreter>", "\\boxed{1}"]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
FORGETFUL = (
    "{% for m in messages %}<{{ m['role'] }}>"
    "{{ m['content'] if loop.last else m['content'].split('</think>')[-1] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def byte_tokenizer(special: Sequence[str] = (), plain: Sequence[str] = (), template: str | None = None) -> Any:
    """One token for each byte, and added tokens."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    backend = tokenizers.Tokenizer(tokenizers.models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.add_special_tokens(list(special))
    backend.add_tokens(list(plain))
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, chat_template=template)
    return FastTokenizer(fast, family="toy", eos_ids=[0, 0, 5])


def test_control_tokens_come_out_only_where_allowed() -> None:
    tokenizer = byte_tokenizer(["<eos>", "<code>"])
    text = "a<code><eos>b <eos"
    assert tokenizer.encode(text, allow_special=True)[1:3] == [257, 256]
    inserted = tokenizer.encode(text, allow_special=False)
    assert max(inserted) < 256
    assert tokenizer.decode(inserted) == text


def test_added_tokens_that_are_not_marked_special_are_control_tokens_too() -> None:
    tokenizer = byte_tokenizer(plain=["<think>"])
    assert tokenizer.encode("<think>", allow_special=True) == [256]
    assert tokenizer.decode(tokenizer.encode("x<think>", allow_special=False)) == "x<think>"
    assert 256 not in tokenizer.encode("x<think>", allow_special=False)


def test_added_blanks_are_ordinary_text() -> None:
    tokenizer = byte_tokenizer(plain=["    "])
    assert tokenizer.encode("    x", allow_special=False)[0] == 256


def test_a_token_that_cannot_be_kept_out_is_an_error() -> None:
    # Breaking "<<" after its first sign leaves the control token "<".
    tokenizer = byte_tokenizer(plain=["<"])
    with pytest.raises(FormatError, match="control token '<'"):
        tokenizer.encode("a<b", allow_special=False)


def test_decoding_keeps_control_tokens_visible() -> None:
    tokenizer = byte_tokenizer(["<eos>"])
    assert tokenizer.decode([*tokenizer.encode("hi", allow_special=False), 256]) == "hi<eos>"
    assert tokenizer.decode([]) == ""


def test_end_ids_are_kept_once_and_in_order() -> None:
    assert byte_tokenizer().eos_ids == (0, 5)
    assert byte_tokenizer(["<x>"]).vocab_size == 257


@pytest.mark.parametrize("special", [[], TAGS[:6]])
def test_tags_survive_as_bytes_and_as_tokens(special: list[str]) -> None:
    check_tags(byte_tokenizer(special), TAGS)


def test_a_tokenizer_that_loses_a_tag_is_refused_by_name() -> None:
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "[UNK]": 1}, "[UNK]"))
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]")
    with pytest.raises(FormatError, match=r"tokenizer of words turns '<code>' into"):
        check_tags(FastTokenizer(fast, family="words", eos_ids=[]), ["<code>"])


def test_a_template_that_only_appends_is_accepted() -> None:
    check_template(byte_tokenizer(template=CHATML))


def test_a_template_that_rewrites_history_is_refused_by_family() -> None:
    tokenizer = byte_tokenizer(template=FORGETFUL)
    with pytest.raises(FormatError, match="chat template of toy rewrites history"):
        check_template(tokenizer)
    check_template(tokenizer, num_answers=1)  # with one answer there is no history


def test_a_missing_template_and_one_that_refuses_are_one_sentence() -> None:
    with pytest.raises(FormatError, match=r"no chat template; set prompt\.chat = false"):
        check_template(byte_tokenizer())
    refusing = byte_tokenizer(template="{{ raise_exception('roles must alternate') }}")
    with pytest.raises(FormatError, match="roles must alternate"):
        check_template(refusing)
