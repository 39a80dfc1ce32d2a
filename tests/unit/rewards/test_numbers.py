from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.config.grading import GradingSection
from agentmath.rewards.numbers import (
    MAX_DIGITS,
    NUMBER_WORDS,
    Plain,
    join_decimal_comma,
    plain_number,
    rounding_error,
    same_number,
)


def within(tolerance: float) -> GradingSection:
    return GradingSection(decimal_tolerance=tolerance)


def plain(text: str) -> Plain:
    number = plain_number(text)
    assert number is not None
    return number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-007", -7),
        ("+2.50", Fraction(5, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("3/4", Fraction(3, 4)),
        ("-3/4", Fraction(-3, 4)),
        (r"\frac{3}{4}", Fraction(3, 4)),
        (r"-\frac{-3}{4}", Fraction(3, 4)),
        (r"\frac34", Fraction(3, 4)),
        (r"-13\frac{1}{2}", Fraction(-27, 2)),
        ("1.2*10^{-4}", Fraction(12, 100_000)),
        ("10^{3}", 1000),
        ("10**3", 1000),
        ("3e8", 3 * 10**8),
    ],
)
def test_a_plain_number_is_read_exactly(text: str, value: Fraction | int) -> None:
    assert plain(text).value == value


@pytest.mark.parametrize(
    "text",
    ["", "x", "2+3", "1/0", r"2\frac{3}{2}", "2^3", "10^{99999}", "1e99999", "1 2", "\u0663", "--1", "1/2/3", "5!"],
)
def test_what_has_work_left_in_it_or_is_undefined_is_no_plain_number(text: str) -> None:
    assert plain_number(text) is None


def test_a_number_with_too_many_digits_is_not_read() -> None:
    assert plain_number("7" * MAX_DIGITS) is not None
    assert plain_number("7" * (MAX_DIGITS + 1)) is None


@given(st.fractions(), st.fractions())
def test_fractions_are_the_same_only_when_equal(a: Fraction, b: Fraction) -> None:
    assert same_number(plain(str(a)), plain(str(b)), within(1e-6)) is (a == b)


def test_a_decimal_is_close_to_a_fraction_and_a_whole_number_only_equal() -> None:
    assert same_number(plain("1/3"), plain("0.33333333"), within(1e-6))
    assert not same_number(plain("1/3"), plain("0.333333"), within(1e-7))
    assert not same_number(plain("45"), plain("45.000001"), within(1e-2))
    assert not same_number(plain("0.5"), plain("0.5000001"), within(1e-6))
    assert same_number(plain("0.3"), plain("0.30000000000000004"), within(1e-6))


def test_only_decimals_of_three_digits_look_rounded() -> None:
    assert rounding_error(plain("33.3")) == Fraction(1, 20)
    assert [rounding_error(plain(text)) for text in ("0.5", "12", "333", "1/3", "1.5*10^{9}")] == [None] * 5


def test_reduced_fractions_are_known() -> None:
    assert plain("1/2").is_reduced
    assert not plain("2/4").is_reduced


def test_a_decimal_comma_is_told_from_thousands() -> None:
    assert join_decimal_comma("1000,99") == "1000.99"
    assert join_decimal_comma("1,000") == "1,000"
    assert join_decimal_comma("1,2,3") == "1,2,3"


def test_number_words_reach_ninety_nine() -> None:
    assert (NUMBER_WORDS["two"], NUMBER_WORDS["twenty-one"], NUMBER_WORDS["ninetynine"]) == (2, 21, 99)
