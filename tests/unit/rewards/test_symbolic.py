from __future__ import annotations

import cmath
import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agentmath.config.grading import GradingSection
from agentmath.rewards.expressions import read_expression
from agentmath.rewards.symbolic import _read, is_multiple, same_value


def same(gold: str, prediction: str) -> bool:
    return same_value(read_expression(gold), read_expression(prediction), GradingSection())


@pytest.mark.parametrize(
    ("gold", "prediction"),
    [
        (r"\sqrt{12}", r"2\sqrt{3}"),
        (r"\sqrt{2}+\sqrt{3}", r"\sqrt{5+2\sqrt{6}}"),
        (r"\sin^2 x+\cos^2 x", "1"),
        (r"e^{i\pi}", "-1"),
        (r"\frac{1}{1+i}", r"\frac{1-i}{2}"),
        (r"\binom{n}{2}", r"\frac{n(n-1)}{2}"),
        (r"\sqrt{1/n}", r"\frac{1}{\sqrt{n}}"),
        (r"\log_2 x", r"\frac{\ln x}{\ln 2}"),
        ("n(n-1)!", "n!"),
        ("2^{25} * 26!", "26! * 2^{25}"),
        (r"\pi", "3.14159265"),
        (r"9^{9^{9}}", r"9^{3^{18}}"),
        (r"\frac{1}{2}+\frac{1}{3}", r"\frac{5}{6}"),
        (r"\lfloor \pi\rfloor", "3"),
        ("|3-5|", "2"),
        (r"\sqrt{2}\sqrt{2}-2", "0x"),
        ("i^2", "-1"),
        ("1+i^3", "1-i"),
    ],
)
def test_expressions_of_one_value_are_the_same(gold: str, prediction: str) -> None:
    assert same(gold, prediction)


@pytest.mark.parametrize(
    ("gold", "prediction"),
    [
        (r"\frac{1}{2^{99}}", r"\frac{1}{2^{98}}"),
        (r"\frac{1}{2004!}", r"\frac{1}{2006!}"),
        ("e^{-40}", "e^{-41}"),
        ("x^2", "x^2+10^{-30}"),
        ("x", "X"),
        ("x'", "x"),
        ("|x|", "x"),
        (r"\pi", r"\frac{22}{7}"),
        (r"\pi", "3.1416"),
        (r"2(3)\pi", r"5\pi"),
        (r"\frac{1}{0}", "1"),
        ("12345678901234567x", "12345678901234568x"),
        (r"9^{9^{9}}", r"9^{9^{8}}"),
        ("i", "i^3"),
        ("1+i", "1+i^2"),
    ],
)
def test_expressions_that_differ_a_little_differ(gold: str, prediction: str) -> None:
    assert not same(gold, prediction)


Valued = tuple[str, complex]


def _binary(sides: tuple[Valued, Valued, str]) -> Valued:
    (a, x), (b, y), sign = sides
    match sign:
        case "+":
            return f"{a}+{b}", x + y
        case "-":
            return f"{a}-({b})", x - y
        case "*":
            return f"({a})({b})", x * y
        case _:
            return rf"\frac{{{a}}}{{{b}}}", x / y if y else cmath.nan


def _power(base: tuple[Valued, int]) -> Valued:
    (a, x), n = base
    return (f"{a}^{{{n}}}" if len(a) == 1 else f"({a})^{{{n}}}"), x**n if x or n > 0 else cmath.nan


leaves = st.sampled_from([("2", 2), ("3", 3), ("12", 12), (".5", 0.5), ("i", 1j), ("e", math.e), (r"\pi ", math.pi)])
trees = st.recursive(
    leaves.map(lambda leaf: (leaf[0], complex(leaf[1]))),
    lambda inner: st.one_of(
        st.tuples(inner, inner, st.sampled_from("+-*/")).map(_binary),
        st.tuples(inner, st.integers(-3, 3)).map(_power),
    ),
    max_leaves=6,
)


@given(trees)
@settings(max_examples=150, deadline=None)
def test_the_library_reads_what_was_written(tree: Valued) -> None:
    text, value = tree
    assume(cmath.isfinite(value) and abs(value) < 1e12)
    found = complex(_read(read_expression(text).latex).evalf(30))
    assert abs(found - value) <= 1e-6 * max(1, abs(value))


def test_equations_are_multiples_and_relations_positive_ones() -> None:
    a, b = read_expression("2x+4y-3"), read_expression("-x-2y+3/2")
    assert is_multiple(a, b, positive=False)
    assert not is_multiple(a, b, positive=True)
    assert not is_multiple(a, read_expression("2x+4y+3"), positive=False)
    assert not is_multiple(read_expression("x^2+1"), read_expression("x^2+2"), positive=False)
    assert not is_multiple(read_expression("1"), read_expression("2"), positive=False)
