from __future__ import annotations

import numpy as np
import pytest

from agentmath.core.errors import EngineError
from agentmath.engines.parity import Expected, check, compare

ROWS = [np.array([1, 2, 3], dtype=np.int32), np.array([4, 5], dtype=np.int32)]


def expected(*logprobs: list[float]) -> Expected:
    return Expected(version=3, rows=ROWS, logprobs=[np.array(row, dtype=np.float32) for row in logprobs])


def arrays(*rows: list[float]) -> list[np.ndarray]:
    return [np.array(row, dtype=np.float32) for row in rows]


def test_the_mean_is_over_tokens_and_signs_do_not_cancel():
    parity = compare(expected([-1.0, -2.0], [-3.0]), arrays([-1.5, -1.5], [-3.5]))
    assert (parity.mean, parity.largest) == (0.5, 0.5)


def test_equal_numbers_pass_a_tolerance_of_nothing():
    assert check("engine 0", expected([-1.0, -2.0], [-3.0]), arrays([-1.0, -2.0], [-3.0]), 0.0).mean == 0.0


def test_numbers_that_are_too_far_are_refused_with_the_values_and_the_setting():
    with pytest.raises(EngineError) as caught:
        check("engine 1 (vllm)", expected([-1.0, -2.0], [-3.0]), arrays([-1.0, -2.0], [-2.7]), 0.05)
    text = str(caught.value)
    for part in ("engine 1 (vllm)", "version 3", "2 fixed prompts", "by 0.1 on average", "0.3 at most", "0.05"):
        assert part in text


def test_numbers_that_are_not_finite_or_missing_are_refused():
    with pytest.raises(EngineError, match="1 of 3 log-probs of the parity prompts are not finite"):
        compare(expected([-1.0, -2.0], [-3.0]), arrays([-1.0, float("nan")], [-3.0]))
    with pytest.raises(EngineError, match="gave 2 log-probs of the parity prompts, 3 were expected"):
        compare(expected([-1.0, -2.0], [-3.0]), arrays([-1.0], [-3.0]))
