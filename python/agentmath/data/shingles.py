"""Word shingles: which passage of a text holds a question, and how much of it.

A shingle is n words in a row. The share of a question's shingles that stand in a text (containment: Broder, "On the
resemblance and containment of documents", section 2) stays 1 where the question is wrapped into something longer.

Shingles that many questions of a set have in common (closing formulas, instructions) say little about any of them: each
counts 1 / (number of the set's questions that have it).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Shingle = tuple[str, ...]
_WINDOW = 2
"""A passage is at most this many times as long as the question: pieces from all over a long text are no question."""


def shingles_of(words: Sequence[str], length: int) -> list[Shingle]:
    """All runs of `length` words in order; a shorter text is one shingle, an empty one has none."""
    if len(words) < length:
        return [tuple(words)] if words else []
    return list(zip(*(words[i:] for i in range(length)), strict=False))


def weigh(texts: Iterable[Sequence[str]], length: int) -> dict[Shingle, float]:
    """The weight of every shingle of a set of texts: 1 / (number of different texts that have it)."""
    counts: Counter[Shingle] = Counter()
    for words in {tuple(words) for words in texts}:
        counts.update(set(shingles_of(words, length)))
    return {shingle: 1 / count for shingle, count in counts.items()}


def keys_of(weights: Mapping[Shingle, float], containment: float) -> list[Shingle]:
    """The rarest shingles of a question, so many that a text without any of them cannot hold the share `containment`.

    The prefix filter of Chaudhuri, Ganti and Kaushik, "A primitive operator for similarity joins", section 4: of n
    shingles at most n - ceil(n * containment) may be missing.
    """
    needed = -int(-(len(weights) * containment - 1e-9) // 1)
    rarest = sorted(weights, key=lambda shingle: (-weights[shingle], shingle))
    return rarest[: len(weights) - max(needed, 1) + 1]


@dataclass(frozen=True, slots=True)
class Passage:
    """Where a text is closest to a question: words[start:end]."""

    start: int
    end: int
    share: float
    """Of the question's shingles, those in the passage, each counted once."""
    weighted_share: float
    """The same by weight."""


def best_passage(words: Sequence[str], question: Mapping[Shingle, float], length: int, num_words: int) -> Passage:
    """The passage of at most 2 * num_words words that has most of a question's shingles by weight.

    question: the weights of the question's shingles; num_words: its length.
    """
    found = [(i, shingle) for i, shingle in enumerate(shingles_of(words, length)) if shingle in question]
    inside: Counter[Shingle] = Counter()
    first, weight = 0, 0.0
    best = (0.0, 0, 0, 0)
    for position, shingle in found:
        inside[shingle] += 1
        weight += question[shingle] if inside[shingle] == 1 else 0.0
        while position + length - found[first][0] > max(_WINDOW * num_words, length):
            left = found[first][1]
            inside[left] -= 1
            if not inside[left]:
                del inside[left]
                weight -= question[left]
            first += 1
        if weight > best[0] + 1e-12:
            best = (weight, found[first][0], min(position + length, len(words)), len(inside))
    weight, start, end, count = best
    total = sum(question.values())
    return Passage(start, end, count / len(question), min(weight / total, 1.0)) if question else Passage(0, 0, 0.0, 0.0)
