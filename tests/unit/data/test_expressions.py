from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.data.expressions import (
    MAX_CHARS,
    Unconvertible,
    exact_value,
    intermediate_results,
    num_operations,
    number_text,
    parse_arithmetic,
    parse_number,
    program_value,
    whole_divisions,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("( 76.0 - 25.0 )", 51),
        ("12*34+5", 413),
        ("05 + .5", Fraction(11, 2)),
        ("7 // 2 % 2", 1),
        ("-2**2", -4),
        ("0.1*3", Fraction(3, 10)),
    ],
)
def test_arithmetic_has_its_exact_value(text: str, value: Fraction | int) -> None:
    assert exact_value(parse_arithmetic(text)) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x + 1",
        "exit()",
        "__import__('os')",
        "1 if 2 else 3",
        "'a' * 9",
        "[1]",
        "True + 1",
        "1j",
        "1 << 9",
        "~1",
        "1,2",
        "\x00",
        "1" * MAX_CHARS + "1",
        "(" * 400,
    ],
)
def test_what_is_more_than_arithmetic_is_refused(text: str) -> None:
    with pytest.raises(Unconvertible):
        parse_arithmetic(text)


@pytest.mark.parametrize("text", ["9**9**9", "2**100000", "1/0", "1//0", "5%0", "2**0.5", "0**-1", "10**400*10**400"])
def test_calculations_without_a_bounded_value_are_refused(text: str) -> None:
    with pytest.raises(Unconvertible):
        exact_value(parse_arithmetic(text))


@given(st.text(alphabet="0123456789+-*/%(). x_e,'\n", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        exact_value(parse_arithmetic(text))
    except Unconvertible:
        return


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$1,000", 1000),
        ("20%", Fraction(1, 5)),
        (".5", Fraction(1, 2)),
        ("2 1/2", Fraction(5, 2)),
        ("1 000", 1000),
        ("-3", -3),
        ("18.90", Fraction(189, 10)),
        ("1/4", Fraction(1, 4)),
    ],
)
def test_numbers_are_read_as_people_write_them(text: str, value: Fraction | int) -> None:
    assert parse_number(text) == value


@pytest.mark.parametrize("text", ["", "x", "1/0", "1.2.3", "two", "%", "--", "1e5"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(Unconvertible):
        parse_number(text)


def test_steps_are_counted_and_valued_in_order() -> None:
    tree = parse_arithmetic("12*34+5")
    assert num_operations(tree) == 2
    assert intermediate_results(tree) == ("408", "413")
    assert intermediate_results(parse_arithmetic("(8-2)/4")) == ("6", "1.5")


@pytest.mark.parametrize(
    ("value", "text"),
    [(Fraction(24), "24"), (Fraction(3, 2), "1.5"), (Fraction(1, 3), "1/3"), (Fraction(-1, 8), "-0.125")],
)
def test_numbers_are_written_without_needless_points(value: Fraction, text: str) -> None:
    assert number_text(value) == text


def test_whole_numbers_that_divide_without_rest_stay_whole() -> None:
    assert program_value(whole_divisions(parse_arithmetic("48/2"), {}), {}) == 24
    assert isinstance(program_value(whole_divisions(parse_arithmetic("48/2"), {}), {}), int)
    assert program_value(whole_divisions(parse_arithmetic("1/4*8"), {}), {}) == 2.0
