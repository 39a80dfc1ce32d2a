from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.rewards.evaluate import evaluate, point
from agentmath.rewards.expressions import MAX_CHARS, parse
from agentmath.rewards.nodes import Unreadable
from agentmath.rewards.values import Arithmetic


def value(text: str) -> Fraction:
    number = evaluate(parse(text), point(0), Arithmetic()).rational
    assert number is not None
    return number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2+3*4", 14),
        ("-2^2", -4),
        ("2^{3}^{2}", 512),
        ("2**10", 1024),
        ("10^{-2}", Fraction(1, 100)),
        (r"\frac12", Fraction(1, 2)),
        (r"\frac3{3}", 1),
        (r"\frac 34", Fraction(3, 4)),
        (r"2\frac{1}{2}", Fraction(5, 2)),
        (r"-13\frac{1}{2}", Fraction(-27, 2)),
        (r"2\frac{3}{2}", 3),
        ("2(3+4)", 14),
        ("3(1/2)", Fraction(3, 2)),
        ("5!", 120),
        (r"\binom{5}{2}", 10),
        (r"\sqrt{16}", 4),
        (r"\sqrt[3]{-8}", -2),
        ("|3-5|", 2),
        ("1.2*10^{-4}", Fraction(12, 100000)),
        ("1e+20", 10**20),
        (".5", Fraction(1, 2)),
        ("007", 7),
    ],
)
def test_an_expression_has_the_value_that_people_read(text: str, number: Fraction | int) -> None:
    assert value(text) == number


@pytest.mark.parametrize(
    "text", ["", "1+", "(1", "1)", "2 3", "204_5", r"\int x", "1..2", "exit()", "a = b", r"\frac{1}", "[1,2]", "\x00"]
)
def test_what_is_not_an_expression_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        parse(text)


@pytest.mark.parametrize("text", ["(" * 500 + "1" + ")" * 500, "2^" * 300 + "2", "1/" * 400 + "1", "5" + "!" * 900])
def test_deep_nesting_is_refused_before_it_can_overflow(text: str) -> None:
    with pytest.raises(Unreadable, match=r"deeper|inside each other"):
        parse(text)


def test_long_text_is_refused() -> None:
    with pytest.raises(Unreadable, match="characters"):
        parse("1+" * MAX_CHARS + "1")


@given(st.text(alphabet="0123456789+-*/^_(){}[]|!. \\abcefinopqrstx", max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        node = parse(text)
    except Unreadable:
        return
    assert node.height >= 1
