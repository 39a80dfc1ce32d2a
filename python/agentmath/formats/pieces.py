"""Text of a token stream, token by token, so that what is found in text can be said in tokens."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from agentmath.core.interfaces import Tokenizer

_LONGEST_CHARACTER = 4
"""Tokens that one character may be spread over: four bytes of UTF-8, one byte a token."""


def pieces(ids: Sequence[int], tokenizer: Tokenizer) -> list[str]:
    """Text that each token adds. A character cut over several tokens is given to the last of them."""
    out: list[str] = []
    held: list[int] = []
    for token in ids:
        held.append(int(token))
        text = tokenizer.decode(held)
        if text.endswith("\ufffd") and len(held) < _LONGEST_CHARACTER:
            out.append("")
        else:
            out.append(text)
            held = []
    if held:
        out[-1] = tokenizer.decode(held)
    return out


def token_of_char(parts: Sequence[str], position: int) -> int:
    """Index of the token that holds character `position` of the joined text; len(parts) at its end."""
    ends = list(accumulate(len(p) for p in parts))
    return bisect_left(ends, position + 1)
