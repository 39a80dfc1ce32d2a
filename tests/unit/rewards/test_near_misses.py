"""Pairs that differ by a sign, a digit, an order, a bracket or a name, beside pairs that only look different."""

from __future__ import annotations

import json
from pathlib import Path

from agentmath.config.grading import GradingSection
from agentmath.rewards.grader import Grader, Question

PAIRS = [json.loads(line) for line in Path(__file__).with_suffix(".jsonl").read_text("utf-8").splitlines()]


def test_near_misses_are_wrong_and_other_spellings_right() -> None:
    with Grader(GradingSection()) as grader:
        questions = [Question(gold=p["gold"], prediction=p["prediction"], form="answer") for p in PAIRS]
        verdicts = list(grader.grade_many(questions))
    assert [p for p, v in zip(PAIRS, verdicts, strict=True) if v.match is not p["match"]] == []
    assert sum(not p["match"] for p in PAIRS) > 150
