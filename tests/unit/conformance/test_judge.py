from __future__ import annotations

import math
from typing import Any

import pytest

from agentmath.conformance.cases import Case
from agentmath.conformance.judge import examine, judge

CASE = Case(
    id="one",
    kind="loss",
    why="",
    settings={},
    inputs={},
    expected={"loss": 2.0, "gradient": [[0.5, 0.0], [1.0, -1.0]]},
    tolerance=1e-5,
)
RIGHT: dict[str, Any] = {"loss": 2.0, "gradient": [[0.5, 0.0], [1.0, -1.0]]}


def test_equal_numbers_agree_and_small_rounding_does():
    assert judge(CASE, RIGHT).outcome == "agrees"
    assert judge(CASE, {**RIGHT, "loss": 2.00002, "more": 1}).outcome == "agrees"


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"loss": 2.001}, "loss: expected 2, got 2.001"),
        ({"loss": math.nan}, "loss: expected 2, got nan"),
        ({"loss": math.inf}, "loss: expected 2, got inf"),
        ({"loss": None}, "loss: expected 2, got nothing"),
        ({"loss": True}, "loss: expected 2, got True"),
        ({"gradient": [[0.5, 0.0], [1.0, -1.1]]}, r"gradient[1][1]: expected -1, got -1.1"),
        ({"gradient": [[0.5, 0.0]]}, "gradient: expected 2 values"),
        ({"gradient": [[0.5, 0.0], [1.0]]}, r"gradient[1]: expected 2 values"),
        ({"gradient": [[0.5, math.nan], [1.0, -1.0]]}, r"gradient[0][1]: expected 0, got nan"),
    ],
)
def test_what_differs_is_named(change: dict[str, Any], detail: str):
    verdict = judge(CASE, {**RIGHT, **change})
    assert verdict.outcome == "differs"
    assert detail in verdict.detail


def test_the_worst_place_is_named():
    verdict = judge(CASE, {"loss": 2.1, "gradient": [[0.5, 0.0], [9.0, -1.0]]})
    assert verdict.detail == "gradient[1][0]: expected 1, got 9"


def test_no_answer_is_neither_right_nor_wrong():
    assert judge(CASE, {"unsupported": "no such loss"}).outcome == "unsupported"


def test_a_framework_that_raises_has_said_so():
    def broken(case: Case) -> Any:
        raise KeyError("x")

    (verdict,) = examine([CASE], broken)
    assert (verdict.outcome, verdict.detail) == ("error", "KeyError: 'x'")
