"""Text token by token."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentmath.engines.byte_tokenizer import ByteTokenizer
from agentmath.formats.pieces import pieces, token_of_char


@given(st.text(alphabet=st.characters(codec=None) | st.sampled_from("\ufffd\ud800")))
def test_pieces_join_to_the_text(text: str):
    tokenizer = ByteTokenizer()
    ids = tokenizer.encode(text, allow_special=False)
    parts = pieces(ids, tokenizer)
    assert len(parts) == len(ids)
    assert "".join(parts) == text


@given(st.binary().filter(lambda data: b"\xed" not in data))
def test_bytes_that_are_no_text_lose_nothing(data: bytes):
    assert "".join(pieces(list(data), ByteTokenizer())) == ByteTokenizer().decode(list(data))


def test_a_cut_character_belongs_to_its_last_token():
    assert pieces(list("a\u4e2db".encode()), ByteTokenizer()) == ["a", "", "", "\u4e2d", "b"]


def test_a_character_that_is_the_sign_of_a_cut_one_is_itself():
    assert "".join(pieces(list("\ufffd\ufffd\ufffdx".encode()), ByteTokenizer())) == "\ufffd\ufffd\ufffdx"


def test_token_of_char_finds_the_holder():
    parts = ["ab", "", "c", "de"]
    assert [token_of_char(parts, i) for i in range(6)] == [0, 0, 2, 3, 3, 4]
