"""Text of a token stream, token by token, so that what is found in text can be said in tokens."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from agentmath.core.interfaces import Tokenizer

_BROKEN = "\ufffd"
_LONGEST_CHARACTER = 4
"""Tokens that one character may be spread over: four bytes of UTF-8, one byte a token."""


def pieces(ids: Sequence[int], tokenizer: Tokenizer) -> list[str]:
    """Text that each token adds. A character cut over several tokens is given to the last of them."""
    out = [""] * len(ids)
    held: list[int] = []
    for index, token in enumerate(ids):
        held.append(int(token))
        text = tokenizer.decode(held)
        if not text.endswith(_BROKEN):
            out[index], held = text, []
        elif len(held) == _LONGEST_CHARACTER:
            # Bytes that are no character, or one that looks like them: the first of them is over.
            size = _first_whole(held, text, tokenizer)
            out[index - len(held) + size], held = tokenizer.decode(held[:size]), held[size:]
    if held:
        out[-1] = tokenizer.decode(held)
    return out


def _first_whole(held: list[int], text: str, tokenizer: Tokenizer) -> int:
    """Tokens of the shortest beginning that can be decoded by itself."""
    sizes = range(1, len(held))
    return next((n for n in sizes if tokenizer.decode(held[:n]) + tokenizer.decode(held[n:]) == text), len(held))


def token_of_char(parts: Sequence[str], position: int) -> int:
    """Index of the token that holds character `position` of the joined text; len(parts) at its end."""
    ends = list(accumulate(len(p) for p in parts))
    return bisect_left(ends, position + 1)
