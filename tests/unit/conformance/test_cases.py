from __future__ import annotations

import copy
import json
import math
from typing import Any

import pytest

from agentmath.conformance.cases import Case, numbers, read_answers, shipped_cases, words, written
from agentmath.core.errors import DataError
from loss_oracle import expected, loss_and_gradient

CASES = shipped_cases()
LOSSES = [case for case in CASES if case.kind == "loss"]


def named(name: str) -> Case:
    return next(case for case in CASES if case.id == name)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_is_expected_is_what_plain_arithmetic_gives(case: Case):
    assert case.expected == expected(case.kind, case.settings, case.inputs)


@pytest.mark.parametrize("case", LOSSES, ids=lambda case: case.id)
def test_the_expected_gradient_is_that_of_the_expected_loss(case: Case):
    """By finite differences; what is held constant is held, by giving it as numbers of its own."""
    if case.settings["surrogate"] == "cispo":
        pytest.skip("its weight is a constant that moves with the log-probs: no derivative of this loss")
    step = 1e-6
    inputs: dict[str, Any] = copy.deepcopy(dict(case.inputs))
    inputs["old_logprobs"] = inputs["old_logprobs"] or copy.deepcopy(inputs["logprobs"])
    for s, row in enumerate(case.inputs["mask"]):
        for t, counts in enumerate(row):
            here = inputs["logprobs"][s][t]
            ends = []
            for move in (step, -step):
                inputs["logprobs"][s][t] = here + move
                ends.append(loss_and_gradient(case.settings, inputs)[0])
            inputs["logprobs"][s][t] = here
            slope = (ends[0] - ends[1]) / (2 * step) if counts else 0.0
            assert case.expected["gradient"][s][t] == pytest.approx(slope, abs=1e-6)


def test_numbers_worked_by_hand():
    """Three tokens of one sequence and three of another: -A / 6 each, and the loss -(3 x 1 - 3 x 0.5) / 6."""
    assert named("on-policy").expected == {
        "loss": pytest.approx(-0.25),
        "gradient": [[pytest.approx(-1 / 6)] * 3, [pytest.approx(0.5 / 6)] * 3],
    }
    assert named("advantage-rloo").expected["advantages"] == pytest.approx([0.75, -0.75, 0.0])
    assert named("dual-clip").expected["gradient"][0][0] == 0.0
    assert named("dual-clip").expected["loss"] == pytest.approx((10 + 1) / 2)
    assert named("clip-high").expected["loss"] == pytest.approx(-(1.28 + 1) / 2)
    mean_of_sequences = named("aggregation-seq-mean-token-mean").expected["gradient"]
    assert mean_of_sequences[1][0] == pytest.approx(0.5 / 3)


def test_every_case_has_a_name_of_its_own_and_finite_answers():
    assert len({case.id for case in CASES}) == len(CASES) >= 40
    assert all(case.why and case.tolerance > 0 for case in CASES)
    assert "NaN" not in json.dumps([dict(case.expected) for case in CASES])


def test_numbers_that_json_has_not_survive_as_words():
    case = named("mask-poisoned")
    assert math.isnan(case.inputs["logprobs"][0][1])
    again = Case(**numbers(json.loads(written(case))))
    assert again.settings == case.settings and math.isnan(again.inputs["logprobs"][0][1])
    assert words({"a": [math.inf, -math.inf, 1.5]}) == {"a": ["inf", "-inf", 1.5]}


def test_answers_are_read_line_by_line():
    lines = ['{"id": "a", "loss": "nan"}', "", '{"id": "b", "unsupported": "no"}']
    (first, answer), second = read_answers(lines, "f")
    assert first == "a" and math.isnan(answer["loss"])
    assert second == ("b", {"unsupported": "no"})


@pytest.mark.parametrize(
    ("line", "message"),
    [("{", "f, line 1: not JSON"), ("[1]", "f, line 1: expected an object"), ('{"loss": 1}', 'the "id" of a case')],
)
def test_a_broken_answer_names_its_line(line: str, message: str):
    with pytest.raises(DataError, match=message):
        list(read_answers([line], "f"))
