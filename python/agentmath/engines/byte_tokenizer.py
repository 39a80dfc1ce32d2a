"""A tokenizer that needs no file: one token a byte, so that tags and wide characters are cut wherever they can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentmath.core.errors import FormatError

END = 256
"""Id of the one control token, which ends a message."""


class ByteTokenizer:
    """core.interfaces.Tokenizer over the bytes of UTF-8; half a surrogate pair is three bytes like any character."""

    eos_ids: tuple[int, ...] = (END,)

    def encode(self, text: str, *, allow_special: bool) -> list[int]:
        """Bytes of text; no text is the control token."""
        return list(text.encode("utf-8", "surrogatepass"))

    def decode(self, ids: Sequence[int]) -> str:
        """Text of bytes, U+FFFD in place of what is none; the control token has no text."""
        data = bytes(i for i in ids if i < END)
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return data.decode("utf-8", "replace")

    def render_chat(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool) -> str:
        """Raises FormatError: there is no template."""
        raise FormatError("the byte tokenizer has no chat template; set prompt.chat = false")
