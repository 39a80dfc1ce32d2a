"""avg@k, pass@k and maj@k of one problem, exactly, from n >= k samples of it.

All three are means over every choice of k of the n samples: none depends on the order in which samples came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from math import comb


def avg_at(num_right: int, num_samples: int) -> float:
    """Share of right samples; the mean over choices of k is the same for every k."""
    if num_samples < 1:
        raise ValueError("no sample was graded: there is no mean of none")
    return num_right / num_samples


def pass_at(k: int, num_right: int, num_samples: int) -> float:
    """Share of choices of k samples that hold a right one: 1 - C(n-c, k) / C(n, k).

    M. Chen et al., "Evaluating Large Language Models Trained on Code", section 2.1.
    """
    _check(k, num_samples)
    return 1.0 - comb(num_samples - num_right, k) / comb(num_samples, k)


def maj_at(k: int, votes: Sequence[Hashable | None], right: Hashable) -> float:
    """Chance that the most frequent answer of k of the samples is the right one.

    votes: the answer of each sample, equal answers as equal values; None for a sample without an answer, which does not
    vote. right: the value of right answers. Where several answers are equally frequent, one of them is drawn: m tied
    answers count 1/m if the right one is among them. Without a vote nothing is right. X. Wang et al.,
    "Self-Consistency Improves Chain of Thought Reasoning in Language Models", section 2; the mean over choices is ours.
    """
    _check(k, len(votes))
    counts = Counter(vote for vote in votes if vote is not None)
    num_right = counts.pop(right, 0)
    silent = len(votes) - num_right - counts.total()
    rivals = sorted(counts.values())
    strongest = rivals[-1] if rivals else 0
    won, others = Fraction(0), _ways(rivals, silent, k, strongest + 1)
    for most in range(1, min(num_right, k) + 1):
        # More votes than any rival has: how many more does not change what the rivals may have.
        table = others if most > strongest else _ways(rivals, silent, k - most, most)
        fair = sum(Fraction(ways, 1 + ties) for (used, ties), ways in table.items() if used == k - most)
        won += comb(num_right, most) * fair
    return float(won / comb(len(votes), k))


def _ways(rivals: Sequence[int], silent: int, size: int, most: int) -> dict[tuple[int, int], int]:
    """Choices of at most `size` samples among rivals and silent ones in which no rival has more than `most` votes, by
    how many they are and by the number of rivals that have just `most`."""
    table: dict[tuple[int, int], int] = {(used, 0): comb(silent, used) for used in range(min(silent, size) + 1)}
    for count in rivals:
        grown: dict[tuple[int, int], int] = {}
        for (used, ties), ways in table.items():
            for taken in range(min(count, most, size - used) + 1):
                key = used + taken, ties + (taken == most)
                grown[key] = grown.get(key, 0) + ways * comb(count, taken)
        table = grown
    return table


def sizes_of(num_samples: int) -> list[int]:
    """The k that are reported for n samples: 1, 2, 4, ... and n."""
    return sorted({1 << i for i in range(num_samples.bit_length()) if 1 << i <= num_samples} | {num_samples})


def _check(k: int, num_samples: int) -> None:
    if not 1 <= k <= num_samples:
        raise ValueError(f"k = {k} of {num_samples} samples cannot be drawn")
