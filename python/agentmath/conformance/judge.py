"""Whether a framework's answer to a case is the expected one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from agentmath.conformance.cases import Answer, Case

Framework = Callable[[Case], Answer]
"""Answers a case; raising is recorded as a verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one case."""

    case: Case
    outcome: str
    """"agrees", "differs", "unsupported", "error"."""
    got: Answer
    detail: str
    """Where it differs most, or why there is no answer."""


def examine(cases: Iterable[Case], framework: Framework) -> list[Verdict]:
    """The verdict of every case."""
    return [judge(case, _answer(case, framework)) for case in cases]


def _answer(case: Case, framework: Framework) -> Answer:
    try:
        return framework(case)
    # The boundary to other people's code: whatever it raises is its answer.
    except Exception as fault:
        return {"error": f"{type(fault).__name__}: {fault}"}


def judge(case: Case, answer: Answer) -> Verdict:
    """Compare every number of the expected answer; names that were not asked for are passed over."""
    for outcome in ("unsupported", "error"):
        if outcome in answer:
            return Verdict(case=case, outcome=outcome, got=answer, detail=str(answer[outcome]))
    worst, place = 0.0, ""
    for name, expected in case.expected.items():
        error, where = _distance(answer.get(name), expected, name)
        if not error <= worst:
            worst, place = error, where
    agrees = worst <= case.tolerance
    return Verdict(case=case, outcome="agrees" if agrees else "differs", got=answer, detail="" if agrees else place)


def _distance(got: Any, expected: Any, where: str) -> tuple[float, str]:
    """Largest |got - expected| / (1 + |expected|) and where it stands; infinite where the shape or a NaN differs."""
    if isinstance(expected, list):
        if not isinstance(got, list) or len(got) != len(expected):
            return math.inf, f"{where}: expected {len(expected)} values, got {_short(got)}"
        pairs = [_distance(g, e, f"{where}[{i}]") for i, (g, e) in enumerate(zip(got, expected, strict=True))]
        return max(pairs, key=lambda pair: pair[0], default=(0.0, where))
    if not isinstance(got, int | float) or isinstance(got, bool) or not math.isfinite(got):
        return math.inf, f"{where}: expected {expected:.6g}, got {_short(got)}"
    return abs(got - expected) / (1 + abs(expected)), f"{where}: expected {expected:.6g}, got {got:.6g}"


def _short(value: Any) -> str:
    return "nothing" if value is None else str(value)[:40]
