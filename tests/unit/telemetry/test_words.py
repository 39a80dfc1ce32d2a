from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.telemetry.words import duration, number, printable, sparkline


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (8123.4, "8,123"),
        (123.4, "123"),
        (12.34, "12.3"),
        (1.0, "1.00"),
        (0.875, "0.875"),
        (0.0, "0.000"),
        (-0.25, "-0.250"),
        (3e-7, "3.0e-07"),
        (2.5e12, "2.50e+12"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
    ],
)
def test_numbers_have_about_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_durations_count_hours_only_when_there_are_any() -> None:
    assert [duration(s) for s in (0, 7.4, 59.6, 723, 3723, -5)] == ["0:00", "0:07", "1:00", "12:03", "1:02:03", "0:00"]


def test_a_sparkline_goes_from_the_lowest_to_the_highest_block() -> None:
    assert sparkline([0.0, 0.5, 1.0, math.nan, 7.0]) == "\u2581\u2585\u2588 \u2588"


@given(st.text())
def test_printable_text_holds_no_sign_that_steers_a_terminal(text: str) -> None:
    assert all(c == "\n" or c.isprintable() for c in printable(text))


def test_escapes_and_directions_are_written_out() -> None:
    assert printable("a\x1b[31m\u202eb\tc") == "a\\x1b[31m\\u202eb    c"
