"""Finding stop texts in a token stream; a text may be spread over several tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from agentmath.core.interfaces import Tokenizer

_BROKEN = "\ufffd"
"""What a decoder writes for a character that is cut."""
_SPARE_TOKENS = 8
"""Tokens without a character of their own (bytes of a cut one) that a stop text's tail may hold."""


class StopFinder:
    """Which stop text the newest token completed. Only tokens that hold a text's last character are looked at."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int) -> None:
        self._tokenizer, self._vocab_size = tokenizer, vocab_size
        self._pieces: list[str] | None = None
        self._tables: dict[tuple[str, ...], npt.NDArray[np.bool_]] = {}
        self._suspected: dict[tuple[tuple[str, ...], int], bool] = {}

    def suspects(self, stop: tuple[str, ...]) -> npt.NDArray[np.bool_]:
        """[V] True for ids that may complete one of the texts."""
        table = self._tables.get(stop)
        if table is None:
            table = np.array([_may_complete(stop, piece) for piece in self._all_pieces()])
            self._tables[stop] = table
        return table

    def is_suspect(self, stop: tuple[str, ...], token: int) -> bool:
        """The same of one id, for a vocabulary whose size is not known."""
        key = (stop, token)
        if key not in self._suspected:
            self._suspected[key] = _may_complete(stop, self._tokenizer.decode([token]))
        return self._suspected[key]

    def window(self, stop: tuple[str, ...]) -> int:
        """Newest tokens that must be looked at."""
        return max(map(len, stop)) + _SPARE_TOKENS

    def find(self, stop: tuple[str, ...], tail: Sequence[int]) -> str | None:
        """The stop text that the last id of the tail completed, the one that ends first if there are several."""
        now, before = self._tokenizer.decode(tail), self._tokenizer.decode(tail[:-1])
        ends = [(now.rfind(text) + len(text), text) for text in stop if now.count(text) > before.count(text)]
        return min(ends)[1] if ends else None

    def _all_pieces(self) -> list[str]:
        if self._pieces is None:
            self._pieces = [self._tokenizer.decode([i]) for i in range(self._vocab_size)]
        return self._pieces


def _may_complete(stop: tuple[str, ...], piece: str) -> bool:
    last = {text[-1] for text in stop}
    return any(c in piece for c in last) or (any(ord(c) > 127 for c in last) and _BROKEN in piece)
