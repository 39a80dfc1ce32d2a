"""Is a training text one of the evaluation questions? Exact, by shingles, or with MinHash candidates.

The rule, in this order: a text with the question's wording is contaminated. A text with a passage that holds at least
`containment` of the question's shingles is flagged, and is

    boilerplate    when that share is made up of shingles which many questions of the set have
    variant        when it lacks a number of the question, shows another drawing, or both answers are known and differ
    contaminated   otherwise

No rule about words finds a paraphrase, a translation, or a story whose nouns were all changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from agentmath.core.errors import ConfigError
from agentmath.data.shingles import Passage, Shingle, best_passage, keys_of, shingles_of, weigh
from agentmath.data.wording import Wording, answer_value, numbers_of, wording


class Verdict(StrEnum):
    """What a flagged pair is, the worst first."""

    CONTAMINATED = "contaminated"
    VARIANT = "variant"
    BOILERPLATE = "boilerplate"


SEVERITY: tuple[Verdict, ...] = tuple(Verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The settings of a search. Raises ConfigError."""

    shingle_words: int = 4
    containment: float = 0.7
    """Smallest share of a question's shingles that flags a text."""
    candidates: Literal["index", "minhash"] = "index"
    """index: every pair that can reach the share. minhash: pairs whose signatures meet in a band, which misses some."""
    bands: int = 32
    rows_per_band: int = 4
    """bands * rows_per_band is the number of permutations. Resemblance 0.4 is met with probability 0.56, 0.5 with
    0.87, 0.7 with 1 - 2e-4."""

    def __post_init__(self) -> None:
        if not 1 <= self.shingle_words <= 50:
            raise ConfigError(f"shingles of {self.shingle_words} words: give a number from 1 to 50")
        if not 0 < self.containment <= 1:
            raise ConfigError(f"containment {self.containment} is no share: give a number above 0, at most 1")
        if not (1 <= self.bands <= 1024 and 1 <= self.rows_per_band <= 64):
            raise ConfigError(
                f"{self.bands} bands of {self.rows_per_band} rows: give 1 to 1024 bands of 1 to 64 rows each"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question of an evaluation set."""

    set_name: str
    id: str
    text: str
    answer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A question that a text was flagged for."""

    question: Question
    verdict: Verdict
    reason: str
    share: float
    """Of the question's shingles, those that the passage holds."""
    weighted_share: float
    """The same, shingles of many questions counting less."""
    passage: str
    """The words of the text that were compared, normalised."""


@dataclass(frozen=True, slots=True)
class _Indexed:
    question: Question
    wording: Wording
    weights: Mapping[Shingle, float]
    total: float


class EvaluationIndex:
    """Evaluation questions of any number of sets, ready to be searched for. Weights are made within each set."""

    def __init__(self, questions: Sequence[Question], rule: Rule) -> None:
        self.rule = rule
        self._indexed: list[_Indexed] = []
        self._equal: dict[Wording, list[int]] = defaultdict(list)
        self._by_key: dict[Shingle, list[int]] = defaultdict(list)
        by_set: dict[str, list[tuple[Question, Wording]]] = defaultdict(list)
        for question in questions:
            by_set[question.set_name].append((question, wording(question.text)))
        for members in by_set.values():
            self._add(members)
        self._minhash = None
        if rule.candidates == "minhash":
            from agentmath.data.minhash import MinHashCandidates

            self._minhash = MinHashCandidates(
                [entry.weights for entry in self._indexed], bands=rule.bands, rows=rule.rows_per_band
            )

    def _add(self, members: Sequence[tuple[Question, Wording]]) -> None:
        rule = self.rule
        all_weights = weigh((asked.words for _, asked in members), rule.shingle_words)
        for question, asked in members:
            weights = {shingle: all_weights[shingle] for shingle in shingles_of(asked.words, rule.shingle_words)}
            if not weights:
                continue
            number = len(self._indexed)
            self._indexed.append(_Indexed(question, asked, weights, sum(weights.values())))
            self._equal[asked].append(number)
            for shingle in keys_of(weights, rule.containment):
                self._by_key[shingle].append(number)

    def match(self, text: str, answer: str | None = None) -> list[Match]:
        """All questions that the text is flagged for, in their order; answer: the text's gold answer if it is known."""
        given = wording(text)
        equal = self._equal.get(given, [])
        run = shingles_of(given.words, self.rule.shingle_words)
        if self._minhash is None and not equal and self._by_key.keys().isdisjoint(run):
            return []
        shingles = set(run)
        if self._minhash is None:
            candidates = {number for shingle in self._by_key.keys() & shingles for number in self._by_key[shingle]}
        else:
            candidates = set(self._minhash.find(shingles))
        matches = (
            self._equal_match(number) if number in equal else self._contained(number, given, shingles, answer)
            for number in sorted(candidates.union(equal))
        )
        return [match for match in matches if match is not None]

    def _equal_match(self, number: int) -> Match:
        entry = self._indexed[number]
        return Match(
            question=entry.question,
            verdict=Verdict.CONTAMINATED,
            reason="equal after normalising",
            share=1.0,
            weighted_share=1.0,
            passage=" ".join(entry.wording.words),
        )

    def _contained(self, number: int, given: Wording, shingles: set[Shingle], answer: str | None) -> Match | None:
        entry, least = self._indexed[number], self.rule.containment - 1e-9
        common = entry.weights.keys() & shingles
        if max(len(common) / len(entry.weights), sum(entry.weights[s] for s in common) / entry.total) < least:
            return None
        num_words = len(entry.wording.words)
        passage = best_passage(given.words, entry.weights, self.rule.shingle_words, num_words)
        if max(passage.share, passage.weighted_share) < least:
            return None
        if passage.weighted_share < least:
            verdict, reason = Verdict.BOILERPLATE, "shares wording that many questions of the set have"
        else:
            difference = next(self._differences(entry, given, passage, answer), None)
            verdict = Verdict.VARIANT if difference else Verdict.CONTAMINATED
            reason = difference or "contains the question"
        return Match(
            question=entry.question,
            verdict=verdict,
            reason=reason,
            share=round(passage.share, 4),
            weighted_share=round(passage.weighted_share, 4),
            passage=" ".join(given.words[passage.start : passage.end]),
        )

    def _differences(self, entry: _Indexed, given: Wording, passage: Passage, answer: str | None) -> Iterator[str]:
        """What makes the text another problem than the question."""
        asked = entry.wording
        # Copies that were reworded may have moved a number out of the passage, but hardly far.
        near = given.words[max(passage.start - len(asked.words), 0) : passage.end + len(asked.words)]
        if missing := numbers_of(asked.words) - numbers_of(near):
            yield f"lacks {', '.join(sorted(missing, key=lambda number: (len(number), number)))[:160]}"
        if asked.drawing and given.drawing:
            length = self.rule.shingle_words
            drawn = set(shingles_of(asked.drawing, length))
            if len(drawn & set(shingles_of(given.drawing, length))) < self.rule.containment * len(drawn):
                yield "has another drawing"
        if answer is not None and entry.question.answer is not None and answers_differ(answer, entry.question.answer):
            yield f"answers differ: {answer[:80]} and {entry.question.answer[:80]}"


def answers_differ(one: str, other: str) -> bool:
    """True only where two gold answers are surely not the same: "x = 5" and "5" may be."""
    first, second = answer_value(one), answer_value(other)
    if first is not None and second is not None:
        return first != second
    shorter, longer = sorted((wording(one).words, wording(other).words), key=len)
    return all(longer[i : i + len(shorter)] != shorter for i in range(len(longer) - len(shorter) + 1))
