from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.rewards.expressions import MAX_CHARS, Unreadable, read_expression


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("2(3)", r"2\cdot (3)"),
        (r"2\frac12", r"(2+\frac{1}{2})"),
        (r"2\frac32", r"2\cdot \frac{3}{2}"),
        (r"2*\frac12", r"2\cdot \frac{1}{2}"),
        ("2.5", r"(\frac{5}{2})"),
        ("007", "7"),
        ("1/2x", r"1/2\cdot x_{120}"),
        ("2 - -3", "2+3"),
        ("2 * -3", r"2\cdot (-1)\cdot 3"),
        ("2^{3}^{2}", "2^{((3))^{(2)}}"),
        (r"\sqrt3", r"\sqrt{3}"),
        (r"\sqrt12", r"\sqrt{12}"),
        ("sqrt(3)", r"\sqrt{(3)}"),
        (r"\sin 2x\cos x", r"\sin(2\cdot x_{120})\cdot \cos(x_{120})"),
        (r"\sin^2 x", r"(\sin(x_{120}))^{2}"),
        (r"\sin^{-1} x", r"\arcsin(x_{120})"),
        (r"\log_2 8", r"\log_{2}(8)"),
        (r"30^\circ", r"((30)\cdot \frac{\pi}{180})"),
        ("i", "I"),
    ],
)
def test_what_the_library_misreads_is_spelt_out(text: str, latex: str) -> None:
    assert read_expression(text).latex == latex


def test_every_symbol_has_a_name_of_its_own() -> None:
    names = ["x", "X", "x'", "x''", "x_1", "x_{12}", "y", "d", "E", r"\text{x}", r"\alpha", r"\text{alpha}", "xy"]
    assert len({read_expression(name).latex for name in names}) == len(names)
    assert read_expression("x_{1}").latex == read_expression("x_1").latex


def test_symbols_and_decimals_are_known() -> None:
    assert read_expression("2x").has_symbols and not read_expression(r"2\pi e i").has_symbols
    assert read_expression("2.5").has_decimal and not read_expression("2").has_decimal


@pytest.mark.parametrize(
    "text",
    [
        *("", "1+", "*2", "(1", "1)", "2 3", "x2", "204_5", "1..2", "a = b", "[1,2]", "\x00", "5!!", "2^", "x_", "|x"),
        *(r"\int x", r"2\cdots 10", r"\frac{1}", r"\input{a}", r"\overline{AB}", r"\infty", "().__class__", "a;b"),
    ],
)
def test_what_is_not_an_expression_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        read_expression(text)


@pytest.mark.parametrize("text", ["(" * 500 + "1" + ")" * 500, "2^" * 300 + "2", "|(" * 600, r"\sqrt" * 300 + "2"])
def test_deep_nesting_is_refused_before_it_can_overflow(text: str) -> None:
    with pytest.raises(Unreadable):
        read_expression(text)


def test_long_text_is_refused() -> None:
    with pytest.raises(Unreadable, match="characters"):
        read_expression("1+" * MAX_CHARS + "1")


@given(st.text(alphabet="0123456789+-*/^_(){}[]|!. \\abcefinopqrstx", max_size=60))
def test_any_text_is_read_or_refused_and_nothing_of_it_reaches_the_library_but_digits(text: str) -> None:
    try:
        latex = read_expression(text).latex
    except Unreadable:
        return
    assert set(latex) <= set(r"0123456789+-/^_(){}[]|! \cdotrafpisqnbmeIxlgyhuk")
