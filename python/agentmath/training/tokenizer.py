"""core.interfaces.Tokenizer over a fast tokenizer, and the checks that a tokenizer can carry the tag protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from agentmath.core.errors import FormatError


class FastTokenizer:
    """Text to ids and back; control tokens stay visible in text, and come out of text only where allowed."""

    def __init__(self, fast: Any, *, family: str, eos_ids: Sequence[int]) -> None:
        """fast: a transformers tokenizer with a `backend_tokenizer`; family: the model's, for error texts."""
        self.fast, self.family = fast, family
        self.eos_ids: tuple[int, ...] = tuple(dict.fromkeys(int(i) for i in eos_ids))
        self._backend = fast.backend_tokenizer
        added = {i: str(token.content) for i, token in self._backend.get_added_tokens_decoder().items()}
        # Tokens for runs of blanks are ordinary text; all other added tokens steer something.
        self.control_ids = frozenset(i for i, text in added.items() if text.strip())
        texts = sorted((added[i] for i in self.control_ids), key=len, reverse=True)
        self._control = re.compile("|".join(re.escape(t) for t in texts) or r"(?!)")

    @property
    def vocab_size(self) -> int:
        """One more than the largest id."""
        return max(self._backend.get_vocab(with_added_tokens=True).values()) + 1

    def encode(self, text: str, *, allow_special: bool) -> list[int]:
        """Ids of text; with allow_special=False no control token can come out of it."""
        if allow_special or not self._control.search(text):
            return self._encode(text)
        # A control token's text is broken after its first character: each part is ordinary text then.
        cuts = [0, *(m.start() + 1 for m in self._control.finditer(text)), len(text)]
        self._backend.encode_special_tokens = True
        try:
            ids = [i for a, b in pairwise(cuts) for i in self._encode(text[a:b])]
        finally:
            self._backend.encode_special_tokens = False
        if not self.control_ids.isdisjoint(ids):
            tokens = [self.decode([i]) for i in ids if i in self.control_ids]
            raise FormatError(f"the tokenizer of {self.family} makes the control token {tokens[0]!r} of inserted text")
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, control tokens kept visible."""
        return self._backend.decode([int(i) for i in ids], skip_special_tokens=False)

    def render_chat(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool) -> str:
        """Text of a conversation in the model's own template. Raises FormatError when it has none or refuses."""
        if not getattr(self.fast, "chat_template", None):
            raise FormatError(f"the tokenizer of {self.family} has no chat template; set prompt.chat = false")
        try:
            return self.fast.apply_chat_template(
                [dict(m) for m in messages], tokenize=False, add_generation_prompt=add_generation_prompt
            )
        except Exception as error:  # templates are programs of strangers and raise what they like
            raise FormatError(f"the chat template of {self.family} refuses a conversation: {error}") from error

    def _encode(self, text: str) -> list[int]:
        return self._backend.encode(text, add_special_tokens=False).ids


def check_template(tokenizer: FastTokenizer, *, system: bool = True, num_answers: int = 2) -> None:
    """Raise FormatError unless rendering more of a conversation only appends to what was rendered before.

    num_answers: assistant messages of the longest conversation that will be rendered; 1 asks only that the first answer
    goes behind the generation prompt (a template may then rewrite older answers: there are none).
    """
    messages = [{"role": "system", "content": "Be exact."}] if system else []
    before = ""
    for turn in range(num_answers):
        messages.append({"role": "user", "content": f"What is {turn} + 1?"})
        prompt = tokenizer.render_chat(messages, add_generation_prompt=True)
        _demand_prefix(tokenizer.family, before, prompt)
        messages.append({"role": "assistant", "content": f"<think>easy</think>It is {turn + 1}."})
        answered = tokenizer.render_chat(messages, add_generation_prompt=False)
        _demand_prefix(tokenizer.family, prompt, answered)
        before = answered


def _demand_prefix(family: str, before: str, after: str) -> None:
    if not after.startswith(before):
        at = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(after))
        raise FormatError(
            f"the chat template of {family} rewrites history: after one more message, character {at} reads "
            f"{after[at : at + 20]!r} where it read {before[at : at + 20]!r}; tokens already sampled would change. "
            "Use another template, or set prompt.chat = false"
        )


def check_tags(tokenizer: FastTokenizer, tags: Sequence[str]) -> None:
    """Raise FormatError unless every tag survives encoding and decoding, alone and inside text."""
    for tag in tags:
        for text in (tag, f"a {tag}1{tag}\nb"):
            back = tokenizer.decode(tokenizer.encode(text, allow_special=True))
            if back != text:
                raise FormatError(
                    f"the tokenizer of {tokenizer.family} turns {text!r} into {back!r}: the tag {tag!r} cannot be "
                    "spoken with it. Use a tokenizer that keeps the signs of the tags, or add them to its vocabulary"
                )
