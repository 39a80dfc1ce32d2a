"""Text token by token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from agentmath.formats.pieces import pieces, token_of_char


class ByteTokenizer:
    """One token a byte: the hardest case for characters of several bytes."""

    eos_ids: tuple[int, ...] = (256,)

    def encode(self, text: str, *, allow_special: bool) -> list[int]:
        return list(text.encode())

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(i for i in ids if i < 256).decode(errors="replace")

    def render_chat(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool) -> str:
        return "".join(m["content"] for m in messages)


@given(st.text(alphabet=st.characters(exclude_characters="\ufffd", exclude_categories=["Cs"])))
def test_pieces_join_to_the_text(text: str):
    tokenizer = ByteTokenizer()
    assert "".join(pieces(tokenizer.encode(text, allow_special=False), tokenizer)) == text


def test_a_cut_character_belongs_to_its_last_token():
    assert pieces(list("a\u4e2db".encode()), ByteTokenizer()) == ["a", "", "", "\u4e2d", "b"]


def test_token_of_char_finds_the_holder():
    parts = ["ab", "", "c", "de"]
    assert [token_of_char(parts, i) for i in range(6)] == [0, 0, 2, 3, 3, 4]
