from __future__ import annotations

from fractions import Fraction

from agentmath.rewards.evaluate import NUM_POINTS, applies, evaluate, point
from agentmath.rewards.expressions import parse
from agentmath.rewards.values import Arithmetic


def test_a_point_gives_each_name_the_same_number_always_and_other_names_others() -> None:
    numbers = [point(i)(name) for i in range(NUM_POINTS) for name in ("x", "y", "x_1")]
    assert len(set(numbers)) == len(numbers)
    assert numbers == [point(i)(name) for i in range(NUM_POINTS) for name in ("x", "y", "x_1")]


def test_points_lie_above_one_between_and_below_zero() -> None:
    assert [point(i)("x") > 2 for i in (0, 1)] == [True, True]
    assert 0 < point(2)("x") < 1
    assert point(3)("x") < 0


def test_roots_and_logarithms_of_symbols_are_not_tried_below_zero() -> None:
    assert applies(parse("x^2"), NUM_POINTS - 1)
    assert not applies(parse(r"\sqrt{x}"), NUM_POINTS - 1)
    assert not applies(parse(r"\ln x"), NUM_POINTS - 1)
    assert not applies(parse("2^x"), NUM_POINTS - 1)
    assert applies(parse(r"\sqrt{2} x"), NUM_POINTS - 1)


def test_polynomials_are_exact_at_points() -> None:
    x = point(0)("x")
    assert evaluate(parse("(x+1)^2 - 2x"), point(0), Arithmetic()).rational == x * x + 1


def test_degrees_count_inside_of_functions() -> None:
    arithmetic = Arithmetic()
    half = evaluate(parse(r"\sin 30^\circ"), point(0), arithmetic)
    assert arithmetic.agree(half, evaluate(parse(r"\frac12"), point(0), arithmetic))
    assert evaluate(parse(r"\log_2 8"), point(0), arithmetic).re == 3 or arithmetic.agree(
        evaluate(parse(r"\log_2 8"), point(0), arithmetic), evaluate(parse("3"), point(0), arithmetic)
    )
    assert evaluate(parse(r"\sqrt{\frac{9}{4}}"), point(0), arithmetic).rational == Fraction(3, 2)
