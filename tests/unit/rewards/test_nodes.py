from __future__ import annotations

import pytest

from agentmath.rewards.expressions import parse


@pytest.mark.parametrize(
    "text", ["7", "-2.5", r"\frac{3}{4}", r"\frac{-3}{4}", "3/4", r"2\frac12", "1.2*10^{-4}", "10^5"]
)
def test_numbers_without_work_left_are_literal(text: str) -> None:
    assert parse(text).is_literal


@pytest.mark.parametrize(
    "text", ["2+3", "76-25", r"\sqrt{16}", "2^3", "5!", "2*3", r"8\sqrt{10}", r"\pi", "x", r"\frac{1+1}{2}"]
)
def test_numbers_that_must_still_be_computed_are_not_literal(text: str) -> None:
    assert not parse(text).is_literal


def test_symbols_are_found_and_constants_are_none() -> None:
    assert parse(r"x_1 + \frac{y}{2} + \pi e^{i}").symbols == {"x_1", "y"}
