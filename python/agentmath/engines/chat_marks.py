"""A conversation as one text, with marks that no template and no problem has, so that it can be taken apart again.

    RS system US Be exact. RS user US What is 6*7? RS assistant US <code>print(6*7)</code><interpreter>42</interpreter>

RS and US are the separators of ASCII. Behind the last mark stands what the model said and what tools printed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from agentmath.core.interfaces import Tokenizer

BEGIN, MIDDLE = "\x1e", "\x1f"
MARKS = (BEGIN, MIDDLE)
Message = dict[str, str]


class MarkedTokenizer:
    """core.interfaces.Tokenizer of another one's ids, whose conversations carry marks instead of a template's."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    @property
    def eos_ids(self) -> tuple[int, ...]:
        return self.tokenizer.eos_ids

    def encode(self, text: str, *, allow_special: bool) -> list[int]:
        """Ids of text."""
        return self.tokenizer.encode(text, allow_special=allow_special)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids."""
        return self.tokenizer.decode(ids)

    def render_chat(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool) -> str:
        """Messages behind their marks; marks within a message become blanks."""
        parts = [f"{BEGIN}{m['role']}{MIDDLE}{_without_marks(m['content'])}" for m in messages]
        return "".join(parts) + (f"{BEGIN}assistant{MIDDLE}" if add_generation_prompt else "")


def messages_of(text: str, *, output_open: str, output_close: str, prefill: bool) -> list[Message]:
    """The conversation that text is. With prefill the last message is what the assistant said so far, outputs included,
    and is missing before it said anything; without it each output is a message of the user."""
    messages: list[Message] = []
    for part in text.split(BEGIN)[1:]:
        role, _, content = part.partition(MIDDLE)
        messages.append({"role": role, "content": content})
    if not messages:
        return [{"role": "user", "content": text}]
    if messages[-1]["role"] == "assistant":
        said = messages.pop()["content"]
        messages += _turns(said, output_open, output_close) if not prefill else _said(said)
    return messages


def _turns(said: str, output_open: str, output_close: str) -> list[Message]:
    """Tool output is neutralised and an invented one is cut off, so that each output that stands there was inserted."""
    cuts = [0]
    at = said.find(output_open)
    while at >= 0 and (end := said.find(output_close, at + len(output_open))) >= 0:
        cuts += [at, end + len(output_close)]
        at = said.find(output_open, cuts[-1])
    turns = [*pairwise(cuts), (cuts[-1], len(said))]
    roles = ("assistant", "user")
    return [{"role": roles[i % 2], "content": said[a:b]} for i, (a, b) in enumerate(turns) if said[a:b].strip()]


def _said(said: str) -> list[Message]:
    return [{"role": "assistant", "content": said}] if said else []


def _without_marks(text: str) -> str:
    return text.replace(BEGIN, " ").replace(MIDDLE, " ")
