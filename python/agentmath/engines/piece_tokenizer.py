"""Text kept as the pieces in which it came: ids for a model whose tokenizer is not known.

An id is the place of a piece in a table that grows as pieces come: it means nothing to the model, and nothing to
another process. Text is exact, counts are those of the pieces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from agentmath.core.errors import FormatError

_WORDS = re.compile(r"\s*\w+|\s*[^\w\s]+|\s+")


class PieceTokenizer:
    """core.interfaces.Tokenizer over pieces of text; id 0 ends a message and has no text."""

    eos_ids: tuple[int, ...] = (0,)

    def __init__(self) -> None:
        self._pieces = [""]
        self._known: dict[str, int] = {}

    def encode(self, text: str, *, allow_special: bool) -> list[int]:
        """A piece for each word and each run of signs; no text is the end."""
        return self.encode_pieces(_WORDS.findall(text))

    def encode_pieces(self, parts: Sequence[str]) -> list[int]:
        """Each part as one piece; empty ones are left out."""
        return [self._id(part) for part in parts if part]

    def texts_of(self, ids: Iterable[int]) -> dict[int, str]:
        """The piece of each id: what must be kept beside ids to read them in another process."""
        return {int(i): self._pieces[i] for i in ids}

    def ids_of(self, texts: Mapping[int, str]) -> dict[int, int]:
        """The ids here of pieces that another process knew by other ids."""
        return {i: self._id(text) if text else 0 for i, text in texts.items()}

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids."""
        return "".join(self._pieces[i] for i in ids)

    def render_chat(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool) -> str:
        """Raises FormatError: there is no template."""
        raise FormatError(
            "without endpoint.tokenizer nobody knows the model's chat template: name the tokenizer, ask with "
            "endpoint.api = 'chat', or set prompt.chat = false"
        )

    def _id(self, piece: str) -> int:
        found = self._known.get(piece)
        if found is None:
            found = self._known[piece] = len(self._pieces)
            self._pieces.append(piece)
        return found
