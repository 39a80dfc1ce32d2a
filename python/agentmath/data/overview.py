"""A source in figures: what its answers are, how long its questions, how hard its tasks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentmath.core.types import Task
from agentmath.data.sources import Source
from agentmath.data.wording import answer_value

PERCENTILES = (5, 50, 95, 100)
_MAX_BANDS = 12
_TEXT_COMMAND = re.compile(r"\\(?:text|mathrm|textbf|mbox)\s*\{([^{}]*)\}")
_WORDS = re.compile(r"[^\W\d_]{2,}(?:[\s.,'-]+[^\W\d_]+)*[.!]?|\(?[A-Z]\)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Figures of one source."""

    name: str
    counts: dict[str, Any]
    """As in data.sources.SourceCounts."""
    answers: dict[str, int]
    """Tasks by what their answer is: integer, number, expression, words."""
    question_chars: dict[int, int]
    """Length of the question at each of PERCENTILES."""
    bands: dict[str, int]
    """Tasks by difficulty: each value, or ranges of about equal numbers of tasks where there are many."""
    samples: list[Task]


def overview(source: Source, num_samples: int) -> Overview:
    """Figures and a few tasks, spread over the source."""
    counts = source.counts
    num = min(num_samples, len(source.tasks))
    lengths = sorted(len(task.question) for task in source.tasks)
    kinds = Counter(answer_kind(task.answer) for task in source.tasks)
    return Overview(
        name=source.name,
        counts={
            "rows": counts.rows,
            "kept": counts.kept,
            "repeats": counts.repeats,
            "conflicting": counts.conflicting,
            "bad": dict(counts.bad),
            "outside": dict(counts.outside),
            "instructions": counts.instructions,
        },
        answers={kind: kinds[kind] for kind in ("integer", "number", "expression", "words") if kinds[kind]},
        question_chars={p: lengths[max(0, -(-p * len(lengths) // 100) - 1)] for p in PERCENTILES},
        bands=bands(counts.difficulties),
        samples=[source.tasks[i * len(source.tasks) // num] for i in range(num)],
    )


def answer_kind(answer: str) -> str:
    """integer ("1,250", "$18"), number ("0.5", "3/4", "5%"), words ("Evelyn", "B"), or expression for all others."""
    value = answer_value(answer)
    if value is not None:
        return "integer" if value.denominator == 1 and "." not in answer and "%" not in answer else "number"
    plain = _TEXT_COMMAND.sub(r"\1", answer).strip(" $.")
    return "words" if _WORDS.fullmatch(plain) else "expression"


def bands(difficulties: Counter[str]) -> dict[str, int]:
    """Tasks by difficulty, easiest number first; many different values become ranges, "2..3.5" both ends included."""
    values = sorted(difficulties.items(), key=lambda item: float(item[0]))
    if len(values) <= _MAX_BANDS:
        return dict(values)
    return dict(_ranges(values, difficulties.total() / 5))


def _ranges(values: Sequence[tuple[str, int]], wanted: float) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    first, count = values[0][0], 0
    for i, (value, num) in enumerate(values):
        count += num
        if count >= wanted or i == len(values) - 1:
            found.append((value if first == value else f"{first}..{value}", count))
            first, count = values[min(i + 1, len(values) - 1)][0], 0
    return found
