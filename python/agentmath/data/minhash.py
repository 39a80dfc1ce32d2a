"""Near-duplicate candidates by MinHash and locality-sensitive hashing, with datasketch.

Of two texts with resemblance j (shared shingles / all shingles), b bands of r rows make a candidate with probability
1 - (1 - j^r)^b (Leskovec, Rajaraman and Ullman, "Mining of Massive Datasets", section 3.4).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from agentmath.core.errors import ConfigError

if TYPE_CHECKING:
    from datasketch import MinHash

    from agentmath.data.shingles import Shingle

_SEED = 1


class MinHashCandidates:
    """Finds the questions whose sets of shingles probably resemble that of a text."""

    def __init__(self, questions: Sequence[Iterable[Shingle]], *, bands: int, rows: int) -> None:
        """Raises ConfigError where datasketch is not installed."""
        try:
            from datasketch import MinHashLSH
        except ImportError as fault:
            raise ConfigError("MinHash candidates need datasketch: pip install 'datasketch>=1.6'") from fault
        self._num_permutations = bands * rows
        self._index = MinHashLSH(num_perm=self._num_permutations, params=(bands, rows))
        with self._index.insertion_session() as session:
            for number, shingles in enumerate(questions):
                if signature := self._signature(shingles):
                    session.insert(number, signature)

    def find(self, shingles: Iterable[Shingle]) -> list[int]:
        """Numbers of the candidates, in order. An empty text resembles nothing."""
        signature = self._signature(shingles)
        return sorted(n for n in self._index.query(signature) if isinstance(n, int)) if signature else []

    def _signature(self, shingles: Iterable[Shingle]) -> MinHash | None:
        from datasketch import MinHash

        texts = [" ".join(shingle).encode("utf-8", "surrogatepass") for shingle in shingles]
        if not texts:
            return None
        signature = MinHash(num_perm=self._num_permutations, seed=_SEED, hashfunc=zlib.crc32)
        signature.update_batch(texts)
        return signature
