from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.core.types import Task
from agentmath.data.overview import answer_kind, bands, overview
from agentmath.data.sources import Source, SourceCounts


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("42", "integer"), ("-7", "integer"), ("1,250", "integer"), ("$18", "integer"), ("035", "integer"),
        ("0.5", "number"), ("3/4", "number"), (r"\frac{1}{2}", "number"), ("25%", "number"), ("2.0", "number"),
        (r"\sqrt{2}", "expression"), ("x + 1", "expression"), ("(1, 2)", "expression"), (r"10\pi", "expression"),
        ("Evelyn", "words"), (r"\text{east}", "words"), ("B", "words"), ("(C)", "words"), ("New York", "words"),
    ],
)  # fmt: skip
def test_answers_are_told_apart(answer: str, kind: str) -> None:
    assert answer_kind(answer) == kind


def test_figures_by_hand() -> None:
    tasks = [Task(id=str(i), question="x" * i, answer="1" if i % 2 else "ab cd") for i in range(1, 101)]
    found = overview(Source(name="s", tasks=tasks, counts=SourceCounts(rows=100, kept=100)), 3)
    assert found.question_chars == {5: 5, 50: 50, 95: 95, 100: 100}
    assert found.answers == {"integer": 50, "words": 50}
    assert [t.id for t in found.samples] == ["1", "34", "67"]
    assert found.counts["rows"] == 100
    few = overview(Source(name="s", tasks=tasks[:2], counts=SourceCounts(rows=2, kept=2)), 3)
    assert [t.id for t in few.samples] == ["1", "2"]


def test_few_levels_are_shown_each_and_many_as_ranges() -> None:
    assert list(bands(Counter({"10": 1, "2": 3, "0.5": 2})).items()) == [("0.5", 2), ("2", 3), ("10", 1)]
    assert bands(Counter({str(i): 1 for i in range(20)})) == {f"{i}..{i + 3}": 4 for i in range(0, 20, 4)}


@given(st.dictionaries(st.integers(-50, 50).map(str), st.integers(1, 30), max_size=60))
def test_every_task_is_in_one_band(counts: dict[str, int]) -> None:
    found = bands(Counter(counts))
    assert sum(found.values()) == sum(counts.values())
    assert len(found) <= 12
